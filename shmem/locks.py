"""Distributed locks: fair queues of PEs that wait on their own words (OpenSHMEM 1.6, 9.13).

A lock is a symmetric int64 array of one element, zero when free. The order of acquisition is the order in which the PEs
came, and nobody polls another's memory: `lock_queue.py` has the queue. Whatever a call raises, also an exception of a
signal handler, leaves this PE outside of the queue; only a call that is refused leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import numpy as np

from .arrays import zeros
from .errors import ArgumentError, DtypeError, LockError, ShmemError
from .lock_queue import Call, Place, Step, acquire, attempt, retreat, tell
from .memory import free
from .plain import truth
from .records import Kind
from .runtime import PE, Local, current
from .views import Array, word_at
from .waiting import deadline

INSIST = 100  # how often a way out that signal handlers interrupt is taken up again


def _place(pe: PE, lock: object) -> Place:
    """Where this PE stands with a lock. Raises DtypeError, SizeMismatch, ..."""
    at, kind = word_at(pe, lock, "lock")
    if kind is not Kind.I64:
        raise DtypeError(f"a lock is one int64, not {lock.dtype}", pe=pe.me)  # type: ignore[attr-defined]
    known = pe.locks.get(at.offset)
    return known if known is not None else pe.locks.setdefault(at.offset, Place(pe.me, at.offset))


def _use(
    lock: object, held: bool, change: Callable[[PE, Place, float], bool], timeout: float | None, call: Call
) -> bool:
    """Has a call change the place of this PE, which holds the lock or not; if it raises, the PE is outside after.

    The lines that end the use call nothing, so no signal handler can run between them; and the way out after an error
    of ours is inside of the first try, since a signal may come there as well.
    """
    pe = current()
    limit = deadline(pe, timeout)  # before anything: who is refused must not stand in the queue
    place = _place(pe, lock)
    try:
        place.claim(pe, call, held)
        try:
            return change(pe, place, limit)
        except ShmemError:
            place.wanted = False
            retreat(pe, place)
            raise
    except BaseException:
        if place.user is call:
            place.wanted = False
            _insist(pe, place)
        raise
    finally:
        if place.user is call:
            place.user = None


def _insist(pe: PE, place: Place) -> None:
    """`retreat`, while a call raises already: what a signal handler raises meanwhile is not told."""
    for _ in range(INSIST):
        with suppress(BaseException):
            retreat(pe, place)
            return


def set_lock(lock: Array, *, timeout: float | None = None) -> None:
    """Acquires a lock; waits in the order in which the PEs came.

    lock: symmetric int64 array of one element, zero at first. On return: this PE holds it, and what its last holder had
    done before `clear_lock` is visible. timeout: seconds, default SHMEMU_TIMEOUT_S. After ShmemTimeout, as after any
    exception, this PE does not wait for the lock any more and is passed over; a next `set_lock` before that gets the
    old place. A lock belongs to a PE, not to a thread. Raises LockError if this PE holds it already or another of its
    threads is waiting for it, NotSymmetric, DtypeError, SizeMismatch, ShmemTimeout naming the queue, PeerDied: who
    died waiting is passed over, a lock whose holder died is lost. OpenSHMEM 1.6, 9.13 (shmem_set_lock).
    """
    _use(lock, False, _take, timeout, [False])


def _take(pe: PE, place: Place, limit: float) -> bool:
    retreat(pe, place)  # what signals in a way out have left
    place.wanted = True
    acquire(pe, place, limit)
    tell(pe, place, True)
    return True


def _try(pe: PE, place: Place, limit: float) -> bool:
    retreat(pe, place)
    place.wanted = True
    attempt(pe, place)
    place.wanted = place.step is Step.HELD
    if place.wanted:
        tell(pe, place, True)
    return place.wanted


def test_lock(lock: Array) -> bool:
    """Acquires a lock if it is free: False = acquired, True = somebody holds it, in C's and shmem4py's sense.

    Never blocks. Raises as `set_lock`. OpenSHMEM 1.6, 9.13 (shmem_test_lock).
    """
    return not _use(lock, False, _try, None, [False])


def _release(pe: PE, place: Place, limit: float) -> bool:
    place.wanted = False
    retreat(pe, place)
    return True


def _clear(lock: Callable[[], object], timeout: float | None) -> None:
    """Releases a lock. What a signal handler raises before that is begun comes after it."""
    call = [False]
    try:
        _use(lock(), True, _release, timeout, call)
    except ShmemError:
        raise
    except BaseException:
        if not call[0]:
            with suppress(ShmemError):
                _use(lock(), True, _release, None, call)
        raise


def clear_lock(lock: Array, *, timeout: float | None = None) -> None:
    """Releases a lock that this PE holds, to the PE that has waited longest.

    On return: everything sent on the default context before is visible (a quiet); the lock is free or the next PE's.
    That holds as well if a signal handler raises meanwhile. timeout: checked, and not needed: nothing is waited for.
    Raises LockError if this PE does not hold it, otherwise as `set_lock`. OpenSHMEM 1.6, 9.13 (shmem_clear_lock).
    """
    _clear(lambda: lock, timeout)


def new_lock() -> Array:
    """A new free lock: a symmetric int64 array of one element. Collective. Raises as `zeros`. shmem4py."""
    return zeros(1, np.int64)


def del_lock(lock: Array) -> None:
    """Frees a lock. Collective. Raises as `free`. shmem4py."""
    free(lock)


class Lock(Local):
    """A lock as an object, with the methods of `threading.Lock`. Made and destroyed collectively. shmem4py.

    `with lock:` acquires and releases it.
    """

    def __init__(self) -> None:
        self._word: Array | None = new_lock()

    def _live(self) -> Array:
        if self._word is None:
            raise LockError("the lock was destroyed", pe=current().me)
        return self._word

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquires the lock and returns True; without `blocking` returns False if somebody holds it.

        timeout: seconds; None and -1 mean SHMEMU_TIMEOUT_S. Past it this raises, where `threading.Lock` returns False.
        Raises as `set_lock`, LockError after `destroy`, ArgumentError for a timeout without `blocking`.
        OpenSHMEM 1.6, 9.13 (shmem_set_lock, shmem_test_lock).
        """
        limit = None if isinstance(timeout, (int, float)) and timeout == -1 else timeout
        if truth(blocking, "blocking", current().me):
            set_lock(self._live(), timeout=limit)
            return True
        if limit is not None:
            raise ArgumentError(f"timeout={timeout!r} of an acquire that does not block", pe=current().me)
        return not test_lock(self._live())

    def release(self) -> None:
        """Releases the lock, as `clear_lock`, and raises as it does. OpenSHMEM 1.6, 9.13 (shmem_clear_lock)."""
        clear_lock(self._live())

    def destroy(self) -> None:
        """Frees the lock. Collective; a second call does nothing."""
        word, self._word = self._word, None
        if word is not None:
            del_lock(word)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _clear(self._live, None)
