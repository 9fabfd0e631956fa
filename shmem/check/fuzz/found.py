"""What a campaign found: its numbers, its failure, the file of it, and all of that in words."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import config
from ...errors import ArgumentError
from ...fabric.nic.fabric import own_seed
from ...files import write_whole
from ...launch import TIMED_OUT
from ..saved import SCHEMA
from ..tokens import digest
from .printed import failed
from .runs import Plan, Run
from .twin import Twin

SAME = "the seeds change nothing: never were two things in flight that could change places"
SHOWN = 25  # lines of what a run printed


@dataclass
class Tally:
    """Of all runs that ended by themselves."""

    runs: int = 0
    seconds: float = 0.0
    orders: set[tuple[int, ...]] = field(default_factory=set)
    posted: int = 0
    fired: int = 0
    helped: int = 0
    passed: int = 0

    def add(self, run: Run) -> None:
        """Counts a run."""
        self.runs += 1
        if run.counts:
            self.orders.add(run.order)
        for each in run.counts.values():
            self.posted, self.fired = self.posted + each.posted, self.fired + each.fired
            self.helped, self.passed = self.helped + each.helped, self.passed + each.passed

    def __str__(self) -> str:
        if not self.runs:
            return "no run has ended"
        if not self.orders:
            return "no adapter did anything: the program does not start shmem, or not on nic"
        runs, orders = "1 run" if self.runs == 1 else f"{self.runs} runs", many(len(self.orders))
        per = f"{self.posted / self.runs:.0f} requests and {self.fired / self.runs:.0f} events in each"
        part = 100 * self.passed / max(self.posted, 1)
        text = f"{runs}, {orders} of events: {per}, {part:.0f} % of the requests passed an earlier one"
        return f"{text}\n  {SAME}" if self.runs > 1 and len(self.orders) == 1 else text


@dataclass
class Failure:
    """The first run that failed, and what was found out about it."""

    plan: Plan
    run: Run
    again: Sequence[Run] = ()  # with the same seed
    without: Run | None = None  # a seed
    twin: Twin | None = None
    twin_saved: Path | None = None

    @property
    def kind(self) -> str:
        """As everywhere: a wait that met its deadline is a deadlock."""
        if self.run.code == TIMED_OUT or "ShmemTimeout" in self.text:
            return "deadlock"
        return "assertion" if re.match(r"AssertionError\b", self.text) else "exception"

    @property
    def pe(self) -> int | None:
        """Who raised it, if anybody did."""
        return failed(self.run.output, self.run.code)[0]

    @property
    def text(self) -> str:
        """What was raised, else what the launcher said."""
        return failed(self.run.output, self.run.code)[1]

    @property
    def command(self) -> str:
        """What runs the seed again."""
        assert self.run.seed is not None
        return self.plan.command(self.run.seed)

    def save(self, out: str | None = None) -> Path:
        """Writes it into OUT/failures (default: `SHMEMU_OUT`). Raises ArgumentError if that can't be."""
        folder = Path(out if out is not None else config.read(warn=False).out) / "failures"
        plan = self.plan
        path = folder / f"{digest('fuzz', plan.argv, plan.n, plan.profile, self.run.seed)}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(self.data(), indent=1) + "\n")
        except OSError as error:
            raise ArgumentError(f"the failure can't be saved in {folder}: {error.strerror}") from None
        return path

    def data(self) -> dict[str, Any]:
        """The file."""
        plan, seed = self.plan, self.run.seed
        assert seed is not None
        adapters = [
            {"pe": pe, "seed": own_seed(seed, pe), "drawn": f"{each.drawn:016x}", "events": each.fired,
             "requests": each.posted, "passed": each.passed, "in_flight": each.in_flight}
            for pe, each in sorted(self.run.counts.items())
        ]  # fmt: skip
        found: dict[str, Any] = {
            "schema": SCHEMA, "program": plan.program, "arguments": plan.arguments, "n_pes": plan.n,
            "profile": plan.profile, "strategy": "fuzz", "seed": seed, "kind": self.kind, "pe": self.pe,
            "text": self.text, "token": "", "command": self.command, "exit_code": self.run.code,
            "output": self.run.output, "adapters": adapters,
            "again": {"runs": len(self.again), "failed": sum(run.failed for run in self.again)},
        }  # fmt: skip
        if self.without is not None:
            found["without_seed"] = {"exit_code": self.without.code}
        if self.twin is not None:
            found["sim"] = {"looked": self.twin.looked, "failure": self.twin.text, "command": self.twin.command}
        return found

    def __str__(self) -> str:
        who = "" if self.pe is None else f" of PE {self.pe}"
        lines = [f"{self.kind}{who}: {self.text}"]
        printed = self.run.output.rstrip().splitlines()
        lines += ["    ..."] if len(printed) > SHOWN else []
        lines += [f"    {line}" for line in printed[-SHOWN:]]
        lines += [f"  exit code {self.run.code}; {self._adapters()}"]
        lines += self._again()
        return "\n".join([*lines, *self._on_sim(), f"run it: {self.command}"])

    def _adapters(self) -> str:
        parts = [f"PE {pe} {each.fired} ({each.drawn:016x})" for pe, each in sorted(self.run.counts.items())]
        return f"events drawn: {', '.join(parts) or 'none'}"

    def _again(self) -> list[str]:
        lines = []
        if self.again:
            bad, n = sum(run.failed for run in self.again), len(self.again)
            orders = len({run.order for run in self.again if run.counts})
            rate = f"{bad} of {n} runs with this seed fail ({100 * bad / n:.0f} %)"
            lines.append(f"again: {rate}, in {many(orders)} of events")
            lines += ["  what the processes do when is not ours to repeat"] if 0 < bad < n else []
        if self.without is not None:
            how = "it fails, too" if self.without.failed else "no failure"
            lines.append(f"without a seed, where all arrives at once: {how}")
        return lines

    def _on_sim(self) -> list[str]:
        if (twin := self.twin) is None:
            return []
        if not twin.text:
            return [f"on sim: no failure ({twin.looked})"]
        saved = [f"  saved: {self.twin_saved}"] if self.twin_saved else []
        return [f"on sim: {twin.text} ({twin.looked})", f"  replay: {twin.command}", *saved]


def many(orders: int) -> str:
    """So many orders."""
    return "1 order" if orders == 1 else f"{orders} different orders"


def ended_by(number: int) -> str:
    """What ended a campaign."""
    return f"ended by {signal.Signals(number).name}"
