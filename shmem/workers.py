"""Workers: several threads of control inside one PE, as the blocks of a kernel are.

`workers(n, fn)` runs `fn(0)` ... `fn(n-1)` at the same time; between them they meet at `worker_barrier()`. They share
the PE: its number, its heap, and its contexts, unless each creates its own. Under mpiexec they are threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import ArgumentError, ShmemTimeout, StateError
from .runtime import PE, current
from .waiting import deadline

T = TypeVar("T")
_here = threading.local()


class _Crew:
    """The workers of one call, their meeting point, and what became of each."""

    def __init__(self, pe: PE, n: int) -> None:
        self.pe = pe
        self.results: list[Any] = [None] * n
        self.errors: list[BaseException | None] = [None] * n
        self.barrier = threading.Barrier(n)

    def work(self, i: int, fn: Callable[[int], Any]) -> None:
        _here.crew = self
        try:
            self.results[i] = fn(i)
        except BaseException as error:
            self.errors[i] = error
            self.barrier.abort()


def workers(n: int, fn: Callable[[int], T]) -> list[T]:
    """Runs `fn(i)` for i in 0 .. n-1 at the same time inside this PE and returns their results in order. Ours.

    On return: every worker has ended. If some raised, the exception of the first that failed on its own (by number) is
    raised; the others get StateError from `worker_barrier`. Raises ArgumentError for n below 1.
    """
    if not isinstance(n, int) or n < 1:
        raise ArgumentError(f"workers({n!r}, ...): at least one is needed", pe=current().me)
    crew = _Crew(current(), n)
    threads = [threading.Thread(target=crew.work, args=(i, fn), name=f"worker {i}") for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [error for error in crew.errors if error is not None]
    for error in errors:
        if not (isinstance(error, StateError) and isinstance(error.__cause__, threading.BrokenBarrierError)):
            raise error
    if errors:
        raise errors[0]
    return crew.results


def worker_barrier(*, timeout: float | None = None) -> None:
    """Waits for all workers of this PE; local stores made before are visible to them after. Ours.

    timeout: seconds, default SHMEMU_TIMEOUT_S. Raises StateError outside of `workers` and when a worker has failed,
    ShmemTimeout for one that does not come.
    """
    crew: _Crew | None = getattr(_here, "crew", None)
    if crew is None:
        raise StateError("worker_barrier outside of workers()", pe=current().me)
    limit = deadline(crew.pe, timeout)
    try:
        crew.barrier.wait(min(limit, threading.TIMEOUT_MAX))
    except threading.BrokenBarrierError as error:
        if any(crew.errors):
            raise StateError("another worker of this PE failed", pe=crew.pe.me) from error
        raise ShmemTimeout(
            f"PE {crew.pe.me} waited {limit:.1f} s for its {crew.barrier.parties} workers in worker_barrier",
            awaited="all workers", seen=crew.barrier.n_waiting, in_flight=None, waited_s=limit, pe=crew.pe.me,
        ) from error  # fmt: skip
