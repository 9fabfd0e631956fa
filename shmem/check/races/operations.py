"""The operations of one execution: what comes before each of their moments, and what a task learns of single ones.

Those of contexts are complete up to a point (`clocks`). Those of queue pairs are completed one by one: `seen` of a
clock then has the id of an effect that is over, and ("source", id) and ("result", id) for their buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from ...fabric.events import NO_CONTEXT, Ended, Kind, Level, Operation, Received, Rung, Task, pe_of
from .accesses import Made
from .clocks import Clock, Running

DEFAULT = 0  # the context whose fences reach queue pairs


class Operations:
    """All that were posted so far."""

    def __init__(self) -> None:
        self.effects: dict[Hashable, Made] = {}
        self._posted: dict[Hashable, Clock] = {}
        self._groups: dict[Hashable, frozenset[Hashable]] = {}
        self._paired: dict[int, list[Made]] = {}  # by PE: those on queue pairs
        self._rung: dict[Hashable, tuple[Task, int]] = {}  # when their doorbell was
        self._fetching: set[Hashable] = set()

    def moments(self, event: Operation, clock: Clock) -> tuple[Clock, Clock, Clock]:
        """What comes before an operation, posted at some point, reads its source, has its effect, leaves its result."""
        source = self._after(event, "source", clock)
        begins = self._after(event, "at", source)
        result = self._after(event, "result", begins)
        if event.stores:
            begins = begins.shown()
        if event.kind is not Kind.GET:
            begins = self._fenced(event, begins)
        if event.carries is not None:
            begins = begins._replace(seen=begins.seen | self._groups.get(event.carries, frozenset()))
        return source, begins, result

    def _after(self, event: Operation, part: str, clock: Clock) -> Clock:
        for each in event.after:
            if each.part == part and (first := self.effects.get(each.id)) is not None:
                clock = clock.knows(first.clock, each.id, *([("result", each.id)] if each.answered else []))
        return clock

    def _fenced(self, event: Operation, clock: Clock) -> Clock:
        """With what was posted before a fence. One of the default context orders what goes through queue pairs, too,
        once it was rung for, and on its own queue pair before that."""
        paired = event.ctx < NO_CONTEXT
        clock = clock.fenced(DEFAULT if paired else event.ctx, event.target)
        for first in self._paired.get(pe_of(event.task), ()) if paired or event.ctx == DEFAULT else ():
            same = first.ctx == event.ctx
            task, point = (first.task, first.point) if same else self._rung.get(first.id, (first.task, 1 << 62))
            if first.target == event.target and clock.points.get(("fenced", task, DEFAULT), 0) >= point:
                clock = clock.knows(first.clock, first.id)
        return clock

    def add(self, event: Operation, effect: Made, posted: Clock) -> None:
        """Another operation; its effect."""
        self.effects[event.id], self._posted[event.id] = effect, posted
        if event.group is not None:
            self._groups[event.group] = self._groups.get(event.group, frozenset()) | {event.id}
        if event.result is not None and event.kind is not Kind.GET:
            self._fetching.add(event.id)
        if event.ctx < NO_CONTEXT and event.kind is not Kind.GET:
            self._paired.setdefault(pe_of(event.task), []).append(effect)

    def forget(self, kept: set[Hashable], aloft: Collection[Hashable]) -> None:
        """Drops all that is over, but for which operations of a group are kept, and for what is `aloft`. Not where
        there are queue pairs."""
        self._groups = {group: ids & kept for group, ids in self._groups.items() if ids & kept}
        self.effects = {id: self.effects[id] for id in aloft if id in self.effects}
        self._posted = {id: self._posted[id] for id in aloft if id in self._posted}
        self._fetching &= set(aloft)

    def rung(self, event: Rung, clock: Clock) -> None:
        """A doorbell."""
        self._rung |= dict.fromkeys(event.ids, (clock.task, clock.point))

    def ended(self, event: Ended, running: Running) -> list[Made]:
        """A task learns of completions; the atomics whose results it has."""
        seen = []
        for each in event.ids:
            effect = self.effects[each]
            if event.told:
                running.learn(self._posted[each])
            elif running.now().steps(effect.task) < effect.point:
                continue  # who waits for all of it covers what it knows of
            running.know(frozenset([("source", each)]))
            if event.level is Level.VISIBLE:
                running.know(frozenset([each, ("result", each)]))
                if not event.failed:
                    running.learn(effect.clock)
                    seen += [effect] if each in self._fetching else []
        return seen

    def received(self, event: Received, running: Running) -> None:
        """A receive has told of operations."""
        for each in (event.id, *event.covers):
            running.learn(self.effects[each].clock, [each])
