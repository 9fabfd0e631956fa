"""What a search saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Chance:
    """What random priorities promise: where it is enough for a failure to hold back one party from the start, and at
    most d - 1 others from a move of theirs on, each execution has it with at least 1 / (n k^(d-1))."""

    depth: int  # d
    parties: int  # n, the most in any execution
    choices: int  # k, the most in any execution: places where several moves were possible, or a priority was changed
    executions: int  # that drew from all k, as the first ones do not

    @property
    def least(self) -> float:
        """The least probability that one execution has such a failure."""
        return 1.0 / (self.parties * float(max(self.choices, 1)) ** (self.depth - 1))

    @property
    def missed(self) -> float:
        """The most probability that none of them had it."""
        return (1.0 - self.least) ** self.executions

    def __str__(self) -> str:
        return (
            f"at most n={self.parties} parties and k={self.choices} choices: a failure of depth {self.depth} shows in "
            f"each with at least 1/(n k^{self.depth - 1}) = {self.least:.2g}, in none with at most {self.missed:.2g}"
        )


@dataclass
class Found:
    """What a search saw. `complete`: no bound was met."""

    outcomes: dict[Any, int] = field(default_factory=dict)  # how many executions ended so
    states: int = 0
    executions: int = 0
    complete: bool = True
    cut: int = 0  # executions that were cut off for their length
    chance: Chance | None = None  # what a sample promises
    delays: int | None = None  # every execution was looked at in which at most so many moves are passed over

    def end(self, outcome: Any) -> None:
        """Counts an execution."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.executions += 1
