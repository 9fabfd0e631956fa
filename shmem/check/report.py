"""What an exploration found, in words that claim no more than was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..fabric.sim import TaskKey, name_of
from .found import Chance


@dataclass
class Failure:
    """One way in which a program failed. `str` shows it: what each PE did, and how to see it again."""

    kind: str  # "assertion" | "exception" | "deadlock" | "race" | "leak" | "torn" | "stale" | "clobber"
    who: TaskKey | None  # the PE (or its worker) that failed
    text: str
    token: str
    choices: list[int]
    error: BaseException | None = None
    story: str = ""  # in columns
    command: str = ""

    @property
    def pe(self) -> int | None:
        """The PE that failed, None where it was all of them."""
        return self.who[0] if isinstance(self.who, tuple) else self.who

    def __str__(self) -> str:
        whose = "" if self.who is None else f" of {name_of(self.who)}"
        parts = [f"{self.kind}{whose}: {self.text}", self.story, f"replay: {self.command or self.token}"]
        return "\n".join(part for part in parts if part)


@dataclass
class Report:
    """What `explore` found.

    ok: no failure. complete: every delivery and every order that can be told apart was looked at, within no bound.
    outcomes: how many executions had the PEs return what, of those that did not fail. races: how they were judged,
    "lenient" or "strict", "" if they were not.
    """

    program: str
    n_pes: int
    profile: str
    strategy: str
    seed: int
    races: str = ""
    executions: int = 0
    states: int = 0
    complete: bool = False
    seconds: float = 0.0
    cut: int = 0  # executions that were cut off for their length
    chance: Chance | None = None  # what the priorities of `pct` promise
    delays: int | None = None  # of `delay`: all in which at most so many moves were passed over were looked at
    outcomes: Counter[Any] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # why it is not complete, beyond the bounds; what it asks for

    @property
    def ok(self) -> bool:
        """Whether nothing failed in what was looked at."""
        return not self.failures

    def looked(self) -> str:
        """What was looked at."""
        if self.strategy == "replay":
            return "one execution"
        what = f"{self.executions} executions, {self.states} states, {self.seconds:.2f} s"
        if self.complete:
            return f"all of it: {what}"
        if self.chance is not None:
            return f"a sample: {what}\n  {self.chance}"
        if self.strategy == "random":
            if self.failures:
                return f"a sample: {what}"
            bound = 1 - 0.05 ** (1 / max(self.executions, 1))
            shown = f"{bound:.2g}" if bound < 1 else "1"
            return f"a sample: {what}; what happens in more than {shown} of such executions would have shown (95 %)"
        if self.delays is not None:
            return f"a part: {what}; all executions with at most {self.delays} moves kept back are in it"
        return f"a part: {what}"

    def __str__(self) -> str:
        head = f"{self.program}, {self.n_pes} PEs, profile {self.profile}, {self.strategy}"
        if self.strategy not in ("exhaustive", "eager", "delay", "replay"):
            head += f", seed {self.seed}"
        found = "no failure" if self.ok else f"{len(self.failures)} kinds of failure" if len(self.failures) > 1 else ""
        lines = [f"{head}: {found}".rstrip(": "), f"  {self.looked()}"]
        lines += [f"  {note}" for note in self.notes]
        lines += [str(failure) for failure in self.failures]
        return "\n".join(lines)
