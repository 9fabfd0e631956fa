"""Nonblocking fetching atomics: the old value is in `fetch` after a quiet (OpenSHMEM 1.6, 9.7).

`fetch` is an array of one element of the word's dtype, private or symmetric, and must live until the quiet. What is
said of the blocking forms (`amo.py`) about words, values and errors holds here as well.
"""

from __future__ import annotations

from .amo import named, prepare
from .enums import AMO
from .errors import DtypeError
from .front import fronted
from .records import NBI, Amo
from .rma import one_element
from .views import Array, address_of, check_target


def fetch_later(
    op: Amo, fetch: object, target: object, pe: object, ctx: object, value: object = 1, cond: object = 0
) -> None:
    """Submits an AMO record whose result goes to `fetch`."""
    here, q, one, dtype = prepare(op, target, pe, ctx, value, cond)
    result = check_target(one_element(fetch, "fetch", here.me), "fetch", here.me)
    if result.dtype != dtype:
        raise DtypeError(f"fetch has dtype {result.dtype}, the word {dtype}", pe=here.me)
    one["src"] = address_of(result)
    one["flags"] |= NBI
    here.fabric.hold(q, result)
    here.fabric.submit(q, one)


@fronted
def atomic_fetch_nbi(fetch: Array, source: Array, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch`, nonblocking: the value is in `fetch` (one element, same dtype) after `quiet`.

    Raises as `atomic_fetch`, and for `fetch` DtypeError, SizeMismatch, ArgumentError (read-only).
    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_nbi).
    """
    fetch_later(Amo.FETCH, fetch, source, pe, ctx)


@fronted
def atomic_swap_nbi(fetch: Array, target: Array, value: object, pe: int, ctx: object = None) -> None:
    """As `atomic_swap`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_swap_nbi).
    """
    fetch_later(Amo.SWAP, fetch, target, pe, ctx, value)


@fronted
def atomic_compare_swap_nbi(
    fetch: Array, target: Array, cond: object, value: object, pe: int, ctx: object = None
) -> None:
    """As `atomic_compare_swap`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_compare_swap_nbi).
    """
    fetch_later(Amo.COMPARE_SWAP, fetch, target, pe, ctx, value, cond)


@fronted
def atomic_fetch_inc_nbi(fetch: Array, target: Array, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch_inc`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_inc_nbi).
    """
    fetch_later(Amo.ADD, fetch, target, pe, ctx)


@fronted
def atomic_fetch_add_nbi(fetch: Array, target: Array, value: object, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch_add`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_add_nbi).
    """
    fetch_later(Amo.ADD, fetch, target, pe, ctx, value)


@fronted
def atomic_fetch_and_nbi(fetch: Array, target: Array, value: object, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch_and`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_and_nbi).
    """
    fetch_later(Amo.AND, fetch, target, pe, ctx, value)


@fronted
def atomic_fetch_or_nbi(fetch: Array, target: Array, value: object, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch_or`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_or_nbi).
    """
    fetch_later(Amo.OR, fetch, target, pe, ctx, value)


@fronted
def atomic_fetch_xor_nbi(fetch: Array, target: Array, value: object, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch_xor`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`.

    OpenSHMEM 1.6, 9.7 (shmem_atomic_fetch_xor_nbi).
    """
    fetch_later(Amo.XOR, fetch, target, pe, ctx, value)


def atomic_fetch_op_nbi(fetch: Array, target: Array, value: object, op: AMO | str, pe: int, ctx: object = None) -> None:
    """As `atomic_fetch_op`, nonblocking: the old value is in `fetch` after `quiet`. Raises as `atomic_fetch_nbi`,
    ArgumentError for an unknown op. shmem4py."""
    chosen, operand = named(op, value, True)
    fetch_later(chosen, fetch, target, pe, ctx, operand)
