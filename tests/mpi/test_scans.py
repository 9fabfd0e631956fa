"""sum_inscan and sum_exscan: on every PE the sum of those before it, in order, to the bit; zeros on PE 0."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import shmem

from .data import COMPLEX, INTEGERS, dtype_id, payload, same
from .groups import SIZES, TEAMS, busy, free, new

pytestmark = pytest.mark.mpi
BF16, FP8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
DTYPES = [np.dtype("?"), *INTEGERS, *(np.dtype(c) for c in "efdg"), BF16, FP8, *COMPLEX, np.dtype(">i4")]


def _given(dtype, size, *seed):
    if dtype.kind in "bui":
        return payload(dtype, size, *seed)
    rng = np.random.default_rng([31, *seed])
    return (rng.standard_normal(size) + (1j * rng.standard_normal(size) if dtype.kind == "c" else 0)).astype(dtype)


def _sum(dtype, rows, size):
    held = np.dtype("f4") if dtype.itemsize <= 2 and dtype.kind in "fV" else dtype
    if not rows:
        return np.zeros(size, dtype)
    total = rows[0].astype(held)
    for row in rows[1:]:
        total = total + row.astype(held)
    return total.astype(dtype)


def _check(dtype, size, group=None, *, in_place=False):
    group = shmem.TEAM_WORLD if group is None else group
    at = group.my_pe()
    for scan, last in ((shmem.sum_inscan, at + 1), (shmem.sum_exscan, at)):
        source = new(_given(dtype, size, shmem.my_pe()))
        target = source if in_place else shmem.full(size + 3, 1, dtype)
        scan(target, source, size, group)
        wanted = _sum(dtype, [_given(dtype, size, pe) for pe in group.pes[:last]], size)
        assert same(target[:size], wanted)
        assert in_place or (target[size:] == np.ones(3, dtype)).all()
        shmem.barrier_all()
        free(source, *([] if in_place else [target]))


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_every_dtype(dtype):
    _check(dtype, 517)
    _check(dtype, 517, in_place=True)


@pytest.mark.core
@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("dtype", [np.dtype("u1"), np.dtype("f8"), FP8], ids=dtype_id)
def test_every_size(dtype, nbytes):
    _check(dtype, -(-nbytes // dtype.itemsize))
    _check(dtype, -(-nbytes // dtype.itemsize), in_place=True)


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("size", [4, 9000])
def test_on_teams(team, size):
    group = TEAMS[team]()
    _check(np.dtype("f8"), size, group)
    group.destroy()


@pytest.mark.parametrize("view", [slice(None, None, 2), slice(None, None, -1)], ids=["every second", "backwards"])
def test_views(view):
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = new(np.arange(400) * (me + 1)), shmem.zeros(400, np.int64)
    shmem.sum_inscan(target[view], source[view])
    wanted = np.zeros(400, np.int64)
    wanted[view] = (np.arange(400) * ((me + 1) * (me + 2) // 2))[view]
    assert same(target, wanted)
    shmem.sum_exscan(source[view], source[view])
    wanted = np.arange(400) * (me + 1)
    wanted[view] = (np.arange(400) * (me * (me + 1) // 2))[view]
    assert same(source, wanted)
    assert n >= 1
    free(source, target)


def test_back_to_back():
    """The usual use: where does my part begin, round after round, with one PE late."""
    n, me = shmem.n_pes(), shmem.my_pe()
    count, start = shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    for round_ in range(100):
        count[0] = (me + 1) * (round_ + 3)
        busy(round_)
        shmem.sum_exscan(start, count)
        assert start[0] == sum((pe + 1) * (round_ + 3) for pe in range(me))
        shmem.sum_inscan(count, count)
        assert count[0] == sum((pe + 1) * (round_ + 3) for pe in range(me + 1))
    assert n == shmem.n_pes()
    free(count, start)


@pytest.mark.parametrize("scan", [shmem.sum_inscan, shmem.sum_exscan])
def test_what_can_not_be_added(scan):
    text = shmem.zeros(3, "S4")
    with pytest.raises(shmem.DtypeError, match=f"{scan.__name__} has no meaning for .*S4"):
        scan(text, text)
    numbers = shmem.zeros(4)
    with pytest.raises(shmem.ArgumentError, match="overlap"):
        scan(numbers[1:], numbers[:3])
    free(text, numbers)
