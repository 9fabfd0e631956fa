"""Streams: batches that run one after the other while the program computes.

A stream is an ordered queue of batches of operation records; `Batch.launch` adds one and gives its event. Who runs them
is the fabric's affair (`Fabric.executor`: a native thread on `direct`). A batch on a stream that meets other PEs must
not meet them on a team that the program uses meanwhile: a barrier of a team belongs to one thread at a time.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from .errors import StateError
from .fabric.interface import Job, Status
from .runtime import PE, current
from .waiting import deadline, raise_dead, raise_timeout, until

if TYPE_CHECKING:
    from .batch import Batch


class Event:
    """The end of one batch on a stream."""

    def __init__(self, pe: PE, batch: Batch, job: Job, limit: float) -> None:
        self._pe, self._job, self._limit = pe, job, limit
        self._batch: Batch | None = batch  # lives as long as its records run; None once it ended well
        self.told = False  # `wait` has raised how it ended

    def done(self) -> bool:
        """Whether the batch has ended, well or not. Never blocks."""
        return self._job.wait(0.0) is Status.OK

    def wait(self, *, timeout: float | None = None) -> None:
        """Returns when the batch has run: all that `Batch.run` promises holds then. More calls return at once.

        timeout: seconds to wait here, default SHMEMU_TIMEOUT_S. Raises what `Batch.run` raises, StateError if it was
        not run since an earlier batch of its stream had failed, ShmemTimeout if it has not ended yet.
        """
        batch = self._batch
        if batch is None:
            return
        step = self._job.wait
        until(self._pe, step, lambda: "a batch on a stream", lambda: f"it at record {self._job.at}", timeout)
        status, at = self._job.status, self._job.at
        if status is Status.OK:
            self._batch = None
            return
        self.told = True
        if status is Status.MISMATCH:
            batch.raise_differing(at)
        elif status is Status.DIED:
            raise_dead(self._pe, batch.awaited(at))
        elif status is Status.TIMEOUT:
            raise_timeout(self._pe, batch.awaited(at), batch.seen(at), self._limit)
        else:
            raise StateError("the batch was not run: an earlier one on its stream had failed", pe=self._pe.me)


class Stream:
    """An ordered queue of batches, run while the program goes on. Ours.

    Local: every PE has its own streams. A context manager: leaving the block waits for what was launched and closes it.
    """

    def __init__(self) -> None:
        self._pe = current()
        self._executor = self._pe.fabric.executor()
        self._events: list[Event] = []  # not known to be done: they keep their batches alive
        self._closed = False
        self._pe.streams.append(self)

    def launch(self, batch: Batch, q: int, timeout: float | None) -> Event:
        """Adds a batch; use `Batch.launch`. Raises StateError once closed."""
        pe = self._pe
        if self._closed:
            raise StateError("the stream is closed", pe=pe.me)
        limit = deadline(pe, timeout)
        event = Event(pe, batch, self._executor.launch(q, batch.compiled(), limit), limit)
        self._events = [*(one for one in self._events if not one.done()), event]
        return event

    def synchronize(self, *, timeout: float | None = None) -> None:
        """Returns when everything launched has run. Raises as `Event.wait`, for the first that failed."""
        for event in self._events:
            event.wait(timeout=timeout)
        self._events = []

    def close(self) -> None:
        """Waits for what was launched and ends the stream. More calls do nothing.

        Raises as `synchronize`, closed all the same, but not again what a wait has raised already.
        """
        if self._closed:
            return
        self._closed = True
        self._pe.streams.remove(self)
        try:
            self._events = [event for event in self._events if not event.told]
            self.synchronize()
        finally:
            self._executor.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
