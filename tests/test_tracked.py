"""Tracked arrays: every way to touch one is seen by the watch or refused, and none reads the poison that lies under it.

The programs of `tests/tracked/ways.py` run twice: on a tracked array over poison, whose true values are in a model, and
on a plain twin of the true values. In the end hypothesis makes up chains of views and accesses of its own.
"""

from __future__ import annotations

import collections
import copy
import ctypes
import hashlib
import io
import math
import operator
import pickle
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmem.errors import CheckError, DtypeError
from shmem.tracked import Tracked, track, unseen
from shmem.views import address_of
from tests.tracked import ways
from tests.tracked.model import RECORD, VALUES, Array, Model, pair

MODULES = (collections, copy, ctypes, hashlib, io, math, ml_dtypes, np, operator, pickle, struct)
Rows = collections.namedtuple("Rows", "upper lower")


class Index:
    """A number, but no int."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Other:
    """Something that an array leaves the operator to."""

    __array_ufunc__ = None

    def __radd__(self, other: Array) -> list[Any]:
        return [*other]

    __add__ = __radd__


class Senior:
    """Something that an array leaves even an operation in place to."""

    __array_priority__ = 1000

    def __radd__(self, other: Array) -> list[Any]:
        return [*other]


class Exporter:
    """DLPack as a consumer asks for it that takes a copy."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **asked: Any) -> Any:
        if type(self.array) is Tracked:
            asked["copy"] = True  # before NumPy 2.1 arrays don't know the word
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def run(program: str, x: Array, folder: Path) -> Any:
    names = {"np" if module is np else module.__name__: module for module in MODULES}
    names |= {"x": x, "p": np.arange(100, 108), "z": np.zeros(8, np.int64), "m": np.arange(8) % 3 == 0}
    names |= {cls.__name__: cls for cls in (Exporter, Index, Other, Rows, Senior)} | {"path": str(folder / "file")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(compile(program, program, "eval"), names)
        except SyntaxError:
            exec(compile(program, program, "exec"), names)
    return names.get("r")


def run_raising(program: str, x: Array, folder: Path) -> Exception:
    try:
        result = run(program, x, folder)
    except Exception as error:
        return error
    pytest.fail(f"no error, but {result!r}")


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def assert_same(got: Any, expected: Any) -> None:
    """The same types, dtypes, shapes and values; NaN is NaN."""
    assert isinstance(got, tuple) == isinstance(expected, tuple)
    ours, theirs = list(leaves(got)), list(leaves(expected))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, (np.ndarray, np.generic)):
            assert isinstance(one, np.ndarray) == isinstance(other, np.ndarray)
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert repr(one.tolist()) == repr(other.tolist())
        else:
            assert type(one) is type(other)
            assert one == other or other != other


def assert_no_lost_write(got: Any, expected: Any, twin: Array) -> None:
    """What shares the memory in NumPy is tracked or read-only; what does not is neither."""
    for one, other in zip(leaves(got), leaves(expected), strict=True):
        if isinstance(one, np.ndarray):
            shared = isinstance(other, np.ndarray) and (other.size == 0 or np.may_share_memory(other, twin))
            assert type(one) is not Tracked or shared
            if type(one) is not Tracked and other.size:
                assert one.flags.writeable == (not shared and other.flags.writeable)


def cases(table: dict[str, str]) -> list[Any]:
    found = [(kind, program) for kind, lines in table.items() for program in ways.programs(lines)]
    assert len(found) == len(set(found)), "a program twice"
    return [pytest.param(*case, id=": ".join(case)) for case in found]


# -- the tables ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "program"), cases(ways.SEEN))
def test_it_is_seen(kind: str, program: str, tmp_path: Path) -> None:
    x, model, twin = pair(VALUES[kind])
    expected, got = run(program, twin, tmp_path), run(program, x, tmp_path)
    assert model.equals(twin)
    assert unseen(model.buffer)
    assert_no_lost_write(got, expected, twin)
    assert_same(got, expected)


