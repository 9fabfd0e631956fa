"""The one place that waits: deadlines, the notice after ten seconds, and the death of peers.

A fabric's blocking step returns after at most the time given to it; `until` repeats it to the deadline. The deadline
is the call's own `timeout=`, else `SHMEMU_TIMEOUT_S`. Waits on single words (`wait_until`, `test`) are here, too.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Collection
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from .enums import CMP, comparison
from .errors import ArgumentError, PeerDied, ShmemTimeout, StateError
from .fabric.interface import Status
from .front import fronted
from .records import conditions
from .runtime import PE, current
from .views import scalar_bits, word_at

NOTICE_S = 10.0
FOREVER_S = 1e300  # an integer above this may be too large for a float
HOW = "its process ended without finalize"
SYMBOL = {CMP.EQ: "==", CMP.NE: "!=", CMP.GT: ">", CMP.LE: "<=", CMP.LT: "<", CMP.GE: ">="}


def until(
    pe: PE,
    step: Callable[[float], Status],
    awaited: Callable[[], str],
    seen: Callable[[], object],
    timeout: float | None,
    needs: Collection[int] | None = None,
) -> Status:
    """Repeats a blocking step until it is OK or MISMATCH, and returns that.

    needs: the PEs whose death it can't outlive, None = all. Raises ShmemTimeout past the deadline, PeerDied when a
    death of one of them becomes known that no call reported before, StateError where another thread is in the same
    barrier.
    """
    try:
        return _repeat(pe, step, awaited, seen, deadline(pe, timeout), needs)
    except BaseException:
        pe.fabric.disown()
        raise


def _repeat(
    pe: PE,
    step: Callable[[float], Status],
    awaited: Callable[[], str],
    seen: Callable[[], object],
    limit: float,
    needs: Collection[int] | None,
) -> Status:
    if any(dead not in pe.told_dead for dead in _dead(pe, needs)):  # a C front may have found it
        status = step(0.0)
        if status in (Status.OK, Status.MISMATCH):
            return status
        raise_dead(pe, awaited(), needs)
    start = time.monotonic()
    noticed = False
    while True:
        waited = time.monotonic() - start
        status = step(min(limit, NOTICE_S if not noticed else limit) - waited)
        if status in (Status.OK, Status.MISMATCH):
            return status
        if status is Status.DIED:
            raise_dead(pe, awaited(), needs)
        if status is Status.BUSY:
            raise_busy(pe, awaited())
        waited = time.monotonic() - start
        if waited >= limit:
            raise_timeout(pe, awaited(), _told(pe, seen), waited)
        if waited >= NOTICE_S and not noticed:
            noticed = True
            since = time.strftime("%H:%M:%S", time.localtime(time.time() - waited))
            sys.stderr.write(f"PE {pe.me}: waits since {since} for {awaited()}; it sees {_told(pe, seen)}\n")
            sys.stderr.flush()


def _told(pe: PE, seen: Callable[[], object]) -> object:
    """What a wait sees: looked at by us, not by the program, where accesses are recorded."""
    with (pe.fabric.caps.unrecorded or contextlib.nullcontext)():
        return seen()


def deadline(pe: PE, timeout: float | None) -> float:
    """The seconds that an argument `timeout=` means; raises ArgumentError for what is no number from 0 up."""
    limit = pe.settings.timeout_s if timeout is None else timeout
    if not isinstance(limit, (int, float, np.integer, np.floating)) or not limit >= 0:
        raise ArgumentError(f"timeout={timeout!r}: must be a number of seconds from 0 up", pe=pe.me)
    return math.inf if limit > FOREVER_S else float(limit)


def asked(pe: PE, timeout: float | None) -> float | None:
    """The same, None for none given: the fabric's own limit."""
    return None if timeout is None else deadline(pe, timeout)


def raise_timeout(pe: PE, awaited: str, seen: object, waited_s: float) -> NoReturn:
    """Raises ShmemTimeout."""
    raise ShmemTimeout(
        f"PE {pe.me} waited {waited_s:.1f} s for {awaited}; it saw {seen}",
        awaited=awaited, seen=seen, in_flight=None, waited_s=waited_s, pe=pe.me,
    )  # fmt: skip


