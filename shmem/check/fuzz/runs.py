"""Runs of a program as processes over `nic`: one for each seed, without anything on the terminal but a bar.

A seed makes the choices of every adapter: which of the events that may happen next does. What processes do when is not
chosen: two runs with one seed may differ. Which orders there were the adapters tell (`fabric/nic/counts.py`).
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ... import launch
from ...errors import ArgumentError
from ...fabric.nic import counts
from ...progress import Drawing

TAIL = 8000  # bytes of what a run printed
GRACE_S = 10.0  # of a job beyond the deadline of its waits, which tell more
THOUSAND = 1000


@dataclass(frozen=True)
class Plan:
    """What is asked for: a program with its arguments as `run_job` takes them, and the bounds."""

    argv: tuple[str, ...]
    n: int
    profile: str
    first: int = 0
    seeds: int = 1
    minutes: float = 5.0
    timeout_s: float = 300.0

    @property
    def program(self) -> str:
        """The file, or -m and the module."""
        return shlex.join(self.argv[: self.words])

    @property
    def arguments(self) -> list[str]:
        """What the program gets."""
        return list(self.argv[self.words :])

    @property
    def words(self) -> int:
        """How many words the program itself is."""
        return 2 if self.argv[0] == "-m" else 1

    def command(self, seed: int) -> str:
        """What runs one seed again, with all that it prints."""
        words = ["-n", str(self.n), "--fabric", "nic", "--profile", self.profile, "--seed", str(seed)]
        return shlex.join(["shmemu", "run", *words, *self.argv])


@dataclass(frozen=True)
class Run:
    """How one run ended. stopped: the number of the signal to this process that ended it. counts: by PE."""

    seed: int | None
    code: int
    stopped: int | None
    output: str  # the end of what it printed
    counts: dict[int, counts.Counts]

    @property
    def failed(self) -> bool:
        """Whether it ended badly, and by itself."""
        return self.code != 0 and self.stopped is None

    @property
    def order(self) -> tuple[int, ...]:
        """What stands for the order of its events, on each PE."""
        return tuple(each.drawn for _, each in sorted(self.counts.items()))


class Bar(Drawing):
    """How far it is: on a terminal with each run, elsewhere a line for each tenth."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(Path(os.devnull), stream)
        self._state: dict[str, object] = {}

    def say(self, phase: str, part: float = 0.0, text: str = "") -> None:
        """What is being done, how much of it is, from 0 to 1, and what there is to say."""
        done = int(THOUSAND * min(part, 1.0))
        if not self.on_terminal and done // 100 == self._tenth(phase):
            return
        self._state = {"phase": phase, "done": done, "total": THOUSAND if part else 0, "text": text}
        self.poll()

    def _tenth(self, phase: str) -> int:
        return int(str(self._state["done"])) // 100 if self._state.get("phase") == phase else -1

    def poll(self) -> None:
        """Draws it."""
        if self._state:
            self.draw(self._state)


def run(plan: Plan, seed: int | None, bar: Bar) -> Run:
    """One run; without a seed what is sent arrives at once and in order. Raises ArgumentError, StateError."""
    told, stopped = dict[int, counts.Counts](), list[int | None]()

    def ended(folder: Path, by: int | None) -> None:
        told.update(counts.told(folder, plan.n))
        stopped.append(by)

    with tempfile.TemporaryFile(buffering=0) as output:
        audience = launch.Audience(output, bar, lambda folder: counts.ask(folder, plan.n), ended)
        env = {
            "SHMEMU_FABRIC": "nic", "SHMEMU_PROFILE": plan.profile, "SHMEMU_SEED": "" if seed is None else str(seed),
            "SHMEMU_TIMEOUT_S": str(plan.timeout_s),
        }  # fmt: skip
        limit = None if plan.timeout_s == float("inf") else plan.timeout_s + GRACE_S
        code = launch.run_job(plan.n, plan.argv, timeout=limit, env=env, audience=audience)
        output.seek(max(output.seek(0, os.SEEK_END) - TAIL, 0))
        text = output.read().decode("utf-8", "replace")
    return Run(seed, code, stopped[0], text, told)


def check(plan: Plan) -> None:
    """Raises ArgumentError for a program that can't be one."""
    launch.check_job(plan.n, plan.argv, plan.timeout_s)
    if not plan.minutes > 0:
        raise ArgumentError(f"--minutes is a number above 0, not {plan.minutes:g}")
    if plan.argv[0].endswith(".py") and os.path.isfile(plan.argv[0]):
        try:
            compile(Path(plan.argv[0]).read_bytes(), plan.argv[0], "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            place = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
            what = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ArgumentError(f"{plan.argv[0]}{place}: {type(error).__name__}: {what}") from None


class Clock:
    """The time that there is."""

    def __init__(self, minutes: float) -> None:
        self.begin = time.monotonic()
        self.limit_s = 60 * minutes

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self.begin

    @property
    def part(self) -> float:
        """How much of the time is over."""
        return self.seconds / self.limit_s