@pytest.mark.filterwarnings("ignore:.*broadcast_array")
@pytest.mark.parametrize(("kind", "program"), cases(ways.VIEWS))
def test_a_view_is_tracked_and_loads_nothing(kind: str, program: str, tmp_path: Path) -> None:
    x, model, twin = pair(VALUES[kind])
    view, expected = run(program, x, tmp_path), run(program, twin, tmp_path)
    assert not model.steps
    assert type(view) is Tracked
    assert (view.shape, view.dtype, view.flags.writeable) == (expected.shape, expected.dtype, expected.flags.writeable)
    if expected.size:
        assert view.strides == expected.strides
        assert address_of(view) - address_of(x) == address_of(expected) - address_of(twin)
    assert_same(view.copy(), expected.copy())
    if expected.flags.writeable and all(expected.strides):
        view[...] = expected[...] = np.ones((), expected.dtype)
        assert model.equals(twin)


@pytest.mark.parametrize("program", ways.programs(ways.LOOKS))
def test_a_look_at_the_shape_loads_nothing(program: str, tmp_path: Path) -> None:
    x, model, twin = pair(VALUES["ints"])
    got, expected = run(program, x, tmp_path), run(program, twin, tmp_path)
    assert not model.steps
    assert type(got) is not Tracked
    assert_same(got, expected)


@pytest.mark.parametrize(("kind", "program"), cases(ways.ERRORS))
def test_errors_are_those_of_numpy_and_store_nothing(kind: str, program: str, tmp_path: Path) -> None:
    x, model, twin = pair(VALUES[kind])
    expected, got = run_raising(program, twin, tmp_path), run_raising(program, x, tmp_path)
    assert type(got) is type(expected)
    assert model.equals(VALUES[kind])
    assert not [step for step in model.steps if step[0] == "store"]
    if isinstance(expected, IndexError):
        assert str(got) == str(expected)


@pytest.mark.parametrize(
    ("kind", "program", "error", "says"),
    [pytest.param(kind, *row, id=f"{kind}: {row[0]}") for kind, rows in ways.REFUSED.items() for row in rows],
)
def test_it_is_refused(kind: str, program: str, error: str, says: str, tmp_path: Path) -> None:
    x, model, _ = pair(VALUES[kind])
    with pytest.raises(Exception, match=says) as raised:
        run(program, x, tmp_path)
    assert raised.type.__name__ in error.split(" or ")
    assert model.equals(VALUES[kind])
    assert unseen(model.buffer)


def test_the_tables_cover_the_interface() -> None:
    """Every public name of an ndarray is a name of a tracked array; what is missing is missing on purpose."""
    # of the class; what NumPy's own code asks subclasses for; memory
    left_out = {"__class_getitem__", "__array_finalize__", "__array_wrap__", "__array_interface__", "__array_struct__"}
    removed = {"itemset", "newbyteorder", "ptp"}  # in NumPy 2, whose earlier versions still said so
    internal = {name for name in dir(np.ndarray) if name.startswith("_") and not name.startswith("__")}
    assert set(dir(np.ndarray)) - set(dir(Tracked)) - removed - internal == left_out


# -- what differs ----------------------------------------------------------------------------------------


def test_bytearray_takes_elements_for_bytes_or_is_refused() -> None:
    x, model, _ = pair(VALUES["ints"])
    if sys.version_info >= (3, 12):
        with pytest.raises(CheckError, match="take a copy"):
            bytearray(x)
    else:
        assert list(bytearray(x)) == VALUES["ints"].tolist()
        assert model.steps == [("load", [(at, 8)]) for at in range(0, 64, 8)]


def test_the_buffer_is_refused_in_words_where_python_asks() -> None:
    x, _, _ = pair(VALUES["ints"])
    with pytest.raises(CheckError, match=r"x\.copy\(\)"):
        x.__buffer__(0)
    with pytest.raises(CheckError if sys.version_info >= (3, 12) else TypeError):
        memoryview(x)


