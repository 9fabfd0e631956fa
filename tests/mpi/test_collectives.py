"""broadcast, fcollect, collect, alltoall, alltoalls move the right bytes of every PE to the right place.

The oracle makes every PE's payload here and puts the blocks together in a loop; bytes behind the blocks must not
change.
"""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.fabric.interface import Status
from shmem.records import Op
from shmem.runtime import current

from .data import DTYPES, dtype_id, payload, same
from .groups import SIZES, TEAMS, busy, free, mine, new

pytestmark = pytest.mark.mpi
U1 = np.dtype("u1")
SPARE = 5


def _joined(dtype, parts, length):
    """The parts one after the other in zeros."""
    whole = np.zeros(length, dtype)
    at = 0
    for part in parts:
        whole[at : at + len(part)] = part
        at += len(part)
    return whole


def _blocks(dtype, size, *seed, pes=None):
    pes = range(shmem.n_pes()) if pes is None else pes
    return [payload(dtype, size, pe, *seed) for pe in pes]


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_every_dtype(dtype):
    n, me, size = shmem.n_pes(), shmem.my_pe(), 13
    source, all_to = new(payload(dtype, n * size, me)), shmem.zeros(n * size + SPARE, dtype)
    shmem.fcollect(all_to, source, size)
    assert same(all_to, _joined(dtype, [part[:size] for part in _blocks(dtype, n * size)], n * size + SPARE))
    shmem.alltoall(all_to, source)
    sent = [part[me * size : (me + 1) * size] for part in _blocks(dtype, n * size)]
    assert same(all_to, _joined(dtype, sent, n * size + SPARE))
    one = shmem.zeros(size + SPARE, dtype)
    shmem.broadcast(one, source, n - 1, size)
    assert same(one, _joined(dtype, [payload(dtype, n * size, n - 1)[:size]], size + SPARE))
    shmem.collect(all_to, source, me)
    given = [part[:pe] for pe, part in enumerate(_blocks(dtype, n * size))]
    behind = all_to[sum(map(len, given)) :].copy()
    assert same(all_to, _joined(dtype, [*given, behind], len(all_to)))
    free(source, all_to, one)


@pytest.mark.core
@pytest.mark.parametrize("size", SIZES)
def test_fcollect_of_every_size(size):
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = new(payload(U1, size, me)), shmem.zeros(n * size + SPARE, U1)
    shmem.fcollect(target, source)
    assert same(target, _joined(U1, _blocks(U1, size), n * size + SPARE))
    free(source, target)


@pytest.mark.core
@pytest.mark.parametrize("size", [4099, 20001])
def test_copies_past_the_cache(monkeypatch, size):
    """As when the results of all PEs don't fit it together; what another PE reads next is there."""
    monkeypatch.setattr(current().fabric, "spill_bytes", 0)
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = shmem.zeros(n * size, U1), shmem.zeros(n * size + SPARE, U1)
    ends = [0] * SPARE
    for turn in range(4):  # the third of a kind is replayed in C
        source[:] = payload(U1, n * size, me, turn)
        whole = _blocks(U1, n * size, turn)
        shmem.fcollect(target, source[:size])
        assert same(target, np.concatenate([*(part[:size] for part in whole), ends]).astype(U1))
        shmem.alltoall(target[: n * size], source)
        sent = [part[me * size : (me + 1) * size] for part in whole]
        assert same(target, np.concatenate([*sent, ends]).astype(U1))
        shmem.broadcast(target, source, turn % n, n * size)
        assert same(target, np.concatenate([whole[turn % n], ends]).astype(U1))
        shmem.max_reduce(target, source, n * size)
        assert same(target, np.concatenate([np.max(whole, axis=0), ends]).astype(U1))
    free(source, target)


@pytest.mark.core
@pytest.mark.parametrize("size", SIZES)
def test_alltoall_of_every_size(size):
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = new(np.concatenate([payload(U1, size, me, to) for to in range(n)])), shmem.zeros(n * size + 5, U1)
    shmem.alltoall(target, source)
    assert same(target, _joined(U1, [payload(U1, size, pe, me) for pe in range(n)], n * size + SPARE))
    free(source, target)


@pytest.mark.core
@pytest.mark.parametrize("size", SIZES)
def test_broadcast_of_every_size_from_every_root(size):
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = new(payload(U1, size, me)), shmem.zeros(size + SPARE, U1)
    for root in range(n):
        shmem.broadcast(target, source, root)
        assert same(target, _joined(U1, [payload(U1, size, root)], size + SPARE)), root
    free(source, target)


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_in_place(size):
    me, root = shmem.my_pe(), shmem.n_pes() // 2
    both = new(payload(U1, size, me))
    shmem.broadcast(both, both, root)
    assert same(both, payload(U1, size, root))
    free(both)


