"""Distributed locks: fair queues of PEs that wait on their own words (OpenSHMEM 1.6, 9.13).

A lock is a symmetric int64 array of one element, zero when free. It is an MCS queue (Mellor-Crummey and Scott, 1991):
the upper half of PE 0's word is the tail of the queue, the lower half of each PE's own word is its node: the number of
the PE behind it, and whether its turn has come (zero outside the queue). Who wants the lock swaps itself into the tail,
tells its predecessor, and sleeps on its own word; so the order of acquisition is the order of the swaps, and nobody
polls another's memory.
"""

from __future__ import annotations

import threading
from types import TracebackType

import numpy as np

from .arrays import zeros
from .enums import CMP
from .errors import DtypeError, LockError
from .fabric.interface import Level
from .memory import free
from .records import Amo, Kind, Op, conditions, record
from .runtime import PE, current
from .views import Array, address_of, word_at
from .waiting import check_reachable, deadline, until

HOME = 0  # the PE with the tail
TURN = 1 << 30  # in a node: the lock is this PE's now; below it the number of the next PE, plus 1


def _node(pe: PE, lock: object) -> int:
    """The heap offset of the node of a lock; its tail is 4 bytes behind. Raises DtypeError, SizeMismatch, ..."""
    place, kind = word_at(pe, lock, "lock")
    if kind is not Kind.I64:
        raise DtypeError(f"a lock is one int64, not {lock.dtype}", pe=pe.me)  # type: ignore[attr-defined]
    return place.offset


def _amo(pe: PE, there: int, half: int, op: Amo, value: int = 0, cond: int = 0) -> int:
    """An atomic on the 32-bit half word at a heap offset of PE `there`; returns the old value."""
    old = np.zeros(1, np.uint32)
    one = record(Op.AMO, pe=there, dst=half, src=address_of(old), width=4, flags=op, value=value, cond=cond)
    pe.fabric.submit(0, one)
    return int(old[0])


def _enter(pe: PE, node: int) -> int:
    """Joins the queue; returns the number of the PE in front plus 1, 0 if the lock was free."""
    ahead = _amo(pe, HOME, node + 4, Amo.SWAP, pe.me + 1)
    if ahead:
        _amo(pe, ahead - 1, node, Amo.OR, pe.me + 1)
    return ahead


def _leave(pe: PE, node: int, timeout: float | None) -> None:
    """Empties the queue, or hands the lock to the next PE in it; raises PeerDied if that one is dead."""
    if _amo(pe, HOME, node + 4, Amo.COMPARE_SWAP, 0, pe.me + 1) == pe.me + 1:
        _amo(pe, pe.me, node, Amo.SET)
        return
    _amo(pe, pe.me, node, Amo.AND, TURN - 1)
    behind = _await_node(pe, node, CMP.NE, 0, "the next PE in the queue of the lock", timeout)
    _check_alive(pe, behind - 1)
    _amo(pe, pe.me, node, Amo.SET)
    _amo(pe, behind - 1, node, Amo.OR, TURN)


def _check_alive(pe: PE, other: int) -> None:
    """Raises PeerDied for a dead neighbour in the queue, which ends the use of the lock."""
    if pe.settings.on_death == "survive":
        pe.fabric.dead(look=True)
        check_reachable(pe, other)


_states = threading.Lock()  # threads of a PE share its place in a queue: one at a time changes it


def _claim(pe: PE, node: int, wanted: tuple[str | None, ...]) -> str | None:
    """Takes the state of a lock if it is one of `wanted` (None: no state), until `_settle`; raises LockError."""
    with _states:
        state = pe.locks.get(node)
        if state in wanted:
            pe.locks[node] = "being changed"
            return state
    what = {None: "does not hold", "held": "holds", "queued": "waits for"}.get(state, "uses, in another thread,")
    raise LockError(f"PE {pe.me} {what} the lock at heap offset {node:#x}{' already' if state else ''}", pe=pe.me)


def _settle(pe: PE, node: int, state: str | None) -> None:
    with _states:
        pe.locks.pop(node, None)
        if state is not None:
            pe.locks[node] = state


