"""Which accesses of one execution nothing orders: the contract's rules, applied to a stream of events.

Each access is compared with the earlier ones to the same bytes. It races with one that is not over where it begins
(`Made.before`): a plain access begins at its point of the program, what an operation does at the point where that was
posted, behind what was fenced before on its context to the same PE, and behind what its queue pair orders. When bytes
landed has no part in that: a race shows whatever their order was. What landed last is looked at only where somebody
waits for a word, to learn who made the value that ended the wait: an atomic that reads its word adds to it, everything
else replaces it.

Why one execution for each trace of the search is enough. Apart from program order, what is known of others comes only
from waits, tests, fetches, completions and locks, and from barriers, whose edges are always the same. Which writes a
wait has seen is the same in all executions of one trace if each of them conflicts with it; the search takes writes that
change no value for harmless, so where races are judged waits and fetches carry `Touch.marks`, which conflict with these
too. A plain load learns nothing: that it comes early or late changes neither what it knows nor what it races with, so
it may stay unordered with silent writes. And a search by partial orders keeps no states to cut executions short: an
execution is left out only if it is of a trace that is seen elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any

from ...fabric.events import (
    Access,
    Acquire,
    Answered,
    Ended,
    Event,
    Fence,
    Kind,
    Landed,
    LinesTaken,
    Operation,
    Quiet,
    Received,
    Release,
    Rung,
    Span,
    Task,
    Waited,
)
from .accesses import Made, Race, conflict
from .clocks import Clock, Running
from .history import PAGE, History, Landings
from .operations import Operations
from .reasons import Reasons


class Judge:
    """The judgement of one execution. `mode`: "lenient" or "strict", see `rules`. page: bytes that accesses are sorted
    by, as many as most of them touch."""

    def __init__(self, mode: str = "lenient", page: int = PAGE) -> None:
        self.lenient = mode == "lenient"
        self.races: list[Race] = []
        self._keys: set[tuple[object, ...]] = set()
        self._tasks: dict[Task, Running] = {}
        self._tokens: dict[Hashable, Clock] = {}
        self._history = History(page)
        self._landings = Landings()
        self._operations = Operations()
        self._came: dict[Hashable, list[Made]] = {}  # what made the value that a fetching atomic has read
        self._reasons = Reasons()

    def run(self, events: Iterable[Event]) -> list[Race]:
        """Takes a whole stream; the races, one for each pair of lines, in the order of their second accesses."""
        for event in events:
            self.take(event)
        return self.races

    def take(self, event: Event) -> None:
        """Takes one event of a stream."""
        _TAKE[type(event)](self, event)

    def forget(self, tasks: Iterable[Task], aloft: Collection[Hashable] = ()) -> int:
        """Drops what no later access of these tasks, which are all there are, can race with; how much is left. For
        long streams, between events whose operations have all landed and been answered, but for those aloft."""
        clocks = [self._tasks[task].now() for task in tasks if task in self._tasks]
        if len(clocks) < len(list(tasks)):
            return len(self._history)
        left = self._history.forget(lambda made: all(made.before(clock, self.lenient) for clock in clocks))
        kept = {made.id for made in (*left, *self._landings.made())} | set(aloft)
        for running in self._tasks.values():
            running.seen = frozenset(running.seen & kept)
        self._operations.forget(kept, aloft)
        self._came = {id: makers for id, makers in self._came.items() if id in aloft}
        return len(left)

    def _task(self, task: Task) -> Running:
        running = self._tasks.get(task)
        if running is None:
            running = self._tasks[task] = Running(task)
        running.step()
        return running

    # ---- accesses ----

    def _access(self, event: Access) -> None:
        clock = self._task(event.task).now()
        over = "store" if event.kind is Kind.STORE and isinstance(event.at.space, int) else "step"
        what = event.what or event.kind.value
        self._made(Made(event.task, event.where, event.kind, event.at, what, over, clock, clock.point, type=event.type))
        if event.kind is Kind.STORE:
            self._landings.store(event.at)

    def _operation(self, event: Operation) -> None:
        posted = self._task(event.task).now()
        source, begins, result = self._operations.moments(event, posted)
        for span, kind, part, clock in (
            (event.source, Kind.LOAD, "source", source), (event.result, Kind.STORE, "result", result)
        ):  # fmt: skip
            for each in () if span is None else (span, *event.rest):
                self._made(self._part(event, each, kind, part if event.late else "step", clock, part))
        over = "step" if event.answered else "result" if event.kind is Kind.GET else "effect"
        effect = self._part(event, event.at, event.kind, over, begins)
        self._operations.add(event, effect, posted)
        if event.at.lo < event.at.hi:
            self._made(effect)

    @staticmethod
    def _part(event: Operation, at: Span, kind: Kind, over: str, clock: Clock, part: str = "at") -> Made:
        more = (event.ctx, event.target, event.id, event.type, event.domain, part)
        return Made(event.task, event.where, kind, at, event.what, over, clock, clock.point, *more)

    def _made(self, made: Made) -> None:
        for other in self._history.near(made):
            if conflict(other, made, self.lenient) and not other.before(made.clock, self.lenient):
                self._race(Race(other, made, ""))
        self._history.add(made)
        self._reasons.note(made, self._landings)

    def _race(self, race: Race) -> None:
        """Notes a race, the first between two lines: of loops there would be many more."""
        if race.key not in self._keys:
            self._keys.add(race.key)
            race.why = self._reasons.why(race.first, race.second)
            self.races.append(race)
            self._reasons.open(race)

    # ---- what orders ----

    def _landed(self, event: Landed) -> None:
        effect = self._operations.effects[event.id]
        if effect.kind in (Kind.FETCH, Kind.UPDATE):
            self._came[event.id] = list(self._makers(event.at))
        if effect.kind is not Kind.FETCH:
            self._landings.land(event.at, effect, event.replaces)

    def _makers(self, at: Span) -> Iterator[Made]:
        """What made the value of a word, as far as that orders anything."""
        for effect in self._landings.at(at):
            if effect.kind is Kind.UPDATE or (effect.kind is Kind.PUT and self.lenient):
                yield effect

    def _learn(self, running: Running, makers: Iterable[Made], at: Span) -> None:
        for effect in makers:
            running.learn(effect.clock, [effect.id] if effect.at.within(at) else [])

    def _waited(self, event: Waited) -> None:
        self._access(Access(event.task, event.where, event.kind, event.at, event.kind.value, event.type))
        running = self._task(event.task)
        self._learn(running, self._makers(event.at), event.at)
        self._reasons.learned(running.now(), self.lenient)

    def _answered(self, event: Answered) -> None:
        running, effect = self._task(event.task), self._operations.effects[event.id]
        if self.lenient:  # 1.6 does not say that an atomic shows more than its own word
            self._learn(running, self._came.pop(event.id, []), effect.at)

    def _lines(self, event: LinesTaken) -> None:
        lines = [each for each in self._landings.at(event.at) if each.kind is Kind.PUT_LINE]
        self._task(event.task).know(frozenset(each.id for each in lines if each.at.within(event.at)))

    def _fence(self, event: Fence) -> None:
        running = self._task(event.task)
        running.fence(event.ctx, event.stores)
        self._reasons.ordered(running.now(), event.ctx, "fence", None)

    def _quiet(self, event: Quiet) -> None:
        running = self._task(event.task)
        running.quiet(event.ctx, event.target, event.level)
        self._reasons.ordered(running.now(), event.ctx, event.level.name, event.target)

    def _rung(self, event: Rung) -> None:
        self._operations.rung(event, self._task(event.task).now())

    def _ended(self, event: Ended) -> None:
        running = self._task(event.task)
        for effect in self._operations.ended(event, running):
            if self.lenient:  # as where a program waits for the answer
                self._learn(running, self._came.pop(effect.id, []), effect.at)

    def _received(self, event: Received) -> None:
        running = self._task(event.task)
        self._operations.received(event, running)
        self._reasons.learned(running.now(), self.lenient)

    def _release(self, event: Release) -> None:
        running = self._tasks.get(event.task)
        if event.meeting and running is not None and running.pending:
            running.pending = {}  # a sync's own fence
            self._reasons.forget(event.task)
        running = self._task(event.task)
        if event.meeting:
            running.show_stores()
            self._reasons.close(event.task)
        self._tokens[event.token] = running.now()

    def _acquire(self, event: Acquire) -> None:
        running = self._task(event.task)
        for token in event.tokens:
            if (clock := self._tokens.get(token)) is not None:
                running.learn(clock)


_TAKE: dict[type, Callable[[Judge, Any], None]] = {
    Access: Judge._access, Operation: Judge._operation, Landed: Judge._landed, Waited: Judge._waited,
    Answered: Judge._answered, LinesTaken: Judge._lines, Fence: Judge._fence, Quiet: Judge._quiet,
    Rung: Judge._rung, Ended: Judge._ended, Received: Judge._received, Release: Judge._release, Acquire: Judge._acquire,
}  # fmt: skip
