"""Streams on `sim`: a task that runs batches one after the other, and that a search lets run like a PE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import runtime
from ...records import Records
from ..interface import Status
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric


class SimJob:
    """Records that a stream runs, or has run."""

    def __init__(self, executor: SimExecutor, number: int, q: int, ops: Records) -> None:
        self.executor, self.number, self.q, self.ops = executor, number, q, ops
        self.status, self.at, self.done = Status.OK, 0, False
        self.tag = executor.fabric.calls.tag

    def wait(self, timeout_s: float) -> Status:
        """A step that may happen once the job is done; without time, a look."""
        if timeout_s <= 0:
            return Status.OK if self.done else Status.TIMEOUT
        if not self.done:
            needs = [("done", self.executor.key, self.number)]
            step = Step("a batch on a stream", lambda: None, lambda: self.done, needs=lambda: needs)
            self.executor.fabric.do(step)
        return Status.OK


class SimExecutor:
    """A task of a PE."""

    def __init__(self, fabric: SimFabric) -> None:
        self.fabric = fabric
        self.jobs: list[SimJob] = []
        self.closed = False
        self.key = fabric.job.new_key(fabric.me)
        fabric.crowded = True
        fabric.job.add(self.key, fabric.me, runtime.here(), self._run)

    def launch(self, q: int, ops: Records, timeout_s: float) -> SimJob:
        """Adds a job."""
        self.fabric.in_time()
        job = SimJob(self, len(self.jobs), q, ops)
        self.jobs.append(job)
        self.fabric.job.give(("launched", self.key, job.number))
        return job

    def close(self) -> None:
        """No job is begun any more; the one that runs goes on."""
        self.fabric.in_time()
        self.closed = True
        self.fabric.job.give(("launched", self.key, len(self.jobs)))

    def _run(self) -> None:
        number, broken = 0, False
        while True:
            needs = [("launched", self.key, number)]
            self.fabric.do(
                Step(
                    "the next batch of a stream",
                    lambda: None,
                    lambda number=number: self.closed or len(self.jobs) > number,  # type: ignore[misc]
                    needs=lambda needs=needs: needs,  # type: ignore[misc]
                )
            )
            if len(self.jobs) == number:
                return
            job = self.jobs[number]
            if broken or self.closed:
                job.status = Status.CANCELLED if self.closed else Status.SKIPPED
            else:
                self.fabric.calls.tag = job.tag
                job.status, job.at = self.fabric.submit(job.q, job.ops, timeout_s=1.0)
                broken = job.status is not Status.OK
            self.fabric.in_time()
            job.done = True
            self.fabric.job.give(("done", self.key, number))
            number += 1
