"""One run of a program on `sim`: its PEs as tasks, of which one at a time goes on, and the delivery between them.

A task runs until it is about to do something that another could see, or has to wait: it hands that over as a `Step` and
rests. The job makes the step when it is told to, and lets the task run on to its next one. Who tells it (a search, a
seed) is no affair of this module. What a task does between two steps (posting requests, arriving at barriers, private
work) commutes with all that others do; where several tasks of a PE share its contexts, posting is a step as well.
"""

from __future__ import annotations

import contextlib
import operator
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from ... import runtime
from ...delivery.facts import Could, Facts, Move, Touch, event_facts
from ...delivery.machine import Machine
from ...delivery.memory import Memory
from ...delivery.moves import joined
from ...delivery.profiles import Profile
from ...delivery.requests import FAULTS, Event, Key
from ...delivery.tags import Call, Tags
from ...errors import AcceptError, NondeterministicProgram, StateError
from ...memory import OURS, caller
from .clock import Clock
from .polling import Polls
from .values import frozen, kept, said
from .words import name_of as name_of
from .words import waiting

if TYPE_CHECKING:
    from ...config import Settings
    from ...delivery.model import Model
    from .observed import Observed

REFUSALS = 100
TaskKey = int | tuple[int, int]  # a PE, or one of its workers


def _nothing() -> tuple[Any, ...]:
    return ()


@dataclass(slots=True)
class Step:
    """What a task is about to do. All but `run` change nothing."""

    what: str  # in words, for reports
    run: Callable[[], Any]  # what it returns or raises is what the task gets
    ready: Callable[[], bool] | None = None  # whether it may happen now; None: always
    touches: Callable[[], tuple[Touch, ...]] = _nothing
    needs: Callable[[], Sequence[object]] = _nothing  # what has made it ready, of what other moves gave
    could: Could | None = None  # of a wait for values: whether it is ready without some writes
    gives_up: bool = False  # it may happen as well where nothing else can
    takes: bool = False  # to have waited for it costs time: see `delivery.model.Model.receive_us`


@dataclass(eq=False)
class Task:
    """A PE, or a worker of one."""

    key: TaskKey
    pe: int
    process: runtime.Process
    thread: greenlet
    step: Step | None = None  # None: it has ended
    result: Any = None
    error: BaseException | None = None
    text: str = ""  # what the error says: it may look at symmetric memory
    told: int = 0  # a digest of everything it was told
    call: Call | None = None  # that it is in
    tag: int | None = None  # the message that it writes (`shmem.check.tagged`)
    polls: Polls = field(default_factory=Polls)
    clock: float = 0.0  # microseconds, where the job has a clock
    waits: bool = False  # it has to, before the step that it is at
    hears: set[object] = field(default_factory=set)  # for what its clock looks at it again

    @property
    def where(self) -> str:
        """'file.py:12' of the line of the program at which it rests; "" where it has ended or is no PE."""
        line = caller(self.thread.gr_frame)
        return "" if line.startswith(OURS) else line


class Around(Protocol):
    """What a program finds around it, PE by PE."""

    def begin(self) -> None:
        """A new run begins."""

    def enter(self, pe: int) -> None:
        """A task of that PE goes on."""

    def leave(self) -> None:
        """It has stopped again."""


@dataclass(frozen=True)
class Program:
    """What is run: `body(pe)` is called once for each of n PEs."""

    body: Callable[[int], Any]
    n: int
    profile: Profile
    settings: Settings
    max_polls: int = 3  # equal observations of a loop that does not spin, before it waits for a change
    identity: str = ""  # for tokens
    around: Around | None = None
    clock: Model | None = None  # what comes next is what is due first
    ties: int | None = None  # draws what of equal times comes first
    leaks: bool = False  # symmetric memory that is not freed at the end is a failure
    races: str = ""  # how they are judged, "" for not at all
    max_calls: int = 0  # calls of a task without a step in between, before it is held for good; 0: no bound


@dataclass
class Meeting:
    """A barrier of one team: who has entered how often, and what each says it calls."""

    entered: dict[int, int] = field(default_factory=dict)
    calls: dict[tuple[int, int], int] = field(default_factory=dict)  # of a PE in a round


