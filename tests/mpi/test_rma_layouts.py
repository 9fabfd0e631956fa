"""Views in put and get: those that are promised work, the rest raises, and none ever moves the wrong bytes.

Promised are C-contiguous views, 1-D views with any step and row blocks of 2-D arrays, on either side. The oracle is
NumPy's own assignment on the same views.
"""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import payload, same

pytestmark = pytest.mark.mpi

SHAPE = (6, 10)
VIEWS = {
    "whole": lambda a: a,
    "row": lambda a: a[2],
    "part of a row": lambda a: a[3, 2:9],
    "every second": lambda a: a[1, ::2],
    "every third from 1": lambda a: a[4, 1::3],
    "backwards": lambda a: a[5, ::-1],
    "every second backwards": lambda a: a[0, 8:1:-2],
    "column": lambda a: a[:, 4],
    "column upwards": lambda a: a[::-1, 7],
    "every second of a column": lambda a: a[::2, 0],
    "rows": lambda a: a[2:5],
    "row block": lambda a: a[1:5, 3:8],
    "every second row": lambda a: a[::2],
    "rows upwards": lambda a: a[::-1, 1:4],
    "one element": lambda a: a[3:4, 5:6],
    "flat every seventh": lambda a: a.reshape(-1)[::7],
    "flat backwards": lambda a: a.reshape(-1)[::-1],
    "diagonal": lambda a: a.reshape(-1)[:: SHAPE[1] + 1],
    "one column": lambda a: a[:, 6:7],
    "nothing": lambda a: a[3:3],
}
REFUSED = {
    "transposed": lambda a: a.T,
    "columns by step": lambda a: a[:, ::2],
    "columns backwards": lambda a: a[:, ::-1],
    "three dimensions apart": lambda a: a.reshape(3, 2, 10)[:, :, 2:5],
    "rows twice": lambda a: np.broadcast_to(a[0], (4, 10)).T,
}
KINDS = [np.dtype(name) for name in ("u1", "i2", "f4", "f8", "c16", "S5")]


def contiguous(view):
    return np.ascontiguousarray(view)


@pytest.mark.parametrize("nbi", [False, True], ids=["", "nbi"])
@pytest.mark.parametrize("view", VIEWS)
def test_put_into_a_view(view, nbi):
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    arrays = [shmem.zeros(SHAPE, dtype) for dtype in KINDS]
    put = shmem.put_nbi if nbi else shmem.put
    for x in arrays:
        target = VIEWS[view](x)
        put(target, payload(x.dtype, target.size, me).reshape(target.shape), right)
    shmem.barrier_all()
    for x in arrays:
        wanted = np.zeros(SHAPE, x.dtype)
        there = VIEWS[view](wanted)
        there[...] = payload(x.dtype, there.size, left).reshape(there.shape)
        assert same(x, wanted), x.dtype
    for x in arrays:
        shmem.free(x)


@pytest.mark.parametrize("private", [True, False], ids=["private", "symmetric"])
@pytest.mark.parametrize("view", VIEWS)
def test_put_from_a_view(view, private):
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("i4")
    right, left = (me + 1) % n, (me - 1) % n
    x = shmem.zeros(SHAPE, dtype)
    held = shmem.array(payload(dtype, 60, me).reshape(SHAPE))
    source = VIEWS[view](held.copy() if private else held)
    shmem.put(x.reshape(-1)[: source.size].reshape(source.shape), source, right)
    shmem.barrier_all()
    wanted = np.zeros(SHAPE, dtype)
    came = contiguous(VIEWS[view](payload(dtype, 60, left).reshape(SHAPE)))
    wanted.reshape(-1)[: came.size] = came.reshape(-1)
    assert same(x, wanted)
    shmem.free(held)
    shmem.free(x)


@pytest.mark.parametrize("source_view", ["every second", "backwards", "column", "row block", "part of a row"])
@pytest.mark.parametrize("target_view", ["every third from 1", "rows upwards", "column upwards", "flat every seventh"])
def test_put_from_a_view_into_a_view_of_another_shape(source_view, target_view):
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("i8")
    right, left = (me + 1) % n, (me - 1) % n
    x, held = shmem.zeros(SHAPE, dtype), payload(dtype, 60, me).reshape(SHAPE)
    target, source = VIEWS[target_view](x), VIEWS[source_view](held)
    columns = [part.shape[1] for part in (source, target) if part.ndim == 2]
    size = min(source.size, target.size)
    size -= size % int(np.lcm.reduce(columns)) if columns else 0
    shmem.put(target, source, right, size)
    shmem.barrier_all()
    wanted = np.zeros(SHAPE, dtype)
    came = contiguous(VIEWS[source_view](payload(dtype, 60, left).reshape(SHAPE))).reshape(-1)
    places = contiguous(VIEWS[target_view](np.arange(60).reshape(SHAPE))).reshape(-1)
    for i in range(size):
        wanted.reshape(-1)[places[i]] = came[i]
    assert same(x, wanted)
    shmem.free(x)


