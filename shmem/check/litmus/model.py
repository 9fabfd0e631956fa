"""The terms in which a litmus test is run: its layout in memory, the steps of a PE, the end of a run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...delivery.facts import Touch, Undone
from ...delivery.requests import Place
from .syntax import Statement, Test, Word

if TYPE_CHECKING:
    from .run import Run

WORD = 8
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Impossible(Exception):
    """A statement that a profile, or any queue pair, has no way to do."""


@dataclass(frozen=True)
class Step:
    """One step of a PE. `ready` and `touches` look at a run and change nothing."""

    statement: Statement
    run: Callable[[Run], None]
    ready: Callable[[Run], bool] = field(default=lambda run: True)
    touches: Callable[[Run], tuple[Touch, ...]] = field(default=lambda run: ())
    needs: Callable[[Run], list[object]] = field(default=lambda run: [])  # what has made it ready, of what others gave
    could: Callable[[Run, Undone], bool] | None = None  # of a wait: whether it is ready without some writes


class Layout:
    """Where the names of a test are: each begins a placement unit."""

    def __init__(self, test: Test, unit: int) -> None:
        self.unit = max(unit, WORD)
        self.symmetric, self.heap_bytes = self._place(test.symmetric)
        self.private, self.private_bytes = self._place(test.private)

    def _place(self, names: Any) -> tuple[dict[str, int], int]:
        at, found = 0, {}
        for name, (count, _) in names.items():
            found[name] = at
            at += -(-count * WORD // self.unit) * self.unit
        return found, at

    def place(self, pe: int, word: Word, count: int) -> Place | None:
        """Where a word of a PE is (of a whole array its first); None for a register."""
        for space, names in ((pe, self.symmetric), (("local", pe), self.private)):
            if word.name in names:
                base = names[word.name]
                return Place(space, base + word.lo * WORD, base + word.hi * WORD)
        return None


@dataclass(frozen=True)
class Outcome:
    """The end of a run: registers by PE, heaps by PE, and the PEs that were blocked."""

    registers: tuple[tuple[tuple[str, int], ...], ...]
    heaps: tuple[bytes, ...]
    blocked: tuple[int, ...]

    def satisfies(self, test: Test, layout: Layout) -> bool:
        """Whether it is the outcome that the test asks about."""
        return bool(self._value(test.outcome, layout))

    def _value(self, node: Any, layout: Layout) -> Any:
        kind = node[0]
        if kind == "either":
            return any(self._value(each, layout) for each in node[1:])
        if kind == "both":
            return all(self._value(each, layout) for each in node[1:])
        if kind == "negation":
            return not self._value(node[1], layout)
        if kind == "compare":
            return COMPARE[node[2]](self._value(node[1], layout), self._value(node[3], layout))
        if kind == "blocked":
            return node[1] in self.blocked
        if kind == "register_of":
            return dict(self.registers[node[1]]).get(node[2], 0)
        if kind == "final":
            place = layout.place(node[2], node[1], 1)
            assert place is not None
            return int.from_bytes(self.heaps[node[2]][place.lo : place.lo + WORD], "little")
        return node[1]
