"""Signals: 64-bit words that tell a PE something has arrived (OpenSHMEM 1.6, 9.8).

A signal is a symmetric uint64 array of one element. A put-signal covers its own payload: who sees the signal may
read the payload. It covers earlier puts only with a fence before it.
"""

from __future__ import annotations

import numpy as np

from .arrays import make
from .enums import MALLOC, SIGNAL, signal_op
from .errors import ArgumentError, DtypeError
from .front import fronted
from .memory import free
from .ordering import check_context
from .records import NBI, Amo, Kind, Op, record
from .rma import gathered, reach, submit_put
from .runtime import PE, current
from .views import Array, Place, address_of, blocks, check_array, check_target, count, scalar_bits, symmetric, word_at
from .waiting import wait_word


def new_signal() -> Array:
    """A new signal word, zero: a symmetric uint64 array of one element. Collective; errors as `zeros`. shmem4py."""
    return make("new_signal", 1, np.uint64, "C", None, MALLOC.SIGNAL_REMOTE, zero=True)


def del_signal(signal: Array) -> None:
    """Frees a signal word. Collective; errors as `free`, DtypeError for what is no signal. shmem4py."""
    pe = current()
    if check_array(signal, "signal", pe.me).dtype != np.uint64 or signal.size != 1:
        raise DtypeError(f"a signal is one uint64, not {signal.size} of {signal.dtype}", pe=pe.me)
    free(signal)


def _signal_offset(pe: PE, signal: Array) -> int:
    place, _ = word_at(pe, signal, "signal")
    if signal.dtype != np.uint64:
        raise DtypeError(f"a signal is one uint64, not {signal.dtype}", pe=pe.me)
    return place.offset


def _put_signal(
    target: Array, source: Array, pe: int, signal: Array, value: object, sigop: object, size: object, ctx: object,
    flags: int = 0,
) -> None:  # fmt: skip
    here = current()
    q, there, how = check_context(ctx), reach(here, pe, ctx), signal_op(sigop)
    to, what = check_array(target, "target", here.me), check_array(source, "source", here.me)
    n = count(size, what, to, here.me)
    at = symmetric(here, to, n, "target")
    check_target(to, "target", here.me)
    blocks(what, n, "source", here.me)
    word = _signal_offset(here, signal)
    bits = scalar_bits(value, signal.dtype, here.me)
    if n and _meets(at, word):
        raise ArgumentError("the signal word lies inside the target", pe=here.me)
    if at.count == 1:
        packed = gathered(what, n)
        if flags and packed is what:
            here.fabric.hold(q, what)
        op = record(
            Op.PUT_SIGNAL, pe=there, dst=at.offset, src=address_of(packed), n=at.block, aux=word, value=bits,
            flags=how | (flags if packed is what else 0),
        )  # fmt: skip
        here.fabric.submit(q, op)
        return
    packed = gathered(what, n)
    if there == here.me and np.may_share_memory(packed, to):
        packed = packed.copy()
    joined = here.fabric.caps.joined or _nobody
    joined(True)
    try:
        submit_put(here, q, at, packed, there)
        here.fabric.fence(q)
        _update(here, q, word, bits, there, how)
    finally:
        joined(False)


def _meets(at: Place, word: int) -> bool:
    """Whether a signal word shares bytes with the blocks of a place."""
    low, step = min(at.offset, at.offset + (at.count - 1) * at.stride), abs(at.stride) or 1
    last = min((word + 7 - low) // step, at.count - 1)  # the last block that begins before the end of the word
    return last >= 0 and low + last * step + at.block > word


def _nobody(begins: bool) -> None:
    """Nobody asks which records are one put with signal."""


def _update(here: PE, q: int, word: int, bits: int, there: int, how: SIGNAL) -> None:
    op = Amo.ADD if how is SIGNAL.ADD else Amo.SET
    here.fabric.submit(q, record(Op.AMO, pe=there, dst=word, width=8, flags=op, value=bits, aux=Kind.U64 + 1))


@fronted
def put_signal(
    target: Array, source: Array, pe: int, signal: Array, value: object, sigop: object, size: int | None = None,
    ctx: object = None,
) -> None:  # fmt: skip
    """Puts source into target on PE `pe`, then updates its signal word.

    target, source, size: as `put`. signal: symmetric uint64 array of one element, outside target. sigop:
    SIGNAL_SET stores
    value, SIGNAL_ADD adds it. On return: source may be reused. At the target: who sees the signal may read
    this payload;
    earlier puts need a fence before. Raises as `put`, ArgumentError (sigop, overlap). OpenSHMEM 1.6, 9.8
    (shmem_put_signal).
    """
    _put_signal(target, source, pe, signal, value, sigop, size, ctx)


@fronted
def put_signal_nbi(
    target: Array, source: Array, pe: int, signal: Array, value: object, sigop: object, size: int | None = None,
    ctx: object = None,
) -> None:  # fmt: skip
    """As `put_signal`, nonblocking: source may be reused only after `quiet`. OpenSHMEM 1.6, 9.8
    (shmem_put_signal_nbi)."""
    _put_signal(target, source, pe, signal, value, sigop, size, ctx, NBI)


def _signal(signal: Array, value: object, pe: int, ctx: object, how: SIGNAL) -> None:
    here = current()
    q, there = check_context(ctx), reach(here, pe, ctx)
    word = _signal_offset(here, signal)
    _update(here, q, word, scalar_bits(value, signal.dtype, here.me), there, how)


@fronted
def signal_set(signal: Array, value: object, pe: int, ctx: object = None) -> None:
    """Stores value into the signal word on PE `pe`; covers no put without a fence. Completes with `quiet`.

    Raises as `atomic_set`. signal: symmetric uint64 array of one element. OpenSHMEM 1.6, 9.8 (shmem_signal_set).
    """
    _signal(signal, value, pe, ctx, SIGNAL.SET)


@fronted
def signal_add(signal: Array, value: object, pe: int, ctx: object = None) -> None:
    """Adds value to the signal word on PE `pe`. Otherwise as `signal_set`. OpenSHMEM 1.6, 9.8 (shmem_signal_add)."""
    _signal(signal, value, pe, ctx, SIGNAL.ADD)


@fronted
def signal_fetch(signal: Array) -> int:
    """The own signal word, read atomically; acquires what the signal covers. Raises as `signal_set`.

    OpenSHMEM 1.6, 9.8 (shmem_signal_fetch).
    """
    here = current()
    word = _signal_offset(here, signal)
    old = np.zeros(1, np.uint64)
    fields = {"dst": word, "src": address_of(old), "width": 8, "aux": Kind.U64 + 1}
    here.fabric.submit(0, record(Op.AMO, pe=here.me, flags=Amo.FETCH, **fields))
    return int(old[0])


@fronted
def signal_wait_until(signal: Array, cmp: object, value: object, *, timeout: float | None = None) -> int:
    """Blocks until the own signal word satisfies `signal cmp value`; returns the value seen.

    signal: symmetric uint64 array of one element on this PE. cmp: CMP, or '==' '!=' '>' '<=' '<' '>='. On
    return: the payload
    of the put-signal that wrote it may be read. timeout: seconds, default SHMEMU_TIMEOUT_S. Raises as `wait_until`.
    OpenSHMEM 1.6, 9.11 (shmem_signal_wait_until).
    """
    here = current()
    _signal_offset(here, signal)
    wait_word(here, signal, cmp, value, timeout)
    return signal_fetch(signal)
