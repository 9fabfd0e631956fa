"""What a run on `sim` tells the race detector: a stream of events (`fabric.events`), kept in memory.

A job has one of these only where races are judged. It is told of calls as a program makes them: of a collective call,
whose records run on a queue of their own, only what it does to the own arrays; of a lock, that it is held or let go.
Private memory is not watched: sources and results of operations that are not complete are compared with what they
should be whenever their PE calls, and a change that no line of the program has told of (as an instrumented one does)
counts as a store of that line: see `private`. Of queue pairs see `requested`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from greenlet import getcurrent

from ...delivery.requests import Act, Event, Key, Place, Request
from ...delivery.requests import Kind as Made
from ...memory import caller
from ...records import Kind as Word
from ..events import (
    NO_CONTEXT,
    Access,
    Acquire,
    Answered,
    Fence,
    Kind,
    Landed,
    Level,
    LinesTaken,
    Operation,
    Quiet,
    Release,
    Span,
    Task,
    Waited,
)
from ..events import Event as Told
from ..handles import context, is_lock
from .private import Private
from .requested import Requested

if TYPE_CHECKING:
    from .tasks import Job

_LOOKS = {"test": Kind.WAIT, "fetch": Kind.FETCH, "load of a cell": Kind.POLL_LINE}
_KINDS = {Made.WRITE: Kind.PUT, Made.READ: Kind.GET, Made.ATOMIC: Kind.UPDATE}


class Observed:
    """The events of one run so far."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.events: list[Told] = []
        self.word = 0  # the type of the word of the record that runs: its number and 1
        self.lines = False  # that record puts lines
        self.asks_more = False  # lines were used
        self._joined: dict[Task, Hashable] = {}  # the put with signal that a task makes of several records
        self._inside: set[Task] = set()  # tasks in a collective call
        self.ids: dict[Key, tuple[Hashable, ...]] = {}  # the operations that were told of a request
        self._released: set[Hashable] = set()
        self.private = Private(self, job.program.n)
        self.machine = job.machine
        self.pairs = Requested(self)

    @property
    def task(self) -> Task:
        """The task that runs."""
        assert self._job.running is not None
        return self._job.running.key

    # ---- collective calls and locks ----

    def enters(self) -> bool:
        """The running task begins a collective call; False if it is in one."""
        if self.task in self._inside:
            return False
        self._inside.add(self.task)
        return True

    def leaves(self) -> None:
        """It has ended it."""
        self._inside.discard(self.task)

    def _hidden(self, place: Place | None = None) -> bool:
        """Whether the program did not do this: it belongs to a collective call, or to the words of a lock."""
        if self._job.running is None or self.task in self._inside:
            return True
        return place is not None and is_lock(place.lo)

    def lock(self, offset: int, held: bool) -> None:
        """The running task has a lock, or is about to let it go."""
        if held:
            self.events.append(Acquire(self.task, (("lock", offset),)))
        else:
            self.events.append(Release(self.task, ("lock", offset)))

    def joins(self, begins: bool) -> None:
        """The running task begins or ends a put with signal of several records: the signal tells of these alone."""
        if begins:
            self._joined[self.task] = "joined", self.task, len(self.events)
        else:
            self._joined.pop(self.task)

    # ---- accesses ----

    def access(self, kind: Kind, place: Place, what: str = "") -> None:
        """The running task reads or writes memory."""
        own = place.space == self._own
        if place.lo < place.hi and (not self._hidden(place) or (own and not is_lock(place.lo) and self._inner)):
            self.events.append(Access(self.task, caller(), kind, Span(*place), what))

    def in_place(self, ends: Iterable[tuple[int, int, bool]]) -> None:
        """A collective call begins that reads or writes own arrays, or lets others do so."""
        for offset, nbytes, writes in ends:
            self.access(Kind.STORE if writes else Kind.LOAD, Place(self.own, offset, offset + nbytes))

    @property
    def _inner(self) -> bool:
        return self._job.running is not None and self.task in self._inside

    @property
    def _own(self) -> int | None:
        return None if self._job.running is None else self._job.running.pe

    def looked(self, places: Iterable[Place], what: str) -> None:
        """A load of some places."""
        for place in places:
            space = place.space[1] if isinstance(place.space, tuple) and place.space[0] == "view" else place.space
            if what != "accept":
                kind = _LOOKS.get(what, Kind.LOAD)
                self.access(kind, Place(space, place.lo, place.hi), "" if kind is Kind.LOAD else kind.value)

    # ---- operations ----

    def posted(
        self, request: Request, q: int, name: str, source: tuple[int, int] | None, result: tuple[int, int] | None
    ) -> None:
        """A request is posted. source, result: address and bytes of what it reads or writes late."""
        if self._inner and result is not None and (place := self.place(*result)) is not None:
            self.access(Kind.STORE, place)
        if self._hidden(request.at):
            return
        kind, update = _KINDS[request.kind], request.update
        if request.kind is Made.WRITE and self.lines:
            kind, name = Kind.PUT_LINE, "put_lines"
        if update is not None:
            kind, name = Kind.FETCH if update.op == "fetch" else Kind.UPDATE, f"atomic {update.op}"
        whole = self._joined.get(self.task)
        late, group = source is not None or result is not None, whole or request.put or request.key
        if update is not None and whole is not None:
            name = f"signal {update.op}"
        made = Operation(
            self.task, caller(), request.key, kind, name, q, request.target, Span(*request.at),
            self.span(source), self.span(result), late, request.keep, self._type() if update else "",
            context(q)[0], whole if update else None, None if update and whole else group,
            after=self.pairs.before(request),
        )  # fmt: skip
        how = "" if request.word_update is None else f"signal {request.word_update.op}"
        self.tell(made, request, made._replace(what=how, type=Word.U64.name, carries=group))
        if source is not None:
            self.private.source(q, request.target, source)
        if result is not None:
            self.private.result(q, request.target, result)

    def tell(self, made: Operation, request: Request, word: Operation) -> None:
        """A request is posted, with the word that may follow its data."""
        self.events.append(made)
        self.ids[request.key] = (request.key,)
        if request.word is not None and not request.bad:
            name = request.key, "word"
            self.events.append(word._replace(
                id=name, kind=Kind.UPDATE, at=Span(*request.word), source=None, result=None, group=None, rest=()
            ))  # fmt: skip
            self.ids[request.key] += (name,)
        self.pairs.note(request)

    def place(self, address: int, nbytes: int) -> Place | None:
        """The symmetric memory at an address, None for private memory."""
        return self._job.heaps[self._own].find(address, nbytes)  # type: ignore[index, no-any-return]

    def span(self, memory: tuple[int, int] | None) -> Span | None:
        """Where memory of the running task's PE (address, bytes) is, None for none."""
        if memory is None or not memory[1]:
            return None
        place = self.place(*memory)
        return self.private.span(*memory) if place is None else Span(*place)

    def _type(self) -> str:
        return Word(self.word - 1).name if self.word else ""

    def landed(self, event: Event) -> None:
        """A delivery has happened."""
        if event.key not in self.ids or event.act not in (Act.PLACE, Act.WORD):
            return
        request = self._job.machine.known[event.key]
        if event.act is Act.WORD:
            assert request.word is not None
            assert request.word_update is not None
            self.events.append(Landed((event.key, "word"), Span(*request.word), request.word_update.op == "set"))
        elif request.kind not in (Made.READ, Made.SEND):
            lo, hi = request.units[event.unit]
            update = request.update
            self.events.append(Landed(event.key, Span(request.at.space, lo, hi), update is None or update.op == "set"))

    def answered(self, request: Request) -> None:
        """A blocking fetching atomic is back."""
        if request.key in self.ids and request.kind is Made.ATOMIC:
            self.events.append(Answered(self.task, request.key))

    # ---- what orders ----

    def waited(self, place: Place, kind: Kind = Kind.WAIT) -> None:
        """The running task has seen what it waited for."""
        if not self._hidden(place):
            what = self._type() if kind is Kind.FETCH else ""
            self.events.append(Waited(self.task, caller(), Span(*place), kind, what))

    def polled(self, place: Place, whole: bool) -> None:
        """Lines were accepted. whole: they come as their reader relies on."""
        self.access(Kind.POLL_LINE, place, Kind.POLL_LINE.value)
        if whole:
            self.events.append(LinesTaken(self.task, Span(*place)))

    def fence(self, q: int) -> None:
        """A fence."""
        if not self._hidden() and self.task not in self._joined:
            reached = NO_CONTEXT if self._job.program.profile.engine_scoped else q
            self.events.append(Fence(self.task, reached, context(q)[1]))

    def quiet(self, q: int, level: int, pes: Iterable[int] | None) -> None:
        """A completion."""
        if self._hidden():
            return
        for target in [None] if pes is None else pes:
            self.events.append(Quiet(self.task, q, target, Level(level)))
            self.private.complete(q, target, level != Level.RESULT, level != Level.SOURCE)

    def gave(self, token: object) -> None:
        """The running task has made something possible."""
        if not self._hidden():
            assert isinstance(token, Hashable)
            self._released.add(token)
            meeting = isinstance(token, tuple) and token[0] == "arrived"
            self.events.append(Release(self.task, token, meeting))

    def goes_on(self, task: Task, needs: Iterable[object]) -> None:
        """A step of a task was possible for these reasons."""
        if tokens := tuple([each for each in needs if each in self._released]):
            self.events.append(Acquire(task, tokens))

    # ---- for queue pairs and private memory ----

    @property
    def hides(self) -> bool:
        """Whether what the running task does is not the program's."""
        return self._hidden()

    @property
    def runs(self) -> bool:
        """Whether a task does."""
        return self._job.running is not None

    @property
    def asks(self) -> bool:
        """Whether it is the running task that calls."""
        running = self._job.running
        return running is not None and running.thread is getcurrent()

    @property
    def own(self) -> int:
        """The PE of the running task."""
        assert self._own is not None
        return self._own
