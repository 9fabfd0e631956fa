"""Atomic memory operations on one 32- or 64-bit word of a PE (OpenSHMEM 1.6, 9.7).

All take the word as a symmetric array of one element (`x[3:4]`), act on it in one step against all other atomics and
signal operations on it, and wake its waiters. Values and results are Python numbers. Integers know all
operations, floats
fetch, set and swap. Integers wrap. A fetching one is complete on return; the others complete with `quiet`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DtypeError
from .front import fronted
from .ordering import check_context
from .records import Amo, Kind, Op, record
from .rma import reach
from .runtime import current
from .views import Array, address_of, check_target, scalar_bits, word_at

_FLOATS = (Amo.FETCH, Amo.SET, Amo.SWAP)


def _atomic(
    op: Amo, target: Array, pe: int, ctx: object, value: object = 1, cond: object = 0, *, fetch: bool = True
) -> Any:
    """One AMO record; returns the old value as a Python number, if it is to `fetch` that: else it is not complete."""
    here = current()
    q, there = check_context(ctx), reach(here, pe, ctx)
    place, kind = word_at(here, target, f"atomic {op.name.lower()}")
    if op is not Amo.FETCH:
        check_target(target, "the word", here.me)
    if kind >= Kind.F32 and op not in _FLOATS:
        raise DtypeError(f"atomic {op.name.lower()} has no meaning for {target.dtype}", pe=here.me)
    dtype = target.dtype
    old = np.zeros(1, dtype)
    fields = {
        "value": 0 if op is Amo.FETCH else scalar_bits(value, dtype, here.me),
        "cond": scalar_bits(cond, dtype, here.me) if op is Amo.COMPARE_SWAP else 0,
    }
    result = address_of(old) if fetch else 0
    one = record(Op.AMO, pe=there, dst=place.offset, src=result, width=dtype.itemsize, flags=op, **fields)
    here.fabric.submit(q, one)
    return old[0].item()


@fronted
def atomic_fetch(source: Array, pe: int, ctx: object = None) -> Any:
    """The value of the word on PE `pe`. Raises InvalidPE, NotSymmetric, FreedBlock, DtypeError, SizeMismatch, PeerDied.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch).
    """
    return _atomic(Amo.FETCH, source, pe, ctx)


@fronted
def atomic_set(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Stores value into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_fetch`, OverflowError for a value out of range. OpenSHMEM 1.6, 9.7 (shmem_atomic_set).
    """
    _atomic(Amo.SET, target, pe, ctx, value, fetch=False)


@fronted
def atomic_add(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Adds value to the word on PE `pe`, wrapping. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_add).
    """
    _atomic(Amo.ADD, target, pe, ctx, value, fetch=False)


@fronted
def atomic_inc(target: Array, pe: int, ctx: object = None) -> None:
    """Adds 1 to the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_fetch`. OpenSHMEM 1.6, 9.7 (shmem_atomic_inc).
    """
    _atomic(Amo.ADD, target, pe, ctx, fetch=False)


@fronted
def atomic_and(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Bitwise and into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_and).
    """
    _atomic(Amo.AND, target, pe, ctx, value, fetch=False)


@fronted
def atomic_or(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Bitwise or into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_or).
    """
    _atomic(Amo.OR, target, pe, ctx, value, fetch=False)


@fronted
def atomic_xor(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Bitwise xor into the word on PE `pe`. Completes with `quiet`.

    Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_xor).
    """
    _atomic(Amo.XOR, target, pe, ctx, value, fetch=False)


@fronted
def atomic_swap(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """Stores value into the word on PE `pe` and returns the old one. Raises as `atomic_set`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_swap).
    """
    return _atomic(Amo.SWAP, target, pe, ctx, value)


@fronted
def atomic_compare_swap(target: Array, cond: object, value: object, pe: int, ctx: object = None) -> Any:
    """Stores value into the word on PE `pe` if it equals cond; returns the old value either way.

    Integers only. Raises as `atomic_set`. OpenSHMEM 1.6, 9.7 (shmem_atomic_compare_swap).
    """
    return _atomic(Amo.COMPARE_SWAP, target, pe, ctx, value, cond)


@fronted
def atomic_fetch_add(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_add`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_add)."""
    return _atomic(Amo.ADD, target, pe, ctx, value)


@fronted
def atomic_fetch_inc(target: Array, pe: int, ctx: object = None) -> Any:
    """As `atomic_inc`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_inc)."""
    return _atomic(Amo.ADD, target, pe, ctx)


@fronted
def atomic_fetch_and(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_and`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_and)."""
    return _atomic(Amo.AND, target, pe, ctx, value)


@fronted
def atomic_fetch_or(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_or`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_or)."""
    return _atomic(Amo.OR, target, pe, ctx, value)


@fronted
def atomic_fetch_xor(target: Array, value: object, pe: int, ctx: object = None) -> Any:
    """As `atomic_xor`, and returns the old value. OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_xor)."""
    return _atomic(Amo.XOR, target, pe, ctx, value)