def test_numpy_forgets_that_an_array_is_read_only() -> None:
    x, model, twin = pair(VALUES["ints"])
    data = model.load([(address_of(x), 64)])
    model.load = lambda ranges: data  # type: ignore[method-assign]
    if np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        with pytest.raises(ValueError, match="read-only"):
            np.add.at(np.asarray(x), 0, 1)
    else:
        np.add.at(np.asarray(x), 0, 1)  # lost
    assert x.tolist() == twin.tolist()  # what the watch gave is unharmed
    assert model.equals(twin)


def test_a_tracked_array_tells_its_address() -> None:
    x, model, _ = pair(VALUES["floats"])
    assert address_of(x) == address_of(model.buffer)
    assert address_of(x[1, 1:]) == address_of(model.buffer) + 32
    assert address_of(x.T[::-1]) == address_of(model.buffer) + 16
    with pytest.raises((TypeError, AttributeError), match="array"):  # the second where there is no C core
        address_of([1])  # type: ignore[arg-type]
    assert not model.steps


def test_shuffling_rows_warns() -> None:
    x, _, _ = pair(VALUES["floats"])
    with pytest.warns(UserWarning, match="not guaranteed to behave correctly"):
        np.random.default_rng(0).shuffle(x)


def test_torch_is_refused() -> None:
    torch = pytest.importorskip("torch")
    x, _, twin = pair(VALUES["ints"])
    with pytest.raises(TypeError):
        torch.from_numpy(x)
    assert torch.tensor(x.tolist()).tolist() == twin.tolist()


def test_only_plain_arrays_of_fixed_size_are_tracked() -> None:
    x, model, _ = pair(VALUES["ints"])
    with pytest.raises(TypeError, match="Tracked"):
        track(x, model)
    with pytest.raises(TypeError, match="list"):
        track([1, 2], model)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="object"):
        track(np.array([None]), model)


def test_what_it_is_called() -> None:
    x, _, _ = pair(VALUES["ints"])
    assert isinstance(x, np.ndarray)
    assert isinstance(x, Tracked)
    assert not isinstance(np.zeros(3), Tracked)
    assert x.sum.__doc__ == np.ndarray.sum.__doc__
    assert x.sum.__name__ == "sum"


# -- which bytes -----------------------------------------------------------------------------------------

