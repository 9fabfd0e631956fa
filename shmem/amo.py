"""Atomic memory operations on one 32- or 64-bit word of a PE (OpenSHMEM 1.6, 9.7).

All take the word as a symmetric array of one element (`x[3:4]`), act on it in one step against all other atomics and
signal operations on it, and wake its waiters. Values and results are Python numbers. Integers know all
operations,
floats fetch, set and swap. Integers wrap. A fetching one is complete on return; the others complete with `quiet`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .enums import AMO, amo_op
from .errors import ArgumentError, DtypeError
from .front import fronted
from .ordering import check_context
from .records import Amo, Kind, Op, Records, record
from .rma import reach
from .runtime import PE, current
from .views import Array, address_of, check_array, check_target, scalar_bits, word_at

_FLOATS = (Amo.FETCH, Amo.SET, Amo.SWAP)


def prepare(
    op: Amo, target: object, pe: object, ctx: object, value: object, cond: object
) -> tuple[PE, int, Records, np.dtype[Any]]:
    """Checks an atomic: this PE, the queue, the record (which fetches nothing yet) and the dtype of the word."""
    here = current()
    q, there = check_context(ctx), reach(here, pe, ctx)
    place, kind = word_at(here, target, f"atomic {op.name.lower()}")
    word = check_array(target, "the word", here.me)
    if op is not Amo.FETCH:
        check_target(word, "the word", here.me)
    dtype = word.dtype
    if kind >= Kind.F32 and op not in _FLOATS:
        raise DtypeError(f"atomic {op.name.lower()} has no meaning for {dtype}", pe=here.me)
    fields = {
        "value": 0 if op is Amo.FETCH else scalar_bits(value, dtype, here.me),
        "cond": scalar_bits(cond, dtype, here.me) if op is Amo.COMPARE_SWAP else 0,
    }
    fields["aux"] = kind + 1
    return here, q, record(Op.AMO, pe=there, dst=place.offset, width=dtype.itemsize, flags=op, **fields), dtype


def _update(op: Amo, target: object, pe: object, ctx: object, value: object = 1) -> None:
    here, q, one, _ = prepare(op, target, pe, ctx, value, 0)
    here.fabric.submit(q, one)


def _fetch(op: Amo, target: object, pe: object, ctx: object, value: object = 1, cond: object = 0) -> Any:
    """The old value, as a Python number."""
    here, q, one, dtype = prepare(op, target, pe, ctx, value, cond)
    old = np.zeros(1, dtype)
    one["src"] = address_of(old)
    here.fabric.submit(q, one)
    return old[0].item()


@fronted
def atomic_fetch(source: Array, pe: int, ctx: object = None) -> Any:
    """The value of the word on PE `pe`. Raises InvalidPE, NotSymmetric, FreedBlock, DtypeError, SizeMismatch, PeerDied.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch).
    """
    return _fetch(Amo.FETCH, source, pe, ctx)


@fronted
def atomic_set(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Stores value into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_fetch`, OverflowError for a value out of range. OpenSHMEM 1.6, 9.7 (shmem_atomic_set).
    """
    _update(Amo.SET, target, pe, ctx, value)


@fronted
def atomic_add(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Adds value to the word on PE `pe`, wrapping. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_add).
    """
    _update(Amo.ADD, target, pe, ctx, value)


@fronted
def atomic_inc(target: Array, pe: int, ctx: object = None) -> None:
    """Adds 1 to the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_fetch`. OpenSHMEM 1.6, 9.7 (shmem_atomic_inc).
    """
    _update(Amo.ADD, target, pe, ctx)


@fronted
def atomic_and(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Bitwise and into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_and).
    """
    _update(Amo.AND, target, pe, ctx, value)


@fronted
def atomic_or(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Bitwise or into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_or).
    """
    _update(Amo.OR, target, pe, ctx, value)


@fronted
def atomic_xor(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Bitwise xor into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_xor).
    """
    _update(Amo.XOR, target, pe, ctx, value)


@fronted
def atomic_swap(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """Stores value into the word on PE `pe` and returns the old one. Raises as `atomic_set`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_swap).
    """
    return _fetch(Amo.SWAP, target, pe, ctx, value)


@fronted
def atomic_compare_swap(target: Array, cond: object, value: object, pe: int, ctx: object = None) -> Any:
    """Stores value into the word on PE `pe` if it equals cond; returns the old value either way.

    Integers only. Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_compare_swap).
    """
    return _fetch(Amo.COMPARE_SWAP, target, pe, ctx, value, cond)


@fronted
def atomic_fetch_add(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_add`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_add)."""
    return _fetch(Amo.ADD, target, pe, ctx, value)


@fronted
def atomic_fetch_inc(target: Array, pe: int, ctx: object = None) -> Any:
    """As `atomic_inc`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_inc)."""
    return _fetch(Amo.ADD, target, pe, ctx)


@fronted
def atomic_fetch_and(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_and`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_and)."""
    return _fetch(Amo.AND, target, pe, ctx, value)


@fronted
def atomic_fetch_or(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_or`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_or)."""
    return _fetch(Amo.OR, target, pe, ctx, value)


@fronted
def atomic_fetch_xor(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_xor`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_xor)."""
    return _fetch(Amo.XOR, target, pe, ctx, value)


_NAMED = {
    AMO.SET: Amo.SET, AMO.INC: Amo.ADD, AMO.ADD: Amo.ADD, AMO.AND: Amo.AND, AMO.OR: Amo.OR, AMO.XOR: Amo.XOR,
}  # fmt: skip


def named(op: object, value: object, fetches: bool) -> tuple[Amo, object]:
    """The AMO that `op` names, and its operand. A fetching `set` is a swap; `inc` adds 1."""
    name = amo_op(op)
    if name is AMO.INC:
        if value not in (None, 1):
            raise ArgumentError(f"inc adds 1, not {value!r}: give 1 or None, or use add", pe=current().me)
        return Amo.ADD, 1
    return Amo.SWAP if fetches and name is AMO.SET else _NAMED[name], value


def atomic_op(target: Array, value: object, op: AMO | str, pe: int, ctx: object = None) -> None:
    """The atomic that `op` names (AMO_SET, _INC, _ADD, _AND, _OR, _XOR, or 'set', ...) on the word on PE `pe`.

    value: the operand; of inc 1 or None. Raises as `atomic_set`, ArgumentError for an unknown op. shmem4py.
    """
    chosen, operand = named(op, value, False)
    _update(chosen, target, pe, ctx, operand)


def atomic_fetch_op(target: Array, value: object, op: AMO | str, pe: int, ctx: object = None) -> Any:
    """As `atomic_op`, and returns the old value; set is a swap. shmem4py."""
    chosen, operand = named(op, value, True)
    return _fetch(chosen, target, pe, ctx, operand)