def raise_busy(pe: PE, awaited: str) -> NoReturn:
    """Raises StateError: two threads in collective calls of one team."""
    raise StateError(
        f"PE {pe.me} can't wait for {awaited}: another of its threads is in a collective call of the same team; give "
        "each thread a team of its own",
        pe=pe.me,
    )


def _dead(pe: PE, needs: Collection[int] | None) -> list[int]:
    return [dead for dead in pe.fabric.dead(look=False) if needs is None or dead in needs]


def raise_dead(pe: PE, what: str, needs: Collection[int] | None = None) -> NoReturn:
    """Raises PeerDied for a dead PE (of `needs`), first for one that no call has reported yet."""
    dead = _dead(pe, needs)
    lost = next((d for d in dead if d not in pe.told_dead), dead[0])
    pe.told_dead.add(lost)
    raise PeerDied(f"PE {lost} died while PE {pe.me} waited for {what}", lost_pe=lost, how=HOW, pe=pe.me)


def check_reachable(pe: PE, target: int) -> None:
    """Raises PeerDied if the target is known to be dead."""
    if target in pe.fabric.dead(look=False):
        pe.told_dead.add(target)
        raise PeerDied(f"PE {target} is dead; PE {pe.me} can't reach it", lost_pe=target, how=HOW, pe=pe.me)


def wait_word(pe: PE, word: npt.NDArray[np.generic], cmp: object, value: object, timeout: float | None) -> None:
    """Sleeps until an own symmetric word satisfies `word cmp value`."""
    place, kind = word_at(pe, word, "wait")
    how = comparison(cmp)
    bits = scalar_bits(value, word.dtype, pe.me)
    condition = conditions([place.offset], kind, how, [bits])

    def awaited() -> str:
        return f"word {SYMBOL[how]} {value} at heap offset {place.offset:#x} of PE {pe.me} ({word.dtype})"

    until(pe, lambda s: pe.fabric.wait(condition, s)[0], awaited, lambda: word.reshape(-1)[0].item(), timeout)


def spin() -> None:
    """One turn of a program's own polling loop: lets the other PEs and threads run for a moment (50 us). Ours.

    A loop that calls it between two looks (`shmem.test`, a plain load of a view) burns no core. On return: nothing is
    promised.
    """
    current().fabric.spin()


@fronted
def wait_until(ivar: npt.NDArray[np.generic], cmp: object, value: object, *, timeout: float | None = None) -> None:
    """Blocks until the own word satisfies `ivar cmp value`.

    ivar: symmetric array of one 32- or 64-bit integer on this PE. cmp: CMP, or '==' '!=' '>' '<=' '<' '>='.
    On return: what its writer made visible before it wrote the word (fence, quiet, own payload of a signal) can be
    read. Sleeps in the kernel after a short spin. timeout: seconds, default SHMEMU_TIMEOUT_S.
    Raises NotSymmetric, DtypeError, SizeMismatch, ArgumentError (comparison), ShmemTimeout, PeerDied.
    OpenSHMEM 1.6, 9.11 (shmem_wait_until).
    """
    wait_word(current(), ivar, cmp, value, timeout)


@fronted
def test(ivar: npt.NDArray[np.generic], cmp: object, value: object) -> bool:
    """Whether the own word satisfies `ivar cmp value` now; when True it acquires as `wait_until` does.

    ivar: symmetric array of one 32- or 64-bit integer on this PE. Never blocks.
    Raises NotSymmetric, DtypeError, SizeMismatch, ArgumentError (comparison). OpenSHMEM 1.6, 9.11 (shmem_test).
    """
    pe = current()
    place, kind = word_at(pe, ivar, "test")
    bits = scalar_bits(value, ivar.dtype, pe.me)
    return pe.fabric.wait(conditions([place.offset], kind, comparison(cmp), [bits]), 0.0)[0] is Status.OK
