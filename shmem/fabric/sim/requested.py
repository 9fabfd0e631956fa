"""What a run on `sim` tells the race detector of queue pairs: work requests, receives, what completions tell of them.

A work request is an operation of its own. What it waits for by its queue pair, its flags and the profile is told with
it (`delivery.tables`, without what fences add: those are told by themselves); that it is over, when its PE has taken a
completion of it or of a later one of its queue pair, or has waited for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from copy import copy
from typing import TYPE_CHECKING

from ...delivery.completions import Completion
from ...delivery.requests import Key, Kind, Request, Stage
from ...delivery.tables import Rule
from ...memory import caller
from ...nic.engine import Wqe
from ..events import ADAPTER, NO_CONTEXT, After, Ended, Level, Operation, Received, Rung, Span
from ..events import Kind as Told

if TYPE_CHECKING:
    from .observed import Observed

_KINDS = {Kind.WRITE: Told.PUT, Kind.SEND: Told.PUT, Kind.READ: Told.GET, Kind.ATOMIC: Told.UPDATE}
_PARTS = {Stage.SOURCE: "source", Stage.PLACED: "at", Stage.ANSWERED: "result"}


class Requested:
    """What was told of queue pairs so far."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._machine = observed.machine
        self._numbers: dict[Hashable, int] = {}  # queue pairs as contexts
        # By queue pair, or by PE where all of its are ordered: each with its state when it was posted, not fenced.
        self._earlier: dict[Hashable, list[tuple[Request, Request]]] = {}
        self._open: dict[Hashable, list[Request]] = {}  # by queue pair: not known to be over,
        self._complete: set[Key] = set()  # though their completions may have told
        self._receives: dict[Hashable, list[int]] = {}  # by queue pair: posted, and not told of

    # ---- posts ----

    def posted(self, request: Request, wqe: Wqe) -> None:
        """A work request is posted."""
        observed = self._observed
        if observed.hides:
            return
        spans = [found for piece in wqe.pieces if (found := observed.span(piece)) is not None]
        if wqe.data is not None:
            observed.private.loaded(wqe.pieces)
            spans = []
        reads = request.kind in (Kind.WRITE, Kind.SEND)
        first, rest = (spans[0], tuple(spans[1:])) if spans else (None, ())
        update, number = request.update, self._number(request.queue)
        at = Span(request.target, 0, 0) if request.bad or request.kind is Kind.SEND else Span(*request.at)
        made = Operation(
            observed.task, caller(), request.key, _KINDS[request.kind], f"{wqe.opcode.name.lower()} request", number,
            request.target, at, first if reads else None, None if reads else first, True,
            type="" if update is None else str(8 * update.width), domain=ADAPTER, group=request.key, rest=rest,
            after=self.before(request), stores=self._machine.profile.program_order,
        )  # fmt: skip
        word = made._replace(what="notify word", type="64", carries=request.key)
        observed.tell(made, request, word)
        self._open.setdefault(request.queue, []).append(request)
        registered = request.bad != "loc_access"  # else nobody keeps the memory
        late = observed.private.source if reads else observed.private.result
        for piece in wqe.pieces if spans and registered else ():
            late(number, request.target, piece, request.key)

    def _number(self, pair: Hashable) -> int:
        return self._numbers.setdefault(pair, NO_CONTEXT - 1 - len(self._numbers))

    # ---- what is ordered by the network ----

    def note(self, request: Request) -> None:
        """Later requests may have to wait for this one."""
        order = self._order(request)
        if order is not None:
            self._earlier.setdefault(order, []).append((request, posted := copy(request)))
            posted.fenced = posted.spread = False

    def _order(self, request: Request) -> Hashable:
        if self._machine.profile.program_order:
            return request.pe
        return request.queue if request.ring else None

    def before(self, request: Request) -> tuple[After, ...]:
        """What a request has to wait for, be it that it is on a queue pair, or the other."""
        found: list[After] = []
        for first, posted in self._earlier.get(self._order(request), ()):
            if not first.bad and (first.ring or request.ring):
                for rule in self._machine.rules.between(posted, request):
                    found += self._waits(first, rule)
        return tuple(found)

    def _waits(self, first: Request, rule: Rule) -> Iterable[After]:
        stage, mine = rule
        if stage in (Stage.PLACED, Stage.ANSWERED):
            for each in self._observed.ids[first.key]:
                yield After(each, _PARTS[mine], stage is Stage.ANSWERED)

    # ---- what is learned ----

    def rung(self, keys: Iterable[Key]) -> None:
        """A doorbell."""
        if found := self._known(keys):
            self._observed.events.append(Rung(self._observed.task, found))

    def _known(self, keys: Iterable[Key]) -> tuple[Hashable, ...]:
        return tuple(each for key in keys for each in self._observed.ids.get(key, ()))

    def completed(self, entry: Completion) -> None:
        """A completion of a request was taken: it tells of all of its queue pair up to there."""
        for request in list(self._open.get(entry.queue, ())):
            if request.key <= entry.key and request.key not in self._complete:
                self._complete.add(request.key)
                last = request.key == entry.key
                self._completed(request, entry.status if last else "ok")

    def _completed(self, request: Request, status: str) -> None:
        transfer = request.kind in (Kind.WRITE, Kind.SEND)
        if status == "retry" and transfer:  # its target has it: it may still be placed
            level = Level.SOURCE
        else:
            level = Level.SOURCE if transfer and status == "ok" and not self._tells_effects else Level.VISIBLE
        self._end(request, level, told=True, failed=status != "ok")

    @property
    def _tells_effects(self) -> bool:
        """Whether the completion of a WRITE tells more than that its source was read: that it is placed. Where nothing
        but quiet makes it visible (`openshmem`), a completion does not."""
        profile = self._machine.profile
        return profile.completion == "placed" or (profile.completion == "visible" and profile.program_order)

    def _end(self, request: Request, level: Level, *, told: bool = False, failed: bool = False) -> None:
        self._observed.events.append(Ended(self._observed.task, self._observed.ids[request.key], level, told, failed))
        self._observed.private.over(request.key)
        if level is Level.VISIBLE:
            self._open[request.queue].remove(request)

    def settled(self, mine: Callable[[Request], bool]) -> None:
        """The running task has waited for work requests, or for the end of a queue pair: some are over."""
        for request in [each for some in self._open.values() for each in some if mine(each)]:
            moves = request.key in self._machine.flight
            if moves and not (request.retired and request.reached(Stage.ANSWERED)):
                if request.retired:
                    self._end(request, Level.SOURCE)
                continue
            failed = bool(request.bad) or request.key in self._machine.failed or not request.retired
            self._end(request, Level.VISIBLE, failed=failed)

    # ---- receives ----

    def receive(self, pair: Hashable, number: int, piece: tuple[int, int]) -> None:
        """A receive is posted: its buffer is not the program's."""
        observed = self._observed
        span = observed.span(piece)
        if span is None or observed.hides:
            return
        name, ctx, me = (pair, number), self._number(pair), observed.own
        observed.events.append(Operation(
            observed.task, caller(), name, Told.GET, "receive", ctx, me, Span(me, 0, 0), None, span, True,
        ))  # fmt: skip
        self._receives.setdefault(pair, []).append(number)
        observed.private.result(ctx, me, piece, name, compared=True)

    def received(self, pair: Hashable, entry: Completion) -> None:
        """The completion of a receive was taken."""
        assert entry.receive is not None
        self._given_back(pair, [entry.receive])
        if entry.status == "ok" and entry.key in self._observed.ids:
            machine = self._machine
            covered = machine.covered(machine.known[entry.key], machine.known.values())
            covers = self._known([entry.key, *(each.key for each in covered if not each.bad)])
            self._observed.events.append(Received(self._observed.task, entry.key, covers))

    def dropped(self, pair: Hashable) -> None:
        """All receives of a queue pair are gone."""
        self._given_back(pair, list(self._receives.get(pair, ())))

    def _given_back(self, pair: Hashable, numbers: Iterable[int]) -> None:
        waiting = self._receives.get(pair, [])
        for number in [each for each in numbers if each in waiting]:
            waiting.remove(number)
            self._observed.events.append(Ended(self._observed.task, ((pair, number),), Level.VISIBLE, True))
            self._observed.private.over((pair, number))
