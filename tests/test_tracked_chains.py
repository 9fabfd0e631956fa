"""Chains of views and accesses that hypothesis makes up, on a tracked array and on its plain twin."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shmem.tracked import Tracked, unseen
from shmem.views import address_of
from tests.tracked.model import RECORD, Array, pair
from tests.tracked.twins import assert_same

SMALL = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)
DTYPES = [*map(np.dtype, ("i8", "u1", "i2", "f4", "f8", "c8", "?", *SMALL)), RECORD]
VIEWINGS = ["index", "index", "T", "reshape", "field", "view", "swap", "diagonal", "spread", "real"]
ACCESSES = ["read", "write", "gather", "scatter", "add", "reduce", "self", "out", "element"]
SHAPES = [(), (7,), (3, 4), (2, 3, 2), (0, 2), (1, 5, 1)]


def bytes_of(view: Array, whole: Array) -> set[int]:
    """The bytes of `whole` that a view of it covers, field by field and element by element."""
    if view.dtype.names:
        return set().union(*(bytes_of(view[name], whole) for name in view.dtype.names))
    first = address_of(view) - address_of(whole)
    found: set[int] = set()
    for at in np.ndindex(view.shape):
        begin = first + sum(i * step for i, step in zip(at, view.strides, strict=True))
        found.update(range(begin, begin + view.itemsize))
    return found


@st.composite
def subscripts(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A basic index: numbers, slices, an ellipsis, a new axis, fewer of them than axes or as many."""
    parts: list[Any] = []
    for side in shape[: draw(st.integers(0, len(shape)))]:
        number = st.integers(-side, side - 1) if side else st.nothing()
        parts.append(draw(st.one_of(number, st.slices(side), st.slices(side))))
    for extra in draw(st.lists(st.sampled_from([None, ...]), max_size=2, unique=True)):
        parts.insert(draw(st.integers(0, len(parts))) if extra is None else len(parts), extra)
    return tuple(parts)


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """An advanced index: a mask, or lists of numbers for some axes beside slices and numbers."""
    n = math.prod(shape)
    if not shape or not n or draw(st.booleans()):
        return np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool).reshape(shape)
    chosen = draw(st.integers(0, len(shape) - 1))
    parts: list[Any] = []
    for axis, side in enumerate(shape):
        numbers = st.lists(st.integers(-side, side - 1), min_size=2, max_size=2)
        parts.append(draw(numbers if axis == chosen else st.one_of(st.slices(side), numbers)))
    return tuple(parts)


def step_down(data: st.DataObject, x: Any, twin: Array) -> tuple[Any, Array]:
    """The same view of both."""
    how = data.draw(st.sampled_from(VIEWINGS))
    if how == "index":
        at = data.draw(subscripts(twin.shape))
        if isinstance(twin[at], np.ndarray):
            return x[at], twin[at]
    elif how == "T":
        return x.T, twin.T
    elif how == "reshape" and twin.flags.c_contiguous:
        return x.reshape(-1), twin.reshape(-1)
    elif how == "field" and twin.dtype.names:
        name = data.draw(st.sampled_from([*twin.dtype.names, list(twin.dtype.names[:2])]))
        return x[name], twin[name]
    elif how == "view" and twin.ndim and twin.strides[-1] == twin.itemsize and not twin.dtype.names:
        return x.view("u1"), twin.view("u1")
    elif how == "swap" and twin.ndim > 1:
        return np.swapaxes(x, 0, -1), np.swapaxes(twin, 0, -1)
    elif how == "diagonal" and twin.ndim > 1:
        return x.diagonal(), twin.diagonal()
    elif how == "spread":
        return np.broadcast_to(x, (2, *twin.shape)), np.broadcast_to(twin, (2, *twin.shape))
    elif how == "real" and twin.dtype.kind == "c":
        return x.imag, twin.imag
    return x, twin


def random_values(data: st.DataObject, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Small numbers that every dtype holds."""
    numbers = np.array(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5)))
    numbers = np.resize(numbers, shape)
    if dtype.names is None:
        return numbers.astype(dtype)
    made = np.zeros(shape, dtype)
    for name in dtype.names:
        made[name] = np.broadcast_to(numbers[(..., *[None] * (made[name].ndim - numbers.ndim))], made[name].shape)
    return made


def touch(data: st.DataObject, x: Any, twin: Array) -> tuple[Any, Any, set[str], Any]:
    """One access to both: the two results, what steps it takes, and the part of the view that is concerned."""
    how = data.draw(st.sampled_from(ACCESSES))
    small = not twin.dtype.names and twin.dtype.kind in "iu"
    if how in ("gather", "scatter"):
        at = data.draw(selections(twin.shape))
        if how == "gather" or not twin.flags.writeable:
            return x[at], twin[at], {"load"}, at
        value = random_values(data, twin[at].shape, twin.dtype)
        x[at] = twin[at] = value
        return None, None, {"store"}, at
    if how == "element" and twin.size:
        at = tuple(data.draw(st.integers(-side, side - 1)) for side in twin.shape)
        return x[at], twin[at], {"load"}, (*at, ...)
    if how == "reduce" and small:
        return x.sum(), twin.sum(), {"load"}, ...
    if twin.flags.writeable:
        if how == "write":
            value = random_values(data, twin.shape, twin.dtype)
            x[...] = twin[...] = value
            return None, None, {"store"}, ...
        if how == "self":
            x[...], twin[...] = x[::-1] if x.ndim else x, twin[::-1].copy() if twin.ndim else twin
            return None, None, {"load", "store"}, ...
        if how == "add" and small:
            x += 1
            twin += 1
            return None, None, {"load", "store"}, ...
        if how == "out" and small:
            np.bitwise_xor(3, 5, out=x, casting="unsafe")
            np.bitwise_xor(3, 5, out=twin, casting="unsafe")
            return None, None, {"store"}, ...
    return x.copy("K"), twin.copy("K"), {"load"}, ...


@given(st.data())
def test_random_chains_of_views_and_accesses(data: st.DataObject) -> None:
    dtype, shape = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(SHAPES))
    whole, model, twin = pair(random_values(data, shape, dtype))
    for _ in range(data.draw(st.integers(1, 4))):
        view, same = whole, twin
        for _ in range(data.draw(st.integers(0, 4))):
            view, same = step_down(data, view, same)
        assert not model.steps
        assert type(view) is Tracked
        assert (view.shape, view.dtype) == (same.shape, same.dtype)
        assert view.strides == same.strides or not same.size
        got, expected, steps, part = touch(data, view, same)
        assert_same(got, expected)
        assert model.equals(twin)
        concerned = part_of(same, twin, part)
        for what, ranges in model.steps:
            assert what in steps
            assert {at for begin, n in ranges for at in range(begin, begin + n)} == concerned
        assert len(model.steps) == (len(steps) if concerned else 0)
        model.steps.clear()
    assert unseen(model.buffer)


def part_of(view: Array, whole: Array, index: Any) -> set[int]:
    """The bytes of `whole` under view[index]: those that a mark written there, or read from there, would touch."""
    if index is ... or (isinstance(index, tuple) and ... in index[-1:]):
        return bytes_of(view[index], whole)
    numbers = np.arange(view.size).reshape(view.shape)[index].reshape(-1)
    elements = [np.unravel_index(number, view.shape) for number in numbers]
    return set().union(*(bytes_of(view[(*at, ...)], whole) for at in elements))
