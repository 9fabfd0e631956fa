"""Workers: several threads of control inside one PE, as the blocks of a kernel are.

`workers(n, fn)` runs `fn(0)` ... `fn(n-1)` at the same time; between them they meet at `worker_barrier()`. They share
the PE: its number, its heap, and its contexts, unless each creates its own. Under mpiexec they are threads, on `sim`
tasks.
"""

from __future__ import annotations

import ctypes
import operator
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from .errors import ArgumentError, ShmemTimeout, StateError
from .fabric.interface import Gang, Status
from .runtime import PE, current
from .waiting import deadline

T = TypeVar("T")
STOP_S = 1.0  # how long `workers` waits for the others after a signal
WORKERS_MAX = 4096


class _Stop(BaseException):
    """Raised in the workers when a signal handler has raised in the thread that waits for them."""


class Threads:
    """Workers as threads (`fabric.interface.Gang`)."""

    def __init__(self, n: int, work: Callable[[int], None]) -> None:
        self._barrier = threading.Barrier(n)
        self._threads = [threading.Thread(target=work, args=(i,), name=f"worker {i}", daemon=True) for i in range(n)]

    def run(self) -> None:
        """Runs all; what a signal handler raises meanwhile ends them and is raised."""
        try:
            for thread in self._threads:
                thread.start()
            for thread in self._threads:
                thread.join()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        """Raises in all workers that still run, as soon as they run Python, and waits a moment for them to end."""
        self._barrier.abort()
        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        for thread in self._threads:
            if thread.is_alive() and thread.ident is not None:
                raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop))
        end = time.monotonic() + STOP_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))

    def meet(self, limit_s: float) -> Status:
        """Waits for all; DIED where the meeting was broken."""
        start, broken = time.monotonic(), self._barrier.broken
        try:
            self._barrier.wait(min(limit_s, threading.TIMEOUT_MAX))
        except threading.BrokenBarrierError:
            return Status.DIED if broken or time.monotonic() - start < limit_s else Status.TIMEOUT
        return Status.OK

    def abort(self) -> None:
        """Nobody meets any more."""
        self._barrier.abort()


class _Alone(StateError):
    """What a worker gets from `worker_barrier` when another has failed."""


class _Crew:
    """The workers of one call, and what became of each."""

    def __init__(self, pe: PE, n: int, fn: Callable[[int], Any]) -> None:
        self.pe, self.n, self.fn = pe, n, fn
        self.results: list[Any] = [None] * n
        self.errors: list[BaseException | None] = [None] * n
        self.gang: Gang = pe.fabric.gang(n, self.work) or Threads(n, self.work)

    def work(self, i: int) -> None:
        _crew.set(self)
        try:
            self.results[i] = self.fn(i)
        except BaseException as error:
            self.errors[i] = error
            self.gang.abort()

    def meet(self, limit_s: float) -> None:
        """Waits for all. Raises ShmemTimeout, and StateError where another worker has broken the barrier."""
        status = self.gang.meet(limit_s)
        if status is Status.OK:
            return
        me = self.pe.me
        if any(one is not None for one in self.errors):
            raise _Alone("another worker of this PE failed", pe=me)
        if status is Status.DIED:
            text = "meet in worker_barrier no more: one of them gave up waiting in it"
            raise StateError(f"the workers of PE {me} {text}", pe=me)
        raise ShmemTimeout(
            f"PE {me} waited {limit_s:.1f} s for its {self.n} workers in worker_barrier",
            awaited="all workers", seen=None, in_flight=None, waited_s=limit_s, pe=me,
        )  # fmt: skip


_crew: ContextVar[_Crew | None] = ContextVar("_crew", default=None)  # that a thread or task belongs to


def workers(n: int, fn: Callable[[int], T]) -> list[T]:
    """Runs `fn(i)` for i in 0 .. n-1 at the same time inside this PE and returns their results in order. Ours.

    On return: every worker has ended. If some raised, the exception of the first that failed on its own (by number) is
    raised; the others get StateError from `worker_barrier`. What a signal handler raises meanwhile (KeyboardInterrupt)
    ends the workers where they are and is raised: those that neither run Python nor wait in a call of shmem may go on
    in the background. Raises ArgumentError for an n that is no integer from 1 to 4096 and an fn that can't be called.
    """
    pe = current()
    try:
        number = operator.index(n)
    except TypeError:
        number = 0
    if number > WORKERS_MAX:
        raise ArgumentError(f"workers({n}, ...): at most {WORKERS_MAX}", pe=pe.me)
    if number < 1:
        raise ArgumentError(f"workers({n!r}, ...): an integer is needed, and at least one", pe=pe.me)
    if not callable(fn):
        raise ArgumentError(f"workers({n}, {fn!r}): what they run must be callable", pe=pe.me)
    crew = _Crew(pe, number, fn)
    crew.gang.run()
    errors = [error for error in crew.errors if error is not None]
    for error in errors:
        if not isinstance(error, _Alone):
            raise error
    if errors:
        raise errors[0]
    return crew.results


def worker_barrier(*, timeout: float | None = None) -> None:
    """Waits for all workers of this PE; local stores made before are visible to them after. Ours.

    timeout: seconds, default SHMEMU_TIMEOUT_S. Raises ShmemTimeout for a worker that does not come; StateError outside
    of `workers`, when a worker has failed, and when one has given up waiting here: then these workers meet no more.
    """
    crew = _crew.get()
    if crew is None:
        raise StateError("worker_barrier outside of workers()", pe=current().me)
    crew.meet(deadline(crew.pe, timeout))
