"""Virtual time: what happens next on `sim` is what is due first, by a model of what communication costs.

Every task has a clock of its own, and everything else is an event in one heap. A task that goes on runs ahead of the
others up to its next step, which is then due at its clock: nobody can see it before. What is in flight is the affair of
`network`, which calls back here when memory has changed or a request has moved.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...delivery.model import Model
from ...delivery.requests import Place, Space
from .network import Network

if TYPE_CHECKING:
    from ..interface import Members
    from .tasks import Job, Step, Task


@dataclass
class Rendezvous:
    """A barrier that not all have come to."""

    came: int = 0
    last_us: float = 0.0


@dataclass
class Clock:
    """The time of a job; microseconds. seed: draws what of equal times comes first; None: what was there first."""

    job: Job
    model: Model
    seed: int | None = None
    now: float = 0.0
    events: int = 0  # that have happened
    seconds: float = 0.0  # of this machine, that they took
    finish: dict[int, float] = field(default_factory=dict)  # when the program of a PE returned

    def __post_init__(self) -> None:
        self._heap: list[tuple[float, float, int, Callable[[Any], None], Any]] = []
        self._count = 0
        self._draw = None if self.seed is None else random.Random(f"{self.seed}.clock").random
        self._hear: dict[object, dict[object, tuple[Task, list[Place]]]] = {}  # who waits, by what it has to hear of
        self._meet: dict[tuple[object, int], Rendezvous] = {}
        self._past: dict[object, int] = {}  # barriers that are over, by team
        self.network = Network(self, self.job.program.profile)

    def at(self, time: float, what: Callable[[Any], None], of: Any) -> None:
        """`what(of)` happens at a time."""
        self._count += 1
        tie = 0.0 if self._draw is None else self._draw()
        heappush(self._heap, (time, tie, self._count, what, of))

    def run(self) -> None:
        """Lets time pass until all have ended, one has failed, or nothing can happen any more."""
        heap, start = self._heap, perf_counter()
        while not self.job.failed and (heap or self._rest()):
            if heap:
                self.now, _, _, what, of = heappop(heap)
                self.events += 1
                what(of)
        self.seconds = perf_counter() - start

    # ---- tasks ----

    @property
    def mine(self) -> float:
        """The time of the running task."""
        assert self.job.running is not None
        return self.job.running.clock

    def spend(self, us: float) -> None:
        """The running task is busy for a time."""
        assert self.job.running is not None
        self.job.running.clock += us

    def rests(self, task: Task) -> None:
        """A task is before a step."""
        if task.step is not None:
            self.at(task.clock, self._try, (task, task.step))

    def _try(self, what: tuple[Task, Step]) -> None:
        task, step = what
        if task.step is not step:
            return
        if _able(step):
            self._go(task, step)
            return
        task.waits = True
        places = [] if step.could is None else [touch.place for touch in step.touches()]
        task.hears = {_memory(place.space) for place in places} or {("task", task.pe)}
        for each in task.hears:
            self._hear.setdefault(each, {})[task.key] = task, places

    def _go(self, task: Task, step: Step) -> None:
        touches = step.touches()
        task.clock = max(task.clock, self.now)
        waited, task.waits = task.waits, False
        if waited and step.takes:
            task.clock += self.model.receive_us
        elif any(isinstance(_memory(touch.place.space), int) for touch in touches):
            task.clock += self.model.access_us
        self.job.make(task, step)
        for touch in touches:
            if touch.writes:
                self.wrote(touch.place)
        self.network.went_on()

    def _wake_if_able(self, task: Task) -> None:
        if task.step is not None and _able(task.step):
            self._deafen(task)
            self.at(self.now, self._try, (task, task.step))

    def _deafen(self, task: Task) -> None:
        for each in task.hears:
            del self._hear[each][task.key]
        task.hears = set()

    def wrote(self, place: Place) -> None:
        """Memory has changed: tasks that wait for values there."""
        space = _memory(place.space)
        for task, places in [*self._hear.get(space, {}).values()]:
            if any(_memory(each.space) == space and each.lo < place.hi and place.lo < each.hi for each in places):
                self._wake_if_able(task)

    def look(self, pe: int) -> None:
        """Something of a PE has moved: its tasks that do not wait for values."""
        for task, _ in [*self._hear.get(("task", pe), {}).values()]:
            self._wake_if_able(task)

    def given(self, task: Task) -> None:
        """A task has made something possible for others of its PE."""
        self.at(task.clock, self.look, task.pe)

    def _rest(self) -> bool:
        """Nothing is due. Whether something is possible all the same: what no time was given to, or a loop that only
        looks and takes another turn."""
        moved = self.network.moves_all_the_same()
        waiting = self.job.waiting()
        for task, _ in waiting:
            self._wake_if_able(task)
        if moved or self._heap:
            return True
        for task, step in waiting:
            if step.gives_up:
                self._deafen(task)
                self._go(task, step)
                return True
        return False

    # ---- barriers ----

    def arrive(self, team: object, number: int, members: Members) -> None:
        """The running task has come to a barrier: it is over for all a time after the last one came."""
        meeting = self._meet.setdefault((team, number), Rendezvous())
        meeting.came += 1
        meeting.last_us = max(meeting.last_us, self.mine)
        if meeting.came == len(members.pes):
            del self._meet[team, number]
            self.at(meeting.last_us + self.model.barrier_us(members.pes), self._leave, (team, number, members.pes))

    def _leave(self, what: tuple[object, int, tuple[int, ...]]) -> None:
        team, number, pes = what
        self._past[team] = number
        for pe in pes:
            self.look(pe)

    def begins(self, team: object) -> None:
        """A new team: its barriers are counted from the start."""
        self._past.pop(team, None)

    def past(self, team: object, number: int) -> bool:
        """Whether a barrier is over."""
        return self._past.get(team, 0) >= number


def _able(step: Step) -> bool:
    return step.ready is None or step.ready()


def _memory(space: Space) -> Space:
    """The memory of which a view, or what is not seen of it, is."""
    return space[1] if isinstance(space, tuple) and space[0] in ("view", "unseen") else space