@pytest.mark.parametrize("nbi", [False, True], ids=["", "nbi"])
@pytest.mark.parametrize("view", VIEWS)
def test_get_from_a_view(view, nbi):
    n, me = shmem.n_pes(), shmem.my_pe()
    arrays = [shmem.array(payload(dtype, 60, me).reshape(SHAPE)) for dtype in KINDS]
    get = shmem.get_nbi if nbi else shmem.get
    for x in arrays:
        for pe in {me, (me + 1) % n, n - 1}:
            source = VIEWS[view](x)
            got = np.zeros(source.shape, x.dtype)
            get(got, source, pe)
            shmem.quiet()
            assert same(got, contiguous(VIEWS[view](payload(x.dtype, 60, pe).reshape(SHAPE)))), x.dtype
    shmem.barrier_all()
    for x in arrays:
        shmem.free(x)


@pytest.mark.parametrize("view", VIEWS)
def test_get_into_a_view(view):
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("i4")
    x = shmem.array(payload(dtype, 60, me))
    for pe in {me, (me + 1) % n, n - 1}:
        got, wanted = np.zeros(SHAPE, dtype), np.zeros(SHAPE, dtype)
        target = VIEWS[view](got)
        shmem.get(target, x[: target.size], pe)
        VIEWS[view](wanted)[...] = payload(dtype, 60, pe)[: target.size].reshape(target.shape)
        assert same(got, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("view", REFUSED)
def test_other_layouts_raise_and_move_nothing(view):
    x, other = shmem.full(SHAPE, 3, np.int32), np.full(SHAPE, 5, np.int32)
    symmetric, private = REFUSED[view](x), REFUSED[view](other)
    packed, into = np.zeros(symmetric.size, np.int32), shmem.zeros(60, np.int32)
    pe = shmem.n_pes() - 1
    for call in (
        lambda: shmem.put(symmetric, packed, pe),
        lambda: shmem.put_nbi(symmetric, packed, pe),
        lambda: shmem.put(into, private, pe),
        lambda: shmem.get(packed, symmetric, pe),
        lambda: shmem.get_nbi(packed, symmetric, pe),
        lambda: shmem.get(private, into[: private.size], pe),
    ):
        with pytest.raises((shmem.LayoutError, shmem.ArgumentError)) as caught:
            call()
        assert isinstance(caught.value, shmem.LayoutError) or not private.flags.writeable
    shmem.barrier_all()
    assert (x == 3).all()
    assert (other == 5).all()
    assert not packed.any()
    assert not into.any()
    shmem.free(into)
    shmem.free(x)


def test_part_of_a_row_block_that_ends_inside_a_row():
    """Whole rows work, whatever else is asked for raises: it never moves other elements."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(SHAPE, np.int32)
    block, given = x[1:5, 3:8], payload(x.dtype, 20, me)
    with pytest.raises(shmem.LayoutError):
        shmem.put(block, given, n - 1, 7)
    shmem.barrier_all()
    assert not x.any()
    shmem.barrier_all()
    shmem.put(block, given, (me + 1) % n, 10)
    shmem.barrier_all()
    wanted = np.zeros(SHAPE, np.int32)
    wanted[1:3, 3:8] = payload(x.dtype, 20, (me - 1) % n)[:10].reshape(2, 5)
    assert same(x, wanted)
    shmem.free(x)


def test_random_views_of_every_kind():
    """Seeded: shapes, steps, directions and dtypes at random, each PE with its own payload, against NumPy."""
    n, me = shmem.n_pes(), shmem.my_pe()
    rng = np.random.default_rng(20)
    heap = shmem.zeros(6000, np.uint8)
    for round_ in range(150):
        dtype = KINDS[rng.integers(len(KINDS))]
        rows, columns = (int(side) for side in rng.integers(1, 13, 2))
        start = int(rng.integers(0, 40)) * dtype.itemsize
        x = heap[start : start + rows * columns * dtype.itemsize].view(dtype).reshape(rows, columns)
        steps = [int(step) for step in rng.choice([-3, -2, -1, 1, 2, 3], 2)]
        pick = (slice(None, None, steps[0]), slice(int(rng.integers(0, columns)), None))
        flat = bool(rng.integers(2))
        shift = int(rng.integers(n))

        def view(array, pick=pick, flat=flat, steps=steps):
            return array.reshape(-1)[:: steps[1]] if flat else array[pick]

        target = view(x)
        shmem.put(target, payload(dtype, target.size, me, round_).reshape(target.shape), (me + shift) % n)
        shmem.barrier_all()
        wanted = np.zeros(6000, np.uint8)
        there = wanted[start : start + rows * columns * dtype.itemsize].view(dtype).reshape(rows, columns)
        sent = payload(dtype, target.size, (me - shift) % n, round_).reshape(target.shape)
        view(there)[...] = sent
        assert same(heap, wanted), (round_, dtype, rows, columns, pick, flat)
        got = np.zeros(target.shape, dtype)
        shmem.get(got, target, (me + shift) % n)
        assert same(got, payload(dtype, target.size, me, round_).reshape(target.shape))
        shmem.barrier_all()
        heap[...] = 0
        shmem.barrier_all()
    shmem.free(heap)
