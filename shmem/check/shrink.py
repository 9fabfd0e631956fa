"""Making a failing execution short: few deviations from the usual order, as late as possible.

A choice of 0 is the usual order, so a shorter list with fewer numbers in it is an execution that is easier to read.
What is tried: dropping the end, putting single choices back to 0 from the last one on, and making them smaller.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..fabric.sim import End, Program
from .executions import follow

RUNS_MAX = 400


def shrunk(program: Program, choices: list[int], wanted: End) -> list[int]:
    """An execution with fewer deviations that fails in the same way."""
    return _Shrinking(program, wanted).shrink(_trimmed(choices))


def _trimmed(choices: Sequence[int]) -> list[int]:
    last = max((i for i, choice in enumerate(choices) if choice), default=-1)
    return list(choices[: last + 1])


class _Shrinking:
    def __init__(self, program: Program, wanted: End) -> None:
        self.program, self.wanted, self.runs = program, wanted, 0

    def fails(self, choices: Sequence[int]) -> list[int] | None:
        """The choices made, if the execution fails in the same way."""
        if self.runs >= RUNS_MAX:
            return None
        self.runs += 1
        job, made = follow(self.program, choices)
        end = job.end()
        job.close()
        return _trimmed(made) if (end.kind, end.who) == (self.wanted.kind, self.wanted.who) else None

    def shrink(self, choices: list[int]) -> list[int]:
        """Repeats all that is tried until nothing helps."""
        best = choices
        while True:
            before = best
            best = self._shorter(best)
            best = self._calmer(best)
            if best == before:
                return best

    def _shorter(self, best: list[int]) -> list[int]:
        """Leaves off the end, half of it first."""
        drop = len(best) // 2
        while drop:
            found = self.fails(best[: len(best) - drop])
            if found is not None and _cost(found) < _cost(best):
                best = found
                drop = min(drop, len(best) // 2)
            else:
                drop //= 2
        return best

    def _calmer(self, best: list[int]) -> list[int]:
        """Puts choices back to the usual order, or nearer to it."""
        for i in range(len(best) - 1, -1, -1):
            if i >= len(best) or not best[i]:
                continue
            for value in dict.fromkeys((0, 1, best[i] - 1)):
                if value < best[i]:
                    found = self.fails([*best[:i], value, *best[i + 1 :]])
                    if found is not None and _cost(found) < _cost(best):
                        best = found
                        break
        return best


def _cost(choices: Sequence[int]) -> tuple[int, int, int]:
    """Few deviations first, then small ones, then a short list."""
    return sum(1 for choice in choices if choice), sum(choices), len(choices)