# program on int64 [8] or float64 [2, 3] or records: the steps
STEPS = [
    ("ints", "x[2]", [("load", [(16, 8)])]),
    ("ints", "x[-1] = 3", [("store", [(56, 8)])]),
    ("ints", "x[2:5].copy()", [("load", [(16, 24)])]),
    ("ints", "x[5:2:-1].copy()", [("load", [(24, 24)])]),
    ("ints", "x[::3] = 1", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "x[[1, 2, 5, 1]]", [("load", [(8, 16), (40, 8)])]),
    ("ints", "x[[5, 1, 2]] = [7, 8, 9]", [("store", [(8, 16), (40, 8)])]),
    ("ints", "x[m]", [("load", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "x[x > 4]", [("load", [(0, 64)]), ("load", [(0, 8), (48, 16)])]),
    ("ints", "p[x]; p[x[2:4]] = 1", [("load", [(0, 64)]), ("load", [(16, 16)])]),
    ("ints", "x[1:3].reshape(1, 2)[0, 1]", [("load", [(16, 8)])]),
    ("ints", "x += 1", [("load", [(0, 64)]), ("store", [(0, 64)])]),
    ("ints", "x[2:5] *= 3", [("load", [(16, 24)]), ("store", [(16, 24)])]),
    ("ints", "x[3] += 1", [("load", [(24, 8)]), ("store", [(24, 8)])]),
    ("ints", "x[m] += 1", [("load", [(0, 8), (24, 8), (48, 8)]), ("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "x[1:3] = x[1:3]", [("load", [(8, 16)]), ("store", [(8, 16)])]),
    ("ints", "x += 1; x[...] = x[...]", [(what, [(0, 64)]) for what in ("load", "store", "load", "store")]),
    ("ints", "x += 1; x.sum(); x[...] = x", [(how, [(0, 64)]) for how in ("load", "store", "load", "load", "store")]),
    ("ints", "x.flat[x[:2]] = 1", [("load", [(0, 16)]), ("store", [(24, 8), (40, 8)])]),
    ("ints", "x[:] = x[::-1]", [("load", [(0, 64)]), ("store", [(0, 64)])]),
    ("ints", "for v in x[:3]: pass", [("load", [(0, 8)]), ("load", [(8, 8)]), ("load", [(16, 8)])]),
    ("ints", "for v in x[:4].reshape(2, 2).flat: pass", [("load", [(at, 8)]) for at in (0, 8, 16, 24)]),
    ("ints", "x.item(3)", [("load", [(24, 8)])]),
    ("ints", "x.flat[2:4]", [("load", [(16, 16)])]),
    ("ints", "x.flat[2:4] = 3", [("store", [(16, 16)])]),
    ("ints", "np.add(p, 1, out=x)", [("store", [(0, 64)])]),
    ("ints", "np.add(p, 1, out=x, where=m)", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "np.add(p, 1, out=z, where=x > 3)", [("load", [(0, 64)])]),
    ("ints", "np.add.at(x, [2, 2, 3], 1)", [("load", [(16, 16)]), ("store", [(16, 16)])]),
    ("ints", "np.copyto(x, 1, where=m)", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "np.put(x, [1, 2], 1)", [("store", [(8, 16)])]),
    ("ints", "np.place(x, m, 1)", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "np.put(x, [1], [])", []),
    ("ints", "np.concatenate([x[:2], x[4:5]])", [("load", [(0, 16)]), ("load", [(32, 8)])]),
    ("ints", "x.sort()", [("load", [(0, 64)]), ("store", [(0, 64)])]),
    ("ints", "x.fill(3)", [("store", [(0, 64)])]),
    ("ints", "x.setfield(1, 'u1', 7)", [("store", [(at, 1) for at in range(7, 64, 8)])]),
    ("ints", "np.broadcast_to(x[2:3], (4, 1)).copy()", [("load", [(16, 8)])]),
    ("ints", "np.lib.stride_tricks.sliding_window_view(x[:3], 2).copy()", [("load", [(0, 16), (8, 16)])]),
    ("ints", "x[3:3].copy(); x[[]]; x[3:3] = 1; x[[]] = 1; x[m & False] = 1; x[:0] += 1", []),
    ("ints", "z[:] = x", [("load", [(0, 64)])]),
    ("ints", "x[...].view('i4')[1::2] = 0", [("store", [(at, 4) for at in range(4, 64, 8)])]),
    ("floats", "x.T.copy()", [("load", [(0, 48)])]),
    ("floats", "x[:, 1].sum()", [("load", [(8, 8), (32, 8)])]),
    ("floats", "x[:, 1:] = 3", [("store", [(8, 16), (32, 16)])]),
    ("floats", "x[::-1, ::-1].copy()", [("load", [(0, 48)])]),
    ("floats", "x.T[::-1, 1] = 1", [("store", [(24, 24)])]),
    ("floats", "x.T[[0, 1]]", [("load", [(0, 16), (24, 16)])]),
    ("floats", "x[[0, 1], [2, 0]]", [("load", [(16, 16)])]),
    ("floats", "x[1].sum()", [("load", [(24, 24)])]),
    ("floats", "np.fill_diagonal(x, 1)", [("store", [(0, 8), (32, 8)])]),
    ("floats", "x[0] += x[1]", [("load", [(0, 24)]), ("load", [(24, 24)]), ("store", [(0, 24)])]),
    ("complexes", "x.imag += 1", [(what, [(8, 8), (24, 8), (40, 8)]) for what in ("load", "store")]),
    ("records", "x['a'] += 1", [(what, [(0, 4), (24, 4), (48, 4), (72, 4)]) for what in ("load", "store")]),
    ("records", "x[1]", [("load", [(24, 4), (32, 14)])]),
    ("records", "x[2:] = (1, 2, 3)", [("store", [(48, 4), (56, 14), (72, 4), (80, 14)])]),
    ("records", "x[['b', 'c']][1:2].copy()", [("load", [(32, 14)])]),
    ("records", "x[['a']][0]", [("load", [(0, 4)])]),
    ("records", "x['c'][1, 1:] = 5", [("store", [(42, 4)])]),
    ("empty", "x[...] = 1; x.copy(); x += 1; x.fill(2); x.tolist()", []),
    ("scalar", "x[()]", [("load", [(0, 8)])]),
    ("scalar", "x += 1", [("load", [(0, 8)]), ("store", [(0, 8)])]),
]


@pytest.mark.parametrize(("kind", "program", "steps"), [pytest.param(*row, id=": ".join(row[:2])) for row in STEPS])
def test_exactly_these_bytes_in_these_steps(kind: str, program: str, steps: Any, tmp_path: Path) -> None:
    x, model, _ = pair(VALUES[kind])
    run(program, x, tmp_path)
    assert model.steps == steps


@pytest.mark.parametrize(
    "program",
    ["np.add(x, 1, out=x)", "x += 1", "np.put(x, 0, p[0])", "np.copyto(x, p)", "x.clip(1, 2, x)", "np.add.at(x, 0, 1)",
     "np.place(x, m, p)", "np.concatenate([x[:4], x[4:]], out=x)", "x.sort()", "x[0] = 1", "x[m] = 1", "x.fill(1)"],
)  # fmt: skip
def test_a_read_only_array_is_refused_before_anything_is_loaded(program: str, tmp_path: Path) -> None:
    x, model, _ = pair(VALUES["ints"])
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        run(program, x, tmp_path)
    assert not model.steps


def test_padding_is_never_stored() -> None:
    x, model, _ = pair(VALUES["records"])
    marked = bytearray(b"\xee" * len(model.bytes))
    model.bytes[:] = marked
    x[...] = VALUES["records"]
    x[1:] = x[0]
    x[[2, 0]] = x[[0, 2]]
    x.sort(order="a")
    padding = [at + 24 * i for i in range(4) for at in (4, 5, 6, 7, 22, 23)]
    assert [model.bytes[at] for at in padding] == [marked[at] for at in padding]


def test_unseen_tells_of_a_write_past_the_watch() -> None:
    x, model, _ = pair(VALUES["floats"])
    x[...] = 1
    address = address_of(model.buffer)
    assert unseen(x)
    assert unseen([(address, 48)])
    model.buffer[9] ^= 1
    assert not unseen(x)
    assert not unseen(model.buffer)
    assert not unseen(x[0, 1:2])
    assert not unseen([(address, 8), (address + 8, 8)])
    assert unseen(x[1])
    assert unseen(x[:, ::2])
    assert unseen([(address, 9), (address + 10, 38)])
    assert unseen([])


# -- random chains ---------------------------------------------------------------------------------------

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


def test_two_arrays_of_different_watches_keep_theirs() -> None:
    x, model, _ = pair(VALUES["ints"])
    y, other, _ = pair(VALUES["ints"] * 10)
    first, second = np.broadcast_arrays(x, y[:, None])
    assert second[3, 1] == 10
    assert [len(one.steps) for one in (model, other)] == [0, 1]
    assert first[3, 1] == 3
    y[:] = x
    assert [len(one.steps) for one in (model, other)] == [2, 2]
    assert isinstance(model, Model)
    assert bytes(other.bytes) == VALUES["ints"].tobytes()
