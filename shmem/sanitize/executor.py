"""Streams of a recorded run: a Python thread each, since every record has to be written down."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from ..fabric.interface import Status
from ..records import Records

if TYPE_CHECKING:
    from .fabric import RecordingFabric

SLICE_S = 0.1  # a job that waits is given up so long after its stream was closed, at most


class ThreadJob:
    """Records given to a thread."""

    def __init__(self, q: int, ops: Records, timeout_s: float, where: str) -> None:
        self.q, self.ops, self.timeout_s, self.where = q, ops, timeout_s, where
        self.status, self.ended = Status.OK, threading.Event()
        self.reached = np.zeros(1, np.int64)

    @property
    def at(self) -> int:
        """The record at which they are, or stopped."""
        return int(self.reached[0])

    def wait(self, timeout_s: float) -> Status:
        """Sleeps until the job is done."""
        return Status.OK if self.ended.wait(max(0.0, min(timeout_s, threading.TIMEOUT_MAX))) else Status.TIMEOUT


class ThreadExecutor:
    """A thread that runs jobs in order."""

    def __init__(self, fabric: RecordingFabric) -> None:
        self._fabric, self._closed, self._broken = fabric, False, False
        self._jobs: queue.SimpleQueue[ThreadJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="shmem stream")
        self._thread.start()

    def launch(self, q: int, ops: Records, timeout_s: float) -> ThreadJob:
        """Hands the records to the thread."""
        job = ThreadJob(q, ops, timeout_s, self._fabric.where())
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """Ends the thread; a job that waits goes on for 0.1 s at most."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._closed or self._broken:
                job.status = Status.CANCELLED if self._closed else Status.SKIPPED
            else:
                self._run_job(job)
                self._broken = job.status is not Status.OK
                if self._broken:
                    self._fabric.disown()
            job.ended.set()

    def _run_job(self, job: ThreadJob) -> None:
        end, start = time.monotonic() + job.timeout_s, 0
        self._fabric.speaks_for(job.where)
        while True:
            left = end - time.monotonic()
            job.status, start = self._fabric.submit(job.q, job.ops, start, min(SLICE_S, max(0.0, left)), job.reached)
            job.reached[0] = start
            if job.status not in (Status.TIMEOUT, Status.INTERRUPTED) or left <= 0:
                return
            if self._closed:
                job.status = Status.CANCELLED
                return