@dataclass(frozen=True)
class End:
    """How a run ended. Ends are equal if the same PEs failed in the same way, whoever did first; or if all returned the
    same."""

    what: tuple[Hashable, ...]  # what the PEs returned, or who failed how, or who waits for what
    kind: str = field(compare=False)  # "" if well; of several failures that of the first
    who: TaskKey | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)
    error: BaseException | None = field(default=None, compare=False)


_TOLD = operator.attrgetter("told")


def _facts(task: Task, step: Step) -> Facts:
    return Facts(task.key, step.touches(), step.needs, step.could)


def _pair(key: TaskKey) -> tuple[int, int]:
    return key if isinstance(key, tuple) else (key, 0)


def _failure(task: Task) -> tuple[str, str]:
    """The kind of failure that a task ended with, and what there is to say."""
    if isinstance(task.error, AcceptError):
        return task.error.kind, task.text
    return "assertion" if isinstance(task.error, AssertionError) else "exception", task.text


class Job:
    """A program in the middle of being run (`check.system.System`)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.clock = None if program.clock is None else Clock(self, program.clock, program.ties)
        self.machine = Machine(program.profile, Memory()) if self.clock is None else self.clock.network.machine
        self.tags = Tags() if self.clock is None else None  # virtual time measures and judges nothing
        self.machine.tags = self.tags
        self.sent: dict[tuple[int, int, int], list[Call]] = {}  # `inbox.Sent`
        self.tasks: dict[TaskKey, Task] = {}
        self.meetings: defaultdict[tuple[int, int], Meeting] = defaultdict(Meeting)  # by slot and leader
        self.notes: dict[tuple[int, int], int] = {}  # what a PE shows in a slot
        self.texts = [bytearray(512) for _ in range(program.n)]  # of collective calls that differ
        self.starts: dict[int, dict[str, object]] = {}  # arguments of init, by PE
        self.heaps: dict[int, Any] = {}  # by PE, once it has attached
        self.segments: dict[tuple[int, int], Any] = {}  # registered with adapters, by PE and key
        self.past: list[tuple[int, int, Hashable]] = []  # heaps of before a finalize: address, size, space
        self.by_address: list[tuple[int, int]] = []  # the first address of each, in order, with its PE
        self.lines: dict[Key, str] = {}  # of the program, that posted a request
        self.failed: list[Task] = []  # those that raised, in that order; the others go on
        self.running: Task | None = None
        self.unspun: set[str] = set()  # lines that poll without `spin`: they were not followed for ever
        self.endless: set[str] = set()  # lines that call and call without a step: they were held
        self.leaks: list[str] = []
        self.last: TaskKey | None = None  # who went on last
        self._given: list[object] = []
        self._state: tuple[list[TaskKey], list[tuple[Task, Step]]] | None = None  # of its tasks, if that was asked
        self.observed: Observed | None = None  # what a race detector is told
        if program.races:
            from .observed import Observed

            self.observed = Observed(self)
            self.machine.watched = True
        self._hub = getcurrent()
        self._over = False
        self._calls = 0  # since the running task went on
        self._refused = 0  # calls of a task that was told to end
        self._stray: StateError | None = None
        if program.around is not None:
            program.around.begin()
        for pe in range(program.n):
            self.add(pe, pe, runtime.Process(), lambda pe=pe: self._whole(pe))  # type: ignore[misc]

    def _whole(self, pe: int) -> Any:
        """The life of a PE: its program, and the end of shmem if the program leaves that to us."""
        from . import world

        world.begin(self, pe)
        try:
            result = kept(self.program.body(pe))
        except SystemExit as error:
            if error.code:
                raise
            result = None  # the end of this PE, and a good one
        if self.clock is not None:
            self.clock.finish[pe] = self.clock.mine
        if self.tasks[pe].process.ended is None:  # else the program has finalised itself
            runtime.current()
        while runtime.initialized():
            runtime.finalize()
        self._check_stray()
        return result

    # ---- tasks ----

    def add(self, key: TaskKey, pe: int, process: runtime.Process, body: Callable[[], Any]) -> Task:
        """A new task; it runs at once up to its first step."""

        def life(_: None) -> None:
            try:
                task.result = body()
            except GreenletExit:
                pass
            except SystemExit as error:
                task.text = said(error)
                task.error = error if error.code else None
            except BaseException as error:
                with contextlib.suppress(Exception):
                    error.args = kept(error.args)
                task.text = said(error)
                task.error = error

        task = Task(key, pe, process, greenlet(life), tag=self.running.tag if self.running else None)
        self.tasks[key] = task
        if self.running is not None:
            task.clock = self.running.clock
        self._resume(task)
        return task

    def new_key(self, pe: int) -> tuple[int, int]:
        """The key of the next task of a PE besides the PE itself."""
        return pe, sum(task.pe == pe for task in self.tasks.values())

    def _within(self, task: Task, go: Callable[..., Any], argument: Any) -> Any:
        """Lets a task run, by `go`: the process, and what is around it, are those of its PE. Returns its step."""
        around, outer = self.program.around, self.running
        before = runtime.switch(task.process)
        task.thread.parent = getcurrent()
        self.running = task
        if around is not None:
            around.enter(task.pe)
        try:
            return go(argument)
        finally:
            self.running = outer
            runtime.switch(before)
            if around is not None and outer is None:
                around.leave()
            elif around is not None and outer is not None:
                around.enter(outer.pe)

    def _resume(self, task: Task, value: Any = None, error: BaseException | None = None) -> None:
        thread = task.thread
        self._calls = 0
        step = self._within(task, thread.switch, value) if error is None else self._within(task, thread.throw, error)
        task.step = None if task.thread.dead else step
        if self.clock is not None:
            self.clock.rests(task)
        if isinstance(task.error, KeyboardInterrupt):
            raise task.error
        if task.error is not None and task not in self.failed:
            self.failed.append(task)

    def do(self, step: Step) -> Any:
        """Called by a task: rests until the step was made; returns what it gave."""
        self._check_caller()
        hub = getcurrent().parent
        assert hub is not None
        if self._over:
            self._refused += 1
            if self._refused % REFUSALS == 0:  # it catches whatever it is told, and tries again: it stays where it is
                hub.switch(None)
            raise GreenletExit
        self._check_stray()
        return hub.switch(step)

    def _check_stray(self) -> None:
        """Raises what a thread of the program has left behind."""
        if self._stray is not None:
            error, self._stray = self._stray, None
            raise error

    def called(self) -> None:
        """Every call begins here. A task that calls and calls without a step in between would never end: it is held."""
        self._check_caller()
        self._calls += 1
        if 0 < self.program.max_calls <= self._calls:
            self.endless.add(caller())
            self.do(Step("goes on for ever", lambda: None, ready=lambda: False))

    def _check_caller(self) -> None:
        """Raises StateError for anybody but the running task. What a thread of the program can't be allowed to do is
        raised once more at the next step of a PE, for the thread's own error need not be noticed."""
        running = self.running
        if running is None or running.thread is not getcurrent():
            error = StateError("this belongs to a job on sim: only its own PEs can use it, and only until it ends")
            if running is not None:
                self._stray = StateError("a thread of the program used shmem: on sim only the PE itself may")
            raise error

    def tell(self, data: bytes) -> None:
        """Notes what the running task got besides the results of its steps."""
        assert self.running is not None
        self.running.told = hash((self.running.told, data))

    def give(self, thing: object) -> None:
        """Notes what the running task has made possible."""
        if self.observed is not None:
            self.observed.gave(thing)
        if self.clock is None:
            self._given.append(thing)
        elif self.running is not None:
            self.clock.given(self.running)

    def close(self) -> None:
        """Ends all tasks, wherever they are."""
        self._over = True
        for task in self.tasks.values():
            if not task.thread.dead:
                self._within(task, task.thread.throw, GreenletExit)

    # ---- for a search ----

    @property
    def over(self) -> bool:
        """Whether all tasks have ended."""
        return all(task.step is None for task in self.tasks.values())

    def moves(self) -> Sequence[Move]:
        """What may happen next, in the usual order: what is in flight arrives, who ran last goes on, then the others
        by number, then what is a fault."""
        ready, waiting = self._sorted()
        if not (ready or waiting):
            return []
        coming = self.machine.enabled()
        if faults := [event for event in coming if event.act in FAULTS] if self.machine.queue_pairs else []:
            coming = [event for event in coming if event.act not in FAULTS]
        moves = joined([coming, ready, faults])
        return moves or [task.key for task, step in waiting if step.gives_up]

    def deliver(self) -> None:
        """Lets all that is in flight arrive, in the usual order."""
        self._state = None
        self.machine.deliver()

    def blocked(self) -> list[Facts]:
        """The steps of tasks that wait."""
        return [_facts(task, step) for task, step in self._sorted()[1]]

    def _sorted(self) -> tuple[list[TaskKey], list[tuple[Task, Step]]]:
        """The tasks that can go on, who did last first, and those that wait: found once a state."""
        if self._state is None:
            ready, waiting = list[TaskKey](), []
            for key, task in self.tasks.items():
                if (step := task.step) is None:
                    continue
                if step.ready is None or step.ready():
                    ready.append(key)
                else:
                    waiting.append((task, step))
            if self.last in ready:
                ready.remove(self.last)
                ready.insert(0, self.last)
            self._state = ready, waiting
        return self._state

    def facts(self, move: Move) -> Facts:
        """What is known of a move."""
        if isinstance(move, Event):
            return event_facts(self.machine, move)
        task = self.tasks[move]
        assert task.step is not None
        return _facts(task, task.step)

    def perform(self, move: Move) -> tuple[object, ...]:
        """Makes a move; returns what it made possible."""
        self._state = None
        if isinstance(move, Event):
            if not self.machine.pends(move):
                raise self._gone(move)
            given = self.machine.fire(move)
            if self.observed is not None:
                self.observed.landed(move)
            return given
        task = self.tasks.get(move)
        if task is None or (step := task.step) is None:
            raise self._gone(move)
        posted = len(self.machine.known)
        self._given = []
        self.last = move
        self.make(task, step)
        new = len(self.machine.known) - posted
        for key, request in islice(reversed(self.machine.known.items()), new) if new else ():
            self._given.append(("posted", key))
            if request.ring and request.rung:
                self._given.append(("rung", key))
        return tuple(self._given)

    def make(self, task: Task, step: Step) -> None:
        """Makes the step of a task, and lets it run on to its next one."""
        try:
            value = step.run()
        except BaseException as error:
            task.told = hash((task.told, type(error).__name__, str(error)))
            self._resume(task, error=error)
        else:
            task.told = hash((task.told, frozen(value)))
            if self.observed is not None:
                self.observed.goes_on(task.key, step.needs())
            self._resume(task, value)

    def _gone(self, move: Move) -> NondeterministicProgram:
        return NondeterministicProgram(f"a move of an earlier run, {move}, is not possible in the same run made again")

    @property
    def failure(self) -> Task | None:
        """The task that failed first."""
        return self.failed[0] if self.failed else None

    def waiting(self) -> list[tuple[Task, Step]]:
        """The tasks that have not ended, each before its step."""
        return [(task, task.step) for task in self.tasks.values() if task.step is not None]

    def end(self) -> End:
        """How it ended, or that it has not."""
        if self.failed:
            told = tuple(sorted((_pair(task.key), *_failure(task)) for task in self.failed))
            first = self.failed[0]
            return End(("failed", *told), _failure(first)[0], first.key, first.text, first.error)
        if stuck := self.waiting():
            kind = "cut" if self.endless or self.moves() else "deadlock"
            waits = tuple(f"{name_of(task.key)} {waiting(task)}" for task, _ in stuck)
            return End((kind, *waits), kind, None, "; ".join(waits))
        if self.program.leaks and self.leaks:
            return End(("leak", *self.leaks), "leak", None, "".join(self.leaks).rstrip())
        return End(tuple(frozen(self.tasks[pe].result) for pe in range(self.program.n)), "")

    def outcome(self) -> Hashable:
        """How it ended."""
        return self.end()

    def digest(self) -> Hashable:
        """All that can still matter: what is in memory and in flight, and what each task was told; of a program that
        does the same whenever it is told the same."""
        tasks = tuple((key, task.told, task.step is None) for key, task in self.tasks.items())
        meetings = [(team, sorted(m.entered.items()), sorted(m.calls.items())) for team, m in self.meetings.items()]
        beside = sorted(meetings), sorted(self.notes.items()), self.texts
        return tasks, repr(beside), self.machine.digest()

    def mark(self) -> Hashable:
        """What the tasks were told."""
        return tuple(map(_TOLD, self.tasks.values()))

    def copy(self) -> None:
        """Tasks can't be copied."""
