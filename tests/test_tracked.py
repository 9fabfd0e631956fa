"""Tracked arrays: every way to touch one is seen by the watch or refused, and none reads the poison that lies under it.

The programs of `tests/tracked/ways.py` run twice: on a tracked array over poison, whose true values are in a model, and
on a plain twin of the true values. `test_tracked_bytes` says which bytes, `test_tracked_chains` makes up accesses.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmem.errors import CheckError, DtypeError
from shmem.tracked import Tracked, track, unseen
from shmem.views import address_of
from tests.tracked import ways
from tests.tracked.model import VALUES, Model, pair
from tests.tracked.twins import assert_no_lost_write, assert_same, run, run_raising


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
