"""The `sim` fabric of one PE: what `shmem` asks of a fabric, as steps of a task and requests for the delivery."""

from __future__ import annotations

import contextlib
import mmap
from bisect import insort
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...delivery.facts import Touch, Undone, acquires, completed, could_acquire, fenced, stores, without
from ...delivery.requests import Event, Kind, Place, Stage
from ...delivery.tables import EFFECTS
from ...delivery.tags import Call
from ...errors import ContextError
from ...heap import POISON
from ...memory import caller
from ...records import REFUSED, Conditions, Records
from ..events import Kind as Seen
from ..interface import CONTEXTS, Caps, Counter, Fabric, Level, Members, Status
from .calls import Calls
from .conditions import words_of
from .memory import SimHeap
from .polling import IDLE_MAX, Polls
from .records import run_record
from .tasks import Job, Meeting, Step

if TYPE_CHECKING:
    from .executor import SimExecutor
    from .gang import SimGang
    from .nic import SimEngine

KINDS = tuple(Kind)
STORES = -1  # stands for the queue of a PE's own stores


class SimFabric:
    """One PE's way to the delivery machine of its job."""

    heap: SimHeap

    def __init__(self, job: Job, me: int) -> None:
        self.job, self.machine, self.profile = job, job.machine, job.program.profile
        self.calls = Calls(job, me)
        self.me, self.n = me, job.program.n
        unit = self.profile.unit
        self.caps = Caps(
            whole=unit, in_order=self.profile.program_order, wakes=True, clock="virtual", peer_stores=lambda pe: True,
            tags=job.tags is not None, locks=None if job.observed is None else job.observed.lock,
            joined=None if job.observed is None else job.observed.joins,
            in_place=None if job.observed is None else job.observed.in_place,
        )  # fmt: skip
        self.inner = CONTEXTS + 1
        self.meet_bytes = 1 << 11
        self.bulk_bytes = self.spill_bytes = 1 << 62
        self.frees = 0
        self.teams: dict[int, tuple[int, ...]] = {0: tuple(range(self.n))}
        self._queues = list(range(CONTEXTS, 0, -1))
        self._posted: dict[int, int] = {}  # since the last quiet, by queue
        self._held: dict[int, list[npt.NDArray[Any]]] = {}  # what those use
        self._engine: SimEngine | None = None
        self.crowded = False  # other tasks than the PE's own use its contexts

    # ---- start and stop ----

    def attach(self, nbytes: int) -> SimHeap:
        """Memory of the model, and a buffer of poison behind which it hides."""
        self.heap = SimHeap(self, nbytes)
        if (before := self.job.heaps.get(self.me)) is not None:
            before.ends()
        self.machine.memory.spaces[self.me] = mmap.mmap(-1, nbytes)  # zero, and not touched
        self.job.heaps[self.me] = self.heap
        insort(self.job.by_address, (self.heap.base, self.me))
        return self.heap

    def start(self, settings: object, in_job: bool) -> None:
        """Nothing more is needed."""

    def leave_dead(self) -> None:
        """A PE that fails is told of at the end of the run; the others go on."""

    def say_at_exit(self, text: str) -> None:
        """There is no exit."""

    def close(self) -> None:
        """Arrays stay readable as long as the job is."""
        if self._engine is not None:
            self._engine.end()

    def counts(self) -> dict[str, int]:
        """Nothing sleeps here."""
        return {}

    def call_text(self, pe: int) -> bytearray:
        """The 512 bytes in which a PE shows its collective call after a mismatch."""
        return self.job.texts[pe]

    def dead(self, *, look: bool) -> list[int]:
        """Nobody is known to be dead here: who waits for a PE that has failed waits for ever."""
        return []

    def mark_live(self, offset: int, nbytes: int, live: bool) -> None:
        """Poisons the buffer of a new block, and the memory of one that was freed."""
        self.frees += not live
        self.heap.poison(offset, nbytes)
        if not live:
            self.store(Place(self.me, offset, offset + nbytes), bytes([POISON]) * nbytes, "free")

    # ---- steps ----

    def do(self, step: Step) -> Any:
        """A step of this PE; sources of requests in flight that the program has changed are noticed first."""
        self.heap.follow()
        if self.job.running is not None:
            self.job.running.polls.idle = 0
        return self.job.do(step)

    def load(self, place: Place, what: str, plain: bool = True) -> bytes:
        """A load of symmetric memory (of another PE: through `ptr`). plain: not one that looks at the memory itself."""
        return self.look([place], what, plain)[0]

    def look(
        self, places: Sequence[Place], what: str, plain: bool = True, take: Callable[[Place], object] | None = None
    ) -> list[bytes]:
        """A load of several places in one step. take: looks at who wrote them, and returns what it has seen."""
        if plain:
            places = [self.machine.plain(self.me, place) for place in places]
        observed = self.job.observed
        marks = take is not None or (observed is not None and not plain)
        touches = tuple(Touch(place, False, marks=marks) for place in places)

        def look() -> list[object]:
            found: list[object] = [self.machine.look(self.me, place) for place in places]
            return found if take is None else [*found, *map(take, places)]

        found: list[bytes] = self.do(Step(what, look, touches=lambda: touches))[: len(places)]
        if observed is not None:
            observed.looked(places, what)
        self.looked(list(zip(places, found, strict=True)))
        return found

    def looked(self, seen: Sequence[tuple[Place, bytes]]) -> None:
        """Notes what a plain look has found. A loop that finds the same again and again waits here for a change: it
        would only go round."""
        line = caller()
        seen = [one for one in seen if one[1]]
        if self._polls.look(line, seen) >= self.job.program.max_polls:
            self.job.unspun.add(line)
            self._await_change(dict(seen), "a loop that only looks", True)

    @property
    def _polls(self) -> Polls:
        assert self.job.running is not None
        return self.job.running.polls

    def _await_change(self, seen: dict[Place, bytes], what: str, gives_up: bool) -> None:
        touches = tuple(Touch(place, False) for place in seen)

        def could(undone: Undone) -> bool:
            return any(self.without(undone, place) != data for place, data in seen.items())

        self.do(Step(what, lambda: None, lambda: could([]), lambda: touches, could=could, gives_up=gives_up))

    def without(self, undone: Undone, place: Place) -> bytes:
        """What is there, or in the own view of it, if some writes had not been made."""
        now = self.machine.look(self.me, place)
        return without(undone, place, now) if undone else now

    def acquire(self) -> None:
        """Plain loads give from here on what is placed by now."""
        if self.profile.reader == "lazy":
            machine, me = self.machine, self.me
            touches = acquires(machine, me)

            def could(undone: Undone) -> bool:
                return could_acquire(machine, me, undone)

            self.do(Step("acquire", lambda: None, lambda: not machine.unseen(me), lambda: touches, could=could))

    def store(self, place: Place, data: bytes, what: str, call: Call | None = None) -> None:
        """A plain store to symmetric memory; call: whose result that is."""
        self.job.called()
        call, machine, me = call or self.calls.store(what), self.machine, self.me
        if self.profile.stores != "coherent":
            self.take_turn(STORES, what)
            self._stored(place, what)
            machine.store(me, place, data, call)  # its placement is what others see
            return
        space = place.space
        assert isinstance(space, int)

        def touches() -> tuple[Touch, ...]:
            return stores(machine, me, place, data)

        step = Step(what, lambda: machine.store(me, place, data, call), touches=touches)
        if machine.behind.get((me, space)):
            step.ready, step.needs = lambda: not machine.holds_back(me, space), lambda: fenced(machine, me, space)
        self.do(step)
        self._stored(place, what)

    def _stored(self, place: Place, what: str) -> None:
        if self.job.observed is not None:
            self.job.observed.access(Seen.STORE, place, "" if what == "store" else what)

    def take_turn(self, q: Hashable, what: str) -> None:
        """Where several tasks of a PE use a queue, the order of what they post and complete on it can be seen."""
        if self.crowded:
            touches = (Touch(Place(("queue", self.me, q), 0, 1), True),)
            self.do(Step(what, lambda: None, touches=lambda: touches))

    def in_time(self) -> None:
        """Where there is time: the task rests until it has come to its own. From here on other tasks of its PE may see
        what it does, before its next step."""
        if self.job.clock is not None:
            self.job.do(Step("its time", lambda: None))

    def post_name(self, q: int) -> tuple[object, ...]:
        """The queue of the delivery machine that a context is."""
        return ("ctx", self.me, q)

    def count(self, q: int) -> None:
        """Notes that something was posted whose completion the program may not rely on."""
        self._posted[q] = self._posted.get(q, 0) + 1

    # ---- the interface ----

    def queue(self) -> int:
        """A queue of the delivery machine."""
        if not self._queues:
            raise ContextError(f"{CONTEXTS} contexts exist already: destroy one first", pe=self.me)
        return self._queues.pop()

    def release(self, q: int) -> None:
        """It is complete."""
        self._queues.append(q)

    def pending(self, q: int) -> int:
        """Records posted since the last quiet."""
        return self._posted.get(q, 0)

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """Interprets the records one by one."""
        self.job.called()
        observed = self.job.observed
        if q == self.inner and observed is not None and observed.enters():
            try:
                return self.submit(q, ops, start, timeout_s, reached)
            finally:
                observed.leaves()
        for i in range(start, len(ops)):
            if reached is not None:
                reached[0] = i
            row: Any = ops.item(i)
            status = run_record(self, q, row, timeout_s)
            if status is not Status.OK:
                return status, i
        if reached is not None:
            reached[0] = len(ops)
        return Status.OK, len(ops)

    def hold(self, q: int, array: npt.NDArray[Any]) -> None:
        """The program may let go of it: its memory must not be used for anything else."""
        self._held.setdefault(q, []).append(array)

    def learn(self, name: str, arguments: tuple[object, object, object, object], plan: object) -> None:
        """There is no native front."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """There is no native front."""
        return contextlib.nullcontext()

    def refuse(self, status: Status) -> None:
        """No call ends with one of those: it raises itself."""

    def executor(self) -> SimExecutor:
        """A task of this PE."""
        from .executor import SimExecutor

        return SimExecutor(self)

    def gang(self, n: int, work: Callable[[int], None]) -> SimGang:
        """Tasks of this PE."""
        from .gang import SimGang

        return SimGang(self, n, work)

    def fence(self, q: int) -> None:
        """An order between requests: nobody can see it by itself."""
        self.job.called()
        self.take_turn(q, "fence")
        if self.job.observed is not None:
            self.job.observed.fence(q)
        self.machine.fence(self.me, self.post_name(q), q == 0)
        if self.job.clock is not None and self.job.clock.network.fence_waits:
            self.settle(q, Stage.ANSWERED, kinds=EFFECTS, what="fence")

    def nic(self) -> SimEngine:
        """The adapter of this PE."""
        from .nic import SimEngine

        if self._engine is None:
            self._engine = SimEngine(self)
        return self._engine

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None, timeout_s: float | None = None) -> None:
        """Waits for the deliveries that the level tells of."""
        self.job.called()
        stage = (Stage.SOURCE, Stage.ANSWERED, Stage.ANSWERED)[level]
        if self.job.observed is not None:
            self.heap.follow()
        targets = [None] if pes is None else sorted(set(pes))
        kinds = (Kind.READ, Kind.ATOMIC) if level is Level.RESULT else KINDS
        for target in targets:
            self.settle(q, stage, target, kinds, f"{level.name.lower()} completion of context {q}")
        if self.job.observed is not None and (pes is not None or not self.profile.engine_scoped):
            self.job.observed.quiet(q, level, pes)
        if level is Level.VISIBLE:
            if q == 0 and self._engine is not None:
                self._engine.settle(pes)
            self.acquire()
            if pes is None:
                self._posted.pop(q, None)
                if not any(each.queue == self.post_name(q) for each in self.machine.flight.values()):
                    self._held.pop(q, None)

    def settle(
        self, q: int, stage: Stage, target: int | None = None, kinds: Sequence[Kind] = KINDS, what: str = "quiet"
    ) -> None:
        """Waits until what was posted on a queue has reached a stage, and hands out late results."""
        name = self.post_name(q)

        def left() -> bool:
            return any(
                each.kind in kinds and not each.reached(stage)
                for each in self.machine.unfinished(self.me, name, target)
            )  # fmt: skip

        def ready() -> bool:
            return not left()

        if self.crowded or left():
            looks = tuple(Touch(Place(("queue", self.me, each), 0, 1), False) for each in (q, STORES))

            def needs() -> list[Event]:
                return completed(self.machine, self.me, name, target, stage, kinds)

            self.do(Step(what, lambda: None, ready, lambda: looks if self.crowded else (), needs, takes=True))
        self.heap.reusable(lambda each: each.queue == name and target in (None, each.target) and each.kind in kinds)
        if stage is Stage.ANSWERED and Kind.READ in kinds:
            self.heap.hand_out(lambda each: each.queue == name and target in (None, each.target))

    def _own_stores(self, what: str) -> None:
        """Waits until the own stores are seen by all."""

        def left() -> bool:
            return any(each.kind is Kind.STORE for each in self.machine.unfinished(self.me, None))

        if self.crowded or left():

            def needs() -> list[Event]:
                return completed(self.machine, self.me, None, None, Stage.PLACED, (Kind.STORE,))

            looks = (Touch(Place(("queue", self.me, STORES), 0, 1), False),) if self.crowded else ()
            self.do(Step(what, lambda: None, lambda: not left(), lambda: looks, needs))

    def wait(self, any_of: Conditions, timeout_s: float) -> tuple[Status, int]:
        """A step that may happen once a word satisfies its condition; without time, a look."""
        if timeout_s <= 0:
            held = self.test(any_of)
            return (Status.OK, int(held.argmax())) if held.any() else (Status.TIMEOUT, -1)
        words = words_of(self.me, any_of)
        touches = tuple(Touch(place, False, marks=self.job.observed is not None) for place, _ in words)

        def first(undone: Undone) -> int:
            for i, (place, holds) in enumerate(words):
                if holds(self.without(undone, place)):
                    return i
            return -1

        def could(undone: Undone) -> bool:
            return first(undone) >= 0

        step = Step("wait", lambda: first([]), lambda: could([]), lambda: touches, could=could, takes=True)
        which = self.do(step)
        place = words[which][0]
        self.saw([place])
        self._polls.note("", [(place, self.machine.look(self.me, place))])
        self.acquire()
        return Status.OK, which

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """A load of each word, in one step; acquires if one holds."""
        words = words_of(self.me, all_of)
        found = self.look([place for place, _ in words], "test", plain=False)
        held = np.array([holds(data) for (_, holds), data in zip(words, found, strict=True)], np.bool_)
        if held.any():
            self.saw([place for (place, _), holds in zip(words, held, strict=True) if holds])
            self.acquire()
        return held

    def saw(self, places: Sequence[Place], kind: Seen = Seen.WAIT) -> None:
        """Tells a race detector of words that the task has waited for."""
        if self.job.observed is not None:
            for place in places:
                self.job.observed.waited(place, kind)

    def _meeting(self, members: Members) -> Meeting:
        return self.job.meetings[members.slot, members.pes[0]]

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """Arrives, and waits until all members have."""
        self._own_stores("barrier: own stores")
        meeting, team = self._meeting(members), (members.slot, members.pes[0])
        mine = meeting.entered.get(self.me, 0) + 1
        meeting.entered[self.me] = mine
        meeting.calls[self.me, mine] = call
        self.job.give(("arrived", team, self.me, mine))
        clock = self.job.clock
        if clock is not None and len(members.pes) > 1:
            clock.arrive(team, mine, members)

        def ready() -> bool:
            if clock is not None:
                return clock.past(team, mine)
            return all(meeting.entered.get(pe, 0) >= mine for pe in members.pes)

        def needs() -> list[object]:
            return [("arrived", team, pe, mine) for pe in members.pes]

        if len(members.pes) > 1:
            self.do(Step("barrier", lambda: None, ready, needs=needs))
            self._polls.met()
        self.acquire()
        calls = {meeting.calls[pe, mine] for pe in members.pes} - {0}
        return Status.MISMATCH if len(calls) > 1 or REFUSED in calls else Status.OK

    def entered(self, pe: int, slot: int) -> int:
        """How many barriers of a slot a PE has entered."""
        return max((m.entered.get(pe, 0) for (s, _), m in self.job.meetings.items() if s == slot), default=0)

    def rounds(self, members: Members) -> int:
        """How many barriers of these members are complete."""
        entered = self._meeting(members).entered
        return min(entered.get(pe, 0) for pe in members.pes)

    def unfinished(self, slot: int) -> int | None:
        """A wait here is never left half way."""
        return None

    def disown(self) -> None:
        """Nobody owns a barrier here."""

    def team(self, members: Members) -> None:
        """Notes who the members of a slot are."""
        self.teams[members.slot] = members.pes
        self._meeting(members).entered.pop(self.me, None)  # counts of an earlier team of that slot
        if self.job.clock is not None:
            self.job.clock.begins((members.slot, members.pes[0]))
        self.job.notes.pop((self.me, members.slot), None)

    def show(self, slot: int, value: int) -> None:
        """A word beside the heap."""
        self.job.notes[self.me, slot] = value

    def shown(self, pe: int, slot: int) -> int:
        """That word of another PE; a barrier lies between."""
        return self.job.notes.get((pe, slot), 0)

    def now(self) -> float:
        """The clock of the task, in seconds; 0.0 where there is no time."""
        return 0.0 if self.job.clock is None else self.job.clock.mine * 1e-6

    def compute(self, seconds: float) -> None:
        """The task is busy."""
        if self.job.clock is not None:
            self.job.clock.spend(seconds * 1e6)

    def spin(self) -> None:
        """Waits until a byte that this task has looked at since its last call changes."""
        if seen := self._polls.spun(self.machine.posted.get(self.me, 0)):
            self._await_change(seen, "spin", False)
        elif self._polls.idle > IDLE_MAX:
            self._await_change(seen, "spin, again and again, and looks at nothing", False)


_conforms: type[Fabric] = SimFabric
