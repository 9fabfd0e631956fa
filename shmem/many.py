"""Many small puts in one call: `put_many`.

Each side is brought to three arrays (where the blocks begin, how many bytes they have, of which dtype), so that the
records of all puts are filled by NumPy and submitted at once. The common case, rows of contiguous arrays, is done by
the C front of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DtypeError, LayoutError, SizeMismatch
from .front import fronted
from .ordering import check_context
from .records import RECORD, Op, Records
from .rma import gathered, reach_all
from .runtime import PE, current
from .views import Array, Place, address_of, blocks, check_array, check_target, integers, symmetric, whole_numbers

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """The blocks of one side: heap offsets or addresses, bytes, and dtypes (one for all, or one each)."""

    at: Numbers
    nbytes: Numbers
    dtypes: list[np.dtype[Any]]
    keep: object


def _rows(pe: PE, array: Array, place: Place, chosen: object, name: str) -> Side:
    """Rows of an array, all of them or those with the numbers `chosen`."""
    n = len(array)
    width = place.block if place.count > 1 else place.block // max(1, n)
    stride = place.stride if place.count > 1 else width
    at = np.arange(n, dtype=np.int64) if chosen is None else whole_numbers(chosen, None, "rows", pe)
    if len(at) and (int(at.min()) < 0 or int(at.max()) >= n):
        raise SizeMismatch(f"rows {at.min()} to {at.max()} are not all in {name}, which has {n}", pe=pe.me)
    return Side(place.offset + at * stride, np.full(1, width, np.int64), [array.dtype], array)


def _array(pe: PE, value: object, name: str) -> Array:
    array = check_array(value, name, pe.me)
    if array.ndim == 0:
        raise LayoutError(f"{name} has no rows: an array of at least one dimension is needed, or a list", pe=pe.me)
    return array


def _listed(at: list[int], arrays: list[Array]) -> Side:
    sizes = np.array([array.nbytes for array in arrays], np.int64)
    return Side(np.array(at, np.int64), sizes, [array.dtype for array in arrays], arrays)


def _targets(pe: PE, value: object) -> Side:
    if isinstance(value, list):
        arrays = [check_target(check_array(one, "target", pe.me), "target", pe.me) for one in value]
        places = [symmetric(pe, one, one.size, "target") for one in arrays]
        if any(place.count > 1 for place in places):
            raise LayoutError("a target in a list of put_many must be C-contiguous", pe=pe.me)
        return _listed([place.offset for place in places], arrays)
    if isinstance(value, tuple) and len(value) != 2:
        raise DtypeError("targets must be an array, a pair (array, rows) or a list of arrays", pe=pe.me)
    array, chosen = value if isinstance(value, tuple) else (value, None)
    array = check_target(_array(pe, array, "targets"), "targets", pe.me)
    place = symmetric(pe, array, array.size, "targets")
    return _rows(pe, array, place, chosen, "targets")


def _sources(pe: PE, value: object) -> Side:
    if isinstance(value, list):
        arrays = [check_array(one, "source", pe.me) for one in value]
        for one in arrays:
            blocks(one, one.size, "source", pe.me)
        packed = [gathered(one, one.size) for one in arrays]
        return _listed([address_of(one) for one in packed], packed)
    array = _array(pe, value, "sources")
    blocks(array, array.size, "sources", pe.me)
    rows = gathered(array, array.size)
    return _rows(pe, rows, Place(address_of(rows), rows.nbytes, 0, 1), None, "sources")


def _check_sides(pe: PE, to: Side, what: Side, n: int) -> None:
    kinds = max(len(to.dtypes), len(what.dtypes))
    for i in range(kinds if n else 0):
        target, source = to.dtypes[i % len(to.dtypes)], what.dtypes[i % len(what.dtypes)]
        if target != source:
            raise DtypeError(f"source {i} has dtype {source}, its target {target}", pe=pe.me)
    if n and int((to.nbytes - what.nbytes).min()) < 0:
        raise SizeMismatch("a source is larger than its target", pe=pe.me)


@fronted
def put_many(targets: object, sources: object, pes: object, ctx: object = None) -> None:
    """Many small puts in one call: put i copies source i into target i on PE pes[i]. Ours.

    targets: a symmetric array whose rows (`x[i]`; of a 1-D array the elements) are the targets; or a pair (array,
    rows) that takes the rows with these numbers, an integer array; or a list of symmetric arrays. sources: an array
    whose rows are the sources, or a list of arrays. pes: integers, or one PE for all. What has length 1 serves all
    puts. dtypes are equal; a row of targets may be larger than its source. The fast form is C-contiguous arrays with
    int64 numbers; lists take any dtypes and sizes, slower.
    On return: as `put`: sources may be reused. The puts of one call have no order among them.
    Raises as `put`, SizeMismatch for lengths that differ and rows that do not exist; then nothing was moved.
    """
    here = current()
    q = check_context(ctx)
    there = np.atleast_1d(integers(pes, "pes", here))
    to, what = _targets(here, targets), _sources(here, sources)
    lengths = {"targets": len(to.at), "sources": len(what.at), "pes": len(there)}
    n = next((length for length in lengths.values() if length != 1), 1)
    if any(length not in (1, n) for length in lengths.values()):
        raise SizeMismatch(f"lengths differ: {lengths}", pe=here.me)
    there = reach_all(here, there, ctx)
    _check_sides(here, to, what, n)
    ops: Records = np.zeros(n, RECORD)
    ops["op"], ops["pe"], ops["n"] = Op.PUT, there, what.nbytes
    ops["dst"], ops["src"] = to.at, what.at
    here.fabric.submit(q, ops)
