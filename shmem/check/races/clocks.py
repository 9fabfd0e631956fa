"""What has happened before a point of a program, as vector clocks.

A clock has an entry for each channel, and a channel counts by the points of one task: its own steps, the operations
that it posted on a context to a PE as far as they are complete at a level, its stores as far as others see them, what
it had posted before a fence. So one number says of all operations of a channel up to a point that they are complete:
quiet and fence cover prefixes. What a signal tells covers no prefix: single effects are kept beside the numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from ...fabric.events import Level, Task, pe_of

Channel = Hashable  # a task; ("store", task); ("fenced", task, ctx); (level, task, ctx, PE or None for all)


class Clock(NamedTuple):
    """What is known at a point of a task. Never changed: `points` belongs to nobody."""

    task: Task
    point: int
    points: Mapping[Channel, int]
    seen: frozenset[Hashable] = frozenset()

    def steps(self, task: Task) -> int:
        """The last step of a task that comes before this point."""
        return self.point if task == self.task else self.points.get(task, 0)

    def stores(self, task: Task, pe: int) -> int:
        """The last step of a task whose stores this point, of a task of that PE, sees."""
        if pe == pe_of(task):
            return self.steps(task)
        return self.points.get(("store", task), 0)

    def complete(self, level: Level, task: Task, ctx: int, target: int) -> int:
        """The last step of a task so that all it posted until then, on a context to a PE, is complete at a level."""
        points = self.points
        return max(points.get((level, task, ctx, None), 0), points.get((level, task, ctx, target), 0))

    def fenced(self, ctx: int, target: int) -> Clock:
        """The same for the effect of what its task posts now: what was posted before a fence has taken effect."""
        found: dict[Channel, int] = {
            (Level.VISIBLE, key[1], ctx, target): point
            for key, point in self.points.items()
            if type(key) is tuple and key[0] == "fenced" and key[2] == ctx and pe_of(key[1]) == pe_of(self.task)
        }  # fmt: skip
        return self._replace(points=joined(self.points, found)) if found else self

    def knows(self, other: Clock, *effects: Hashable) -> Clock:
        """The same, with all that comes before another point, and single effects."""
        seen = self.seen if other.seen.union(effects) <= self.seen else self.seen.union(other.seen, effects)
        return self._replace(points=joined(self.points, other.all()), seen=seen)

    def shown(self) -> Clock:
        """The same, where what its PE has stored is seen by all."""
        found: dict[Channel, int] = {("store", task): point for task, point in self.mates().items()}
        return self._replace(points=joined(self.points, found))

    def mates(self) -> dict[Task, int]:
        """The last steps of the tasks of its PE that come before, its own included."""
        pe = pe_of(self.task)
        every: dict[Any, int] = self.all()
        return {key: point for key, point in every.items() if _is_task(key) and pe_of(key) == pe}

    def all(self) -> dict[Channel, int]:
        """The entries, with that of its own task."""
        return {**self.points, self.task: max(self.point, self.points.get(self.task, 0))}


def joined(one: Mapping[Channel, int], other: Mapping[Channel, int]) -> Mapping[Channel, int]:
    """The later of the two in each entry."""
    if all(one.get(key, 0) >= point for key, point in other.items()):
        return one
    found = dict(one)
    for key, point in other.items():
        if point > found.get(key, 0):
            found[key] = point
    return found


class Running:
    """The clock of a task that goes on."""

    def __init__(self, task: Task) -> None:
        self.task, self.point = task, 0
        self.points: Mapping[Channel, int] = {}
        self.seen: frozenset[Hashable] = frozenset()
        self.pending: dict[Channel, int] = {}  # of a fence that may be part of a meeting

    def step(self) -> None:
        """Its next step."""
        self.point += 1
        if self.pending:
            self.points, self.pending = joined(self.points, self.pending), {}

    def now(self) -> Clock:
        """What it knows."""
        return Clock(self.task, self.point, self.points, self.seen)

    def learn(self, other: Clock, effects: Iterable[Hashable] = ()) -> None:
        """All that comes before another point comes before this one."""
        self.points = joined(self.points, other.all())
        self.know(other.seen.union(effects))

    def know(self, effects: frozenset[Hashable]) -> None:
        """Single effects have been seen."""
        if not effects <= self.seen:
            self.seen |= effects

    def mates(self) -> dict[Task, int]:
        """The last steps of the tasks of its PE that come before, its own included."""
        return self.now().mates()

    def set(self, entries: Mapping[Channel, int]) -> None:
        """Notes what it has made so."""
        self.points = joined(self.points, entries)

    def show_stores(self) -> None:
        """From here on the stores of its PE that come before are seen by all it tells."""
        self.set({("store", task): point for task, point in self.mates().items()})

    def fence(self, ctx: int, stores: bool) -> None:
        """A fence on a context."""
        if stores:
            self.show_stores()
        self.pending = {("fenced", task, ctx): point for task, point in self.mates().items()}

    def quiet(self, ctx: int, target: int | None, level: Level) -> None:
        """A completion."""
        levels = tuple(Level) if level is Level.VISIBLE else (level,)
        self.set({(each, task, ctx, target): at for each in levels for task, at in self.mates().items()})
        if level is Level.VISIBLE and target is None:
            self.show_stores()


def _is_task(key: Channel) -> bool:
    return isinstance(key, int) or (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], int))