@pytest.mark.core
@pytest.mark.parametrize("size", SIZES)
def test_collect_of_sizes_that_differ(size):
    n, me = shmem.n_pes(), shmem.my_pe()
    sizes = [(size * (pe + 2) // 3) if pe % 3 != 1 else 0 for pe in range(n)]
    source, target = new(payload(U1, max(sizes), me)), shmem.zeros(sum(sizes) + SPARE, U1)
    shmem.collect(target, source, sizes[me])
    assert same(target, _joined(U1, [payload(U1, max(sizes), pe)[: sizes[pe]] for pe in range(n)], sum(sizes) + SPARE))
    target[...] = 0
    shmem.barrier_all()
    shmem.collect(target, source[max(sizes) - sizes[me] :])
    ends = [payload(U1, max(sizes), pe)[max(sizes) - sizes[pe] :] for pe in range(n)]
    assert same(target, _joined(U1, ends, sum(sizes) + SPARE))
    free(source, target)


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("size", [3, 5000, 20000])
def test_on_teams(team, size):
    """Blocks come in the order of the team; PEs outside are not touched."""
    group, me, n, dtype = TEAMS[team](), shmem.my_pe(), shmem.n_pes(), np.dtype("i4")
    pes, k = group.pes, group.n_pes()
    source, target = new(payload(dtype, n * size, me)), shmem.zeros(n * size + SPARE, dtype)
    parts = _blocks(dtype, n * size, pes=pes)
    shmem.fcollect(target, source, size, group)
    assert same(target, _joined(dtype, [part[:size] for part in parts], n * size + SPARE))
    shmem.alltoall(target, source, size=size, team=group)
    at = group.my_pe() * size
    assert same(target[: k * size], _joined(dtype, [part[at : at + size] for part in parts], k * size))
    shmem.collect(target, source, size // (group.my_pe() + 1), group)
    given = [part[: size // (i + 1)] for i, part in enumerate(parts)]
    length = sum(map(len, given))
    assert same(target[:length], _joined(dtype, given, length))
    for root in range(k):
        shmem.broadcast(target, source, root, size, team=group)
        assert same(target[:size], parts[root][:size])
    assert not target[k * size :].any()
    group.destroy()
    shmem.barrier_all()
    free(source, target)


def _grid(side, dtype):
    return shmem.zeros((side, 7), dtype)


VIEWS = {
    "contiguous": lambda a: a.reshape(-1),
    "every second": lambda a: a.reshape(-1)[::2],
    "backwards": lambda a: a.reshape(-1)[::-1],
    "column": lambda a: a[:, 3],
    "row block": lambda a: a[:, 2:6],
    "rows upwards": lambda a: a[::-1, :4],
}


@pytest.mark.parametrize("to", VIEWS)
@pytest.mark.parametrize("what", VIEWS)
@pytest.mark.parametrize(("side", "dtype"), [(24, "i2"), (6000, "i2"), (1250, "V64")])
def test_views(what, to, side, dtype):
    """Any view that put takes, on either side, of sizes shown at once and in several parts. Large ones are of large
    elements: to an adapter each that lies apart is a request."""
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype(dtype)
    held, into = new(payload(dtype, side * 7, me).reshape(side, 7)), _grid(side, dtype)
    source, target = VIEWS[what](held), VIEWS[to](into)
    size = min(source.size, target.size) // n // 12 * 12
    wanted = np.zeros((side, 7), dtype)
    flat = [np.ascontiguousarray(VIEWS[what](payload(dtype, side * 7, pe).reshape(side, 7))) for pe in range(n)]
    places = np.ascontiguousarray(VIEWS[to](np.arange(side * 7).reshape(side, 7))).reshape(-1)
    shmem.fcollect(target, source, size)
    wanted.reshape(-1)[places[: n * size]] = np.concatenate([part.reshape(-1)[:size] for part in flat])
    assert same(into, wanted)
    shmem.alltoall(target, source, size)
    parts = [part.reshape(-1)[me * size : (me + 1) * size] for part in flat]
    wanted.reshape(-1)[places[: n * size]] = np.concatenate(parts)
    assert same(into, wanted)
    shmem.broadcast(target, source, n - 1, size)
    wanted.reshape(-1)[places[:size]] = flat[n - 1].reshape(-1)[:size]
    assert same(into, wanted)
    sizes = [size // (4 * pe + 4) * 4 for pe in range(n)]
    shmem.collect(target, source, sizes[me])
    parts = [part.reshape(-1)[: sizes[pe]] for pe, part in enumerate(flat)]
    wanted.reshape(-1)[places[: sum(sizes)]] = np.concatenate(parts)
    assert same(into, wanted)
    free(held, into)


@pytest.mark.parametrize("size", [1, 6, 4000])
@pytest.mark.parametrize(("tst", "sst"), [(1, 1), (1, 3), (2, 1), (5, 2)])
def test_alltoalls(tst, sst, size):
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("c8")
    source, target = new(payload(dtype, n * size * sst, me)), shmem.zeros(n * size * tst, dtype)
    for given in (size, None):
        target[...] = 0
        shmem.barrier_all()
        shmem.alltoalls(target, source, tst, sst, given)
        wanted = np.zeros(n * size * tst, dtype)
        for pe in range(n):
            sent = payload(dtype, n * size * sst, pe)
            for k in range(size):
                wanted[(pe * size + k) * tst] = sent[(me * size + k) * sst]
        assert same(target, wanted)
    free(source, target)


def test_arrays_without_dimensions_and_of_several():
    n, me = shmem.n_pes(), shmem.my_pe()
    one, row = shmem.zeros((), np.int64), shmem.zeros(n, np.int64)
    one[...] = 100 + me
    shmem.fcollect(row, one)
    assert row.tolist() == [100 + pe for pe in range(n)]
    shmem.broadcast(one, one, n - 1)
    assert one == 100 + n - 1
    cube, target = new(payload(np.dtype("f4"), 24, me).reshape(2, 3, 4)), shmem.zeros((n, 2, 3, 4), np.float32)
    shmem.fcollect(target, cube)
    for pe in range(n):
        assert same(target[pe], payload(np.dtype("f4"), 24, pe).reshape(2, 3, 4))
    free(one, row, cube, target)


def test_fortran_order_on_both_sides_is_moved_as_it_lies():
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("i4")
    source, target = shmem.empty((3, 5), dtype, order="F"), shmem.zeros((3, 5 * n), dtype, order="F")
    source[...] = payload(dtype, 15, me).reshape(3, 5)
    shmem.fcollect(target, source)
    for pe in range(n):
        assert same(target[:, 5 * pe : 5 * pe + 5], payload(dtype, 15, pe).reshape(3, 5))
    flat = shmem.zeros((3, 5 * n), dtype)
    with pytest.raises(shmem.LayoutError):
        shmem.fcollect(flat, source)
    assert not flat.any()
    free(source, target, flat)


@pytest.mark.core
@pytest.mark.parametrize("nbytes", [8, 40000, 120000])
def test_back_to_back_without_barriers(nbytes):
    """200 rounds of all kinds with new data in each, while one PE after the other is late."""
    n, me = shmem.n_pes(), shmem.my_pe()
    size = nbytes // 8 // n + 1
    source, target = shmem.zeros(n * size, np.int64), shmem.zeros(n * size, np.int64)
    steps = np.arange(n * size)

    def given(pe, round_):
        return steps + (1000003 * pe + 7919 * round_)

    for round_ in range(200 if nbytes < 10000 else 40):
        source[...] = given(me, round_)
        kind = round_ % 5
        root = round_ % n
        busy(round_)
        if kind == 0:
            shmem.fcollect(target, source, size)
            wanted = np.concatenate([given(pe, round_)[:size] for pe in range(n)])
        elif kind == 1:
            shmem.alltoall(target, source)
            wanted = np.concatenate([given(pe, round_)[me * size : (me + 1) * size] for pe in range(n)])
        elif kind == 2:
            shmem.broadcast(target, source, root)
            wanted = given(root, round_)
        elif kind == 3:
            shmem.sum_reduce(target, source)
            wanted = sum(given(pe, round_) for pe in range(n))
        else:
            shmem.collect(target, source, size)
            wanted = np.concatenate([given(pe, round_)[:size] for pe in range(n)])
        assert same(target, wanted), (round_, kind)
    free(source, target)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("between", [0, 1])
def test_what_is_shown_stays_while_anybody_may_read_it(between):
    """PE 0 leaves the barrier of a call and fetches nothing until all others wait in the next call."""
    n, me = shmem.n_pes(), shmem.my_pe()
    pe = current()
    source, target, waiting = shmem.zeros(1, np.int64), shmem.zeros(n, np.int64), shmem.zeros(1, np.uint64)
    shmem.fcollect(target, source)
    for _ in range(between):
        shmem.barrier_all()
    ops = next(reversed(pe.plans.values())).records[pe.fabric.rounds(pe.members) & 1]
    meeting = [int(op) for op in ops["op"]].index(Op.BARRIER)
    source[0] = 100 + me
    if me:
        shmem.fcollect(target, source)
        source[0] = 200 + me
        with pytest.raises(shmem.ShmemTimeout):
            shmem.fcollect(target, source, timeout=0.01)
        shmem.signal_add(waiting, 1, 0)
    else:
        assert pe.fabric.submit(pe.fabric.inner, ops[: meeting + 1], 0, 20.0)[0] is Status.OK
        shmem.signal_wait_until(waiting, "==", n - 1)
        assert pe.fabric.submit(pe.fabric.inner, ops, meeting + 1)[0] is Status.OK
        assert target.tolist() == [100 + pe for pe in range(n)]
        source[0] = 200
    shmem.fcollect(target, source)
    assert target.tolist() == [200 + pe for pe in range(n)]
    free(source, target, waiting)


def test_barriers_between_keep_all_pes_in_step():
    """Calls that use no scratch memory in any number between those that do, on two teams at once."""
    n, me = shmem.n_pes(), shmem.my_pe()
    half = mine()
    source, target = shmem.zeros(2, np.int64), shmem.zeros(2 * n, np.int64)
    for round_ in range(60):
        for _ in range(round_ % 3):
            shmem.barrier_all()
        source[...] = me, round_
        busy(round_)
        shmem.fcollect(target, source)
        assert target.reshape(n, 2).tolist() == [[pe, round_] for pe in range(n)]
        if round_ % 4 == 3:
            shmem.sync(half)
        source[...] = -me, round_
        shmem.fcollect(target, source, team=half)
        assert target.reshape(n, 2)[: half.n_pes()].tolist() == [[-pe, round_] for pe in half.pes]
    half.destroy()
    shmem.barrier_all()
    free(source, target)


def test_a_freed_block_is_forgotten():
    """A plan made for a block does not serve another array at the same place."""
    n, me = shmem.n_pes(), shmem.my_pe()
    for dtype, size in ((np.int64, 6), (np.int32, 9), (np.float64, 6)):
        source, target = shmem.zeros(size, dtype), shmem.zeros(n * size, dtype)
        for round_ in range(3):
            source[...] = me + round_
            shmem.fcollect(target, source)
            assert target.tolist() == [pe + round_ for pe in range(n) for _ in range(size)]
        free(source, target)
        with pytest.raises(shmem.FreedBlock):
            shmem.fcollect(target, source)


def test_the_same_memory_as_another_type_or_size():
    """What is known of one call does not serve another on the same bytes."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = shmem.zeros(8, np.int64), shmem.zeros(8 * n, np.int64)
    for round_ in range(4):
        for dtype in (np.int64, np.float64, np.uint16, np.float32, np.complex64):
            what, to = source.view(dtype), target.view(dtype)
            what[...] = me + 1 + round_
            shmem.sum_reduce(to[: what.size], what)
            assert (to[: what.size] == sum(pe + 1 + round_ for pe in range(n))).all(), dtype
            shmem.max_reduce(what, what) if dtype != np.complex64 else shmem.broadcast(what, what, n - 1)
            assert (what == n + round_).all()
        for size in (1, 3, None, 8):
            source[...] = np.arange(8) + 100 * me + round_
            target[...] = -1
            shmem.barrier_all()
            shmem.fcollect(target, source, size)
            wanted = [i + 100 * pe + round_ for pe in range(n) for i in range(size or 8)]
            assert target.tolist() == wanted + [-1] * (8 * n - len(wanted))
    free(source, target)


def test_more_calls_than_are_remembered():
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = shmem.zeros(600, np.int64), shmem.zeros(n, np.int64)
    for round_ in range(2):
        source[...] = np.arange(600) * (me + 1) + round_
        for i in range(600):
            shmem.fcollect(target, source[i : i + 1])
            assert target.tolist() == [i * (pe + 1) + round_ for pe in range(n)]
    free(source, target)


def test_contexts_are_not_completed():
    """A collective completes nothing that the program has put."""
    source, target, other = shmem.zeros(1), shmem.zeros(shmem.n_pes()), shmem.zeros(1)
    fabric = current().fabric
    shmem.quiet()
    shmem.put(other, np.ones(1), shmem.my_pe())
    assert fabric.pending(0) == 1
    shmem.fcollect(target, source)
    shmem.sum_reduce(target[:1], source)
    assert fabric.pending(0) == 1
    shmem.quiet()
    free(source, target, other)
