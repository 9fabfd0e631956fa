"""Remote memory access: put, get and their nonblocking and scalar forms (OpenSHMEM 1.6, 9.6).

The functions here are the specification and serve every case; the common one is done by the C fronts of the same
names (`front.py`). A call becomes one operation record, strided if the symmetric side is; a strided private
side is staged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .contexts import context_of, number_of
from .errors import DtypeError, SizeMismatch
from .front import fronted
from .ordering import check_context
from .records import NBI, Op, record, strides
from .runtime import PE, current
from .views import Array, Place, address_of, blocks, check_array, check_target, count, symmetric
from .waiting import check_reachable


def reach(pe: PE, target: object, ctx: object = None) -> int:
    """The living PE of the job that number `target` means on a context; raises InvalidPE, PeerDied, ContextError."""
    number = number_of(pe, target, ctx)
    if pe.fabric.dead(look=False):
        check_reachable(pe, number)
    return number


def reach_all(pe: PE, targets: npt.NDArray[np.int64], ctx: object = None) -> npt.NDArray[np.int64]:
    """As `reach`, for many PEs at once."""
    if not len(targets):
        return targets
    for end in (targets.min(), targets.max()):
        number_of(pe, int(end), ctx)
    members = None if ctx is None else context_of(ctx).pes
    there = targets if members is None else np.asarray(members, np.int64)[targets]
    for dead in pe.fabric.dead(look=False):
        if dead in there:
            check_reachable(pe, dead)
    return there


def gathered(array: Array, size: int) -> Array:
    """The first `size` elements as a contiguous array: the array itself where it is one."""
    if array.flags.c_contiguous:
        return array
    packed: Array = (array[:size] if array.ndim == 1 else array[: size // array.shape[1]]).copy()
    return packed


def scatter(array: Array, size: int, packed: Array) -> None:
    if array.flags.c_contiguous:
        array.reshape(-1)[:size] = packed
        return
    part = array[:size] if array.ndim == 1 else array[: size // array.shape[1]]
    part[...] = packed.reshape(part.shape)


def submit_put(pe: PE, q: int, at: Place, source: Array, target_pe: int, flags: int = 0) -> None:
    here = address_of(source)
    if at.count == 1:
        op = record(Op.PUT, pe=target_pe, dst=at.offset, src=here, n=at.block, flags=flags)
    else:
        op = record(
            Op.PUT_STRIDED, pe=target_pe, dst=at.offset, src=here, n=at.count, value=at.block,
            aux=strides(at.stride, at.block), flags=flags,
        )  # fmt: skip
    pe.fabric.submit(q, op)


def _submit_get(pe: PE, q: int, target: Array, at: Place, source_pe: int, flags: int = 0) -> None:
    here = address_of(target)
    if at.count == 1:
        op = record(Op.GET, pe=source_pe, dst=here, src=at.offset, n=at.block, flags=flags)
    else:
        op = record(
            Op.GET_STRIDED, pe=source_pe, dst=here, src=at.offset, n=at.count, value=at.block,
            aux=strides(at.stride, at.block), flags=flags,
        )  # fmt: skip
    pe.fabric.submit(q, op)


def put_checked(target: object, source: object, pe: object, size: object, ctx: object, flags: int = 0) -> None:
    here = current()
    q = check_context(ctx)
    to, there = check_array(target, "target", here.me), reach(here, pe, ctx)
    what = check_array(source, "source", here.me)
    n = count(size, what, to, here.me)
    at = symmetric(here, to, n, "target")
    check_target(to, "target", here.me)
    blocks(what, n, "source", here.me)  # refuses the layouts that are not promised
    if n:
        packed = gathered(what, n)
        if at.count > 1 and there == here.me and np.may_share_memory(packed, to):
            packed = packed.copy()  # block by block, a put would read what it has written
        late = flags if packed is what else 0
        if late:
            here.fabric.hold(q, what)
        submit_put(here, q, at, packed, there, late)


def get_checked(target: object, source: object, pe: object, size: object, ctx: object, flags: int = 0) -> None:
    here = current()
    q = check_context(ctx)
    what, there = check_array(source, "source", here.me), reach(here, pe, ctx)
    to = check_array(target, "target", here.me)
    n = count(size, what, to, here.me)
    at = symmetric(here, what, n, "source")
    blocks(to, n, "target", here.me)
    check_target(to, "target", here.me)
    if not n:
        return
    overlaps = at.count > 1 and there == here.me and np.may_share_memory(to, what)
    if to.flags.c_contiguous and not overlaps:
        if flags:
            here.fabric.hold(q, to)
        _submit_get(here, q, to, at, there, flags)
    else:
        packed = np.empty(n, to.dtype)  # scattered at once: there must be something in it
        _submit_get(here, q, packed, at, there)
        scatter(to, n, packed)


@fronted
def put(target: Array, source: Array, pe: int, size: int | None = None, ctx: object = None) -> None:
    """Copies elements of `source` (private or symmetric) into `target` on PE `pe`.

    target: symmetric array or view of one, same dtype. size: elements, default all of source; a larger target is fine.
    On return: source may be reused; visible at the target after fence and flag, quiet or a barrier.
    Raises InvalidPE, NotSymmetric, FreedBlock, DtypeError, SizeMismatch, LayoutError, PeerDied; then nothing was moved.
    OpenSHMEM 1.6, 9.6 (shmem_put).
    """
    put_checked(target, source, pe, size, ctx)


@fronted
def put_nbi(target: Array, source: Array, pe: int, size: int | None = None, ctx: object = None) -> None:
    """As `put`, nonblocking: source may be reused only after `quiet`.

    A strided source is copied at once. OpenSHMEM 1.6, 9.6 (shmem_put_nbi).
    """
    put_checked(target, source, pe, size, ctx, NBI)


@fronted
def get(target: Array, source: Array, pe: int, size: int | None = None, ctx: object = None) -> None:
    """Copies elements of `source` on PE `pe` into `target` (private or symmetric) here.

    source: symmetric array or view of one, same dtype. size: elements, default all of source.
    On return: the data are in target. Raises as `put`, and ArgumentError for a read-only target.
    OpenSHMEM 1.6, 9.6 (shmem_get).
    """
    get_checked(target, source, pe, size, ctx)


@fronted
def get_nbi(target: Array, source: Array, pe: int, size: int | None = None, ctx: object = None) -> None:
    """As `get`, nonblocking: the data are in target only after `quiet`.

    Into a strided target the data come at once. OpenSHMEM 1.6, 9.6 (shmem_get_nbi).
    """
    get_checked(target, source, pe, size, ctx, NBI)


def one_element(array: object, name: str, me: int) -> Array:
    word = check_array(array, name, me)
    if word.size != 1:
        raise SizeMismatch(f"{name} must have one element, not {word.size}; x[3:4] is one element of x", pe=me)
    return word


@fronted
def p(target: Array, value: object, pe: int, ctx: object = None) -> None:
    """Stores one value into the symmetric element `target` on PE `pe`.

    target: symmetric array of one element (x[3:4]). value: a number that the dtype holds; integers out of range raise
    OverflowError, a float for an integer DtypeError. On return: as `put`. It wakes waiters of the element. An aligned
    one of up to 8 bytes is placed in one step on `direct`, and where the profile places so many bytes whole: for a word
    that others look at meanwhile there is `atomic_set`. Raises as `put`. OpenSHMEM 1.6, 9.6 (shmem_p).
    """
    here = current()
    q = check_context(ctx)
    to, there = check_target(one_element(target, "target", here.me), "target", here.me), reach(here, pe, ctx)
    at = symmetric(here, to, 1, "target")
    submit_put(here, q, at, _as_element(value, to.dtype, here.me), there)


def _as_element(value: object, dtype: np.dtype[Any], me: int) -> Array:
    if dtype.kind in "iu":
        number = value.item() if isinstance(value, (np.ndarray, np.generic)) and value.size == 1 else value
        if not isinstance(number, int):
            raise DtypeError(f"{value!r} is no integer, but the target has dtype {dtype}", pe=me)
        limits = np.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            raise OverflowError(f"{number} does not fit {dtype}")
        value = number
    if dtype.kind in "fcV" and dtype.names is None and not isinstance(value, (int, float, np.number, np.bool_)):
        plain = isinstance(value, complex) and dtype.kind == "c"
        if not plain and getattr(value, "dtype", None) != dtype:
            raise DtypeError(f"{value!r} is no number that {dtype} holds", pe=me)
    if dtype.kind == "f" and isinstance(value, (complex, np.complexfloating)):
        raise DtypeError(f"{value!r} is complex, but the target has dtype {dtype}", pe=me)
    element: Array = np.empty(1, dtype)
    try:
        element[0] = value
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{value!r} can't be stored as {dtype}: {error}", pe=me) from None
    if dtype.kind in "SU" and str(element[0]) != str(value):
        raise SizeMismatch(f"{value!r} does not fit {dtype}", pe=me)
    return element


@fronted
def g(source: Array, pe: int, ctx: object = None) -> Any:
    """The value of the symmetric element `source` on PE `pe`, as a NumPy scalar of its dtype.

    source: symmetric array of one element (x[3:4]). Raises as `get`. OpenSHMEM 1.6, 9.6 (shmem_g).
    """
    here = current()
    q = check_context(ctx)
    what, there = one_element(source, "source", here.me), reach(here, pe, ctx)
    at = symmetric(here, what, 1, "source")
    element: Array = np.empty(1, what.dtype)
    _submit_get(here, q, element, at, there)
    return element[0]
