"""Workers on `sim`: tasks of one PE, that a search lets run like PEs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ... import runtime
from ..interface import Status
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric


class SimGang:
    """The workers of one call."""

    def __init__(self, fabric: SimFabric, n: int, work: Callable[[int], None]) -> None:
        self._fabric, self._n, self._work = fabric, n, work
        self._met = 0  # arrivals so far
        self._broken = False
        self._name = fabric.job.new_key(fabric.me)

    def run(self) -> None:
        """Starts a task for each, and waits for their ends."""
        job, me = self._fabric.job, self._fabric.me
        self._fabric.crowded = True
        job.give(("started", self._name))
        tasks = [job.add(job.new_key(me), me, runtime.here(), partial(self._life, i)) for i in range(self._n)]
        needs = [("ended", self._name, i) for i in range(self._n)]

        def ended() -> bool:
            return all(task.step is None for task in tasks)

        self._fabric.do(Step("the end of its workers", lambda: None, ended, needs=lambda: needs))

    def _life(self, i: int) -> None:
        needs = [("started", self._name)]
        self._fabric.do(Step("start", lambda: None, needs=lambda: needs))
        self._work(i)
        self._fabric.in_time()
        self._fabric.job.give(("ended", self._name, i))

    def meet(self, limit_s: float) -> Status:
        """Arrives, and waits for the others of this round."""
        self._fabric.in_time()
        number, self._met = self._met, self._met + 1
        self._fabric.job.give(("met", self._name, number))
        first = number // self._n * self._n
        needs = [("met", self._name, k) for k in (-1, *range(first, first + self._n))]

        def ready() -> bool:
            return self._broken or self._met >= first + self._n

        self._fabric.do(Step("worker_barrier", lambda: None, ready, needs=lambda: needs))
        return Status.OK if self._met >= first + self._n else Status.DIED

    def abort(self) -> None:
        """A worker has failed."""
        self._fabric.in_time()
        self._broken = True
        self._fabric.job.give(("met", self._name, -1))