def _await_node(pe: PE, node: int, cmp: CMP, value: int, what: str, timeout: float | None) -> int:
    """Sleeps until the own node satisfies a comparison; returns it."""
    condition = conditions([node], Kind.U32, cmp, [value])

    def holder() -> str:
        return f"the tail of its queue at PE {_amo(pe, HOME, node + 4, Amo.FETCH) - 1}"

    until(pe, lambda s: pe.fabric.wait(condition, s)[0], lambda: f"{what} at heap offset {node:#x}", holder, timeout)
    return _amo(pe, pe.me, node, Amo.FETCH)


def set_lock(lock: Array, *, timeout: float | None = None) -> None:
    """Acquires a lock; waits in the order in which the PEs came.

    lock: symmetric int64 array of one element, zero at first. On return: this PE holds it, and what its last holder had
    done before `clear_lock` is visible. timeout: seconds, default SHMEMU_TIMEOUT_S; after ShmemTimeout this PE still
    stands in the queue, and its next `set_lock` goes on with that. A lock belongs to a PE, not to a thread. Raises
    LockError if this PE holds it already or another of its threads is waiting for it, NotSymmetric, DtypeError,
    SizeMismatch, ShmemTimeout, PeerDied. OpenSHMEM 1.6, 9.13 (shmem_set_lock).
    """
    pe = current()
    deadline(pe, timeout)  # before anything: who is refused must not stand in the queue
    node = _node(pe, lock)
    queued = _claim(pe, node, (None, "queued")) == "queued"
    try:
        ahead = 0 if queued else _enter(pe, node)
        queued = queued or ahead > 0
        if queued:
            if ahead:
                _check_alive(pe, ahead - 1)
            _await_node(pe, node, CMP.GE, TURN, "the lock", timeout)
    except BaseException:
        _settle(pe, node, "queued" if queued else None)
        raise
    _settle(pe, node, "held")


def test_lock(lock: Array) -> bool:
    """Acquires a lock if it is free: False = acquired, True = somebody holds it, in C's and shmem4py's sense.

    Never blocks. Raises as `set_lock`. OpenSHMEM 1.6, 9.13 (shmem_test_lock).
    """
    pe = current()
    node = _node(pe, lock)
    _claim(pe, node, (None,))
    taken = 1
    try:
        taken = _amo(pe, HOME, node + 4, Amo.FETCH) or _amo(pe, HOME, node + 4, Amo.COMPARE_SWAP, pe.me + 1)
    finally:
        _settle(pe, node, None if taken else "held")
    return bool(taken)


def clear_lock(lock: Array, *, timeout: float | None = None) -> None:
    """Releases a lock that this PE holds, to the PE that has waited longest.

    On return: everything sent on the default context before is visible (a quiet); the lock is free or the next PE's.
    timeout: seconds that the next PE may take between joining the queue and saying so. Raises LockError if this PE
    does not hold it, otherwise as `set_lock`. OpenSHMEM 1.6, 9.13 (shmem_clear_lock).
    """
    pe = current()
    deadline(pe, timeout)
    node = _node(pe, lock)
    _claim(pe, node, ("held",))
    try:
        pe.fabric.complete(0, Level.VISIBLE)
        _leave(pe, node, timeout)
    except BaseException:
        _settle(pe, node, "held")
        raise
    _settle(pe, node, None)


def new_lock() -> Array:
    """A new free lock: a symmetric int64 array of one element. Collective. Raises as `zeros`. shmem4py."""
    return zeros(1, np.int64)


def del_lock(lock: Array) -> None:
    """Frees a lock. Collective. Raises as `free`. shmem4py."""
    free(lock)


class Lock:
    """A lock as an object, with the methods of `threading.Lock`. Made and destroyed collectively. shmem4py.

    `with lock:` acquires and releases it.
    """

    def __init__(self) -> None:
        self._word: Array | None = new_lock()

    def _live(self) -> Array:
        if self._word is None:
            raise LockError("the lock was destroyed", pe=current().me)
        return self._word

    def acquire(self, blocking: bool = True, *, timeout: float | None = None) -> bool:
        """Acquires the lock and returns True; without `blocking` returns False if somebody holds it.

        Raises as `set_lock`, LockError after `destroy`. OpenSHMEM 1.6, 9.13 (shmem_set_lock, shmem_test_lock).
        """
        if not blocking:
            return not test_lock(self._live())
        set_lock(self._live(), timeout=timeout)
        return True

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
        self.release()
