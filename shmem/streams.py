"""Streams: batches that run one after the other while the program computes.

A stream is an ordered queue of batches of operation records; `Batch.launch` adds one and gives its event. Who runs them
is the fabric's affair (`Fabric.executor`: a native thread on `direct`). A batch on a stream that meets other PEs must
not meet them on a team that the program uses meanwhile: a barrier of a team belongs to one thread at a time.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from . import log
from .errors import StateError
from .fabric.interface import Job, Status
from .runtime import PE, Local, current
from .waiting import deadline, raise_busy, raise_dead, raise_timeout, until

if TYPE_CHECKING:
    from .batch import Batch


class Event(Local):
    """The end of one batch on a stream."""

    def __init__(self, pe: PE, batch: Batch, job: Job, limit: float, q: int) -> None:
        self._pe, self._job, self._limit, self.q = pe, job, limit, q
        self._batch: Batch | None = batch  # lives as long as its records run; None once it ended well
        self.told = False  # `wait` has raised how it ended

    def done(self) -> bool:
        """Whether the batch has ended, well or not. Never blocks."""
        return self._job.wait(0.0) is Status.OK

    @property
    def _in_flight(self) -> Batch | None:
        """The batch, while it has not ended."""
        return None if self.done() else self._batch

    def wait(self, *, timeout: float | None = None) -> None:
        """Returns when the batch has run: all that `Batch.run` promises holds then. More calls return at once.

        timeout: seconds to wait here, default SHMEMU_TIMEOUT_S. Raises what `Batch.run` raises, StateError if it was
        not run since an earlier batch of its stream had failed, or not to its end since its stream was closed,
        ShmemTimeout if it has not ended yet.
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
        self._pe.fabric.refuse(status)
        if status is Status.MISMATCH:
            batch.raise_differing(at)
        elif status is Status.DIED:
            raise_dead(self._pe, batch.awaited(at))
        elif status is Status.TIMEOUT:
            raise_timeout(self._pe, batch.awaited(at), batch.seen(at), self._limit)
        elif status is Status.BUSY:
            raise_busy(self._pe, batch.awaited(at))
        elif status is Status.CANCELLED:
            raise StateError(f"the batch was given up at record {at}, when its stream was closed", pe=self._pe.me)
        elif status is Status.FAILED:
            text = f"the batch ended at record {at}, since a queue pair had failed; another call has told of that"
            raise StateError(text, pe=self._pe.me)
        else:
            raise StateError("the batch was not run: an earlier one on its stream had failed", pe=self._pe.me)


class Stream(Local):
    """An ordered queue of batches, run while the program goes on. Ours.

    Local: every PE has its own streams. A context manager: leaving the block waits for what was launched and closes
    it; leaving it by an exception waits for nothing, and gives up what has not ended.
    """

    def __init__(self) -> None:
        self._pe = current()
        self._executor = self._pe.fabric.executor()
        self._events: list[Event] = []  # not known to be done: they keep their batches alive
        self._closed = False
        self._pe.streams.append(self)
        log.debug("stream opened, %d open now", len(self._pe.streams))

    def launch(self, batch: Batch, q: int, timeout: float | None) -> Event:
        """Adds a batch; use `Batch.launch`. Raises StateError once closed."""
        pe = self._pe
        if self._closed:
            raise StateError("the stream is closed", pe=pe.me)
        limit = deadline(pe, timeout)
        event = Event(pe, batch, self._executor.launch(q, batch.compiled(), limit), limit, q)
        self._events = [*(one for one in self._events if not one.done()), event]
        return event

    def synchronize(self, *, timeout: float | None = None) -> None:
        """Returns when everything launched has run. Raises as `Event.wait`, for the first that failed.

        timeout: seconds for all of it, default SHMEMU_TIMEOUT_S.
        """
        end = time.monotonic() + deadline(self._pe, timeout)
        for event in self._events:
            event.wait(timeout=max(0.0, end - time.monotonic()))
        self._events = []

    def close(self) -> None:
        """Waits for what was launched and ends the stream. More calls do nothing.

        Raises as `synchronize`, closed all the same, but not again what a wait has raised already. What has not ended
        after SHMEMU_TIMEOUT_S is given up, however long it was to take.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._events = [event for event in self._events if not event.told]
            self.synchronize()
        finally:
            self._end()

    def _end(self) -> None:
        """Ends the thread, and so what has not ended by itself; the batches live until then."""
        self._closed = True
        if self in self._pe.streams:
            self._executor.close()
            self._pe.streams.remove(self)
            log.debug("stream closed, %d open now", len(self._pe.streams))

    def _in_flight(self) -> list[tuple[Batch, int]]:
        """The batches that have not ended, and the queue of each."""
        found = ((event._in_flight, event.q) for event in self._events)
        return [(batch, q) for batch, q in found if batch is not None]

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._end()


def in_flight(pe: PE) -> list[tuple[Batch, int]]:
    """The batches that a PE has launched and that have not ended, and the queue of each."""
    return [one for stream in list(pe.streams) for one in stream._in_flight()]
