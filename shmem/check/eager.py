"""The slow oracle: every step of a PE and every delivery is a choice, all are tried.

It knows nothing of which steps commute; with `remember` it goes on from each state once. Every faster search is judged
by whether it finds the same outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .litmus.run import Run


@dataclass
class Found:
    """What a search saw."""

    outcomes: dict[Any, int] = field(default_factory=dict)  # how many executions ended so
    states: int = 0
    executions: int = 0
    complete: bool = True

    def end(self, outcome: Any) -> None:
        """Counts an execution."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.executions += 1


def search(first: Run, *, remember: bool = True, states_max: int = 2_000_000) -> Found:
    """All executions from a state on, depth first."""
    found = Found()
    seen: set[object] = set()
    stack = [first]
    while stack:
        run = stack.pop()
        found.states += 1
        if found.states > states_max:
            found.complete = False
            return found
        moves = run.moves()
        if not moves:
            found.end(run.outcome())
            continue
        for move in moves:
            after = run.copy()
            after.perform(move)
            if remember:
                digest = after.digest()
                if digest in seen:
                    continue
                seen.add(digest)
            stack.append(after)
    return found
