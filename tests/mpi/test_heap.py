"""The symmetric heap: collective allocation, its errors on every PE, reuse, poison and zeroed memory."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem import arrays

from .data import DTYPES, Array, dtype_id, everyone, payload, peers, same

pytestmark = pytest.mark.mpi


def offset(array: Array) -> int:
    """Where an array begins in the own heap."""
    return int(array.__array_interface__["data"][0]) - shmem.runtime.current().heap.base


def fill_up(leave: int) -> Array:
    """Takes the whole of the heap but for `leave` bytes; touches none of it."""
    return shmem.empty(shmem.heap_stats().largest_free - leave, np.uint8)


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_allocators_give_arrays_of_every_dtype(dtype):
    zeros, empty = shmem.zeros((3, 4), dtype), shmem.empty(5, dtype)
    given = payload(dtype, 6, shmem.my_pe()).reshape(2, 3)
    array = shmem.array(given)
    full = shmem.full((2, 2), given[0, 0], dtype)
    assert same(zeros, np.zeros((3, 4), dtype))
    assert (empty.shape, empty.dtype) == ((5,), dtype)
    assert same(array, given)
    assert same(full, np.full((2, 2), given[0, 0], dtype))
    for made in (full, array, empty, zeros):
        assert shmem.addr_accessible(made, 0)
        shmem.free(made)


@pytest.mark.core
def test_ones_and_defaults():
    ones, zeros, empty = shmem.ones((2, 3), np.int16), shmem.zeros(2), shmem.empty((1, 2))
    full = shmem.full(3, 7)
    assert same(ones, np.ones((2, 3), np.int16))
    assert (zeros.dtype, empty.dtype, full.dtype) == (np.float64, np.float64, np.full(3, 7).dtype)
    assert full.tolist() == [7, 7, 7]
    for made in (ones, zeros, empty, full):
        shmem.free(made)


# name: (the call on a PE, what it fills the memory with)
FILLED = {
    "full": (lambda pe: shmem.full(500, pe, np.int64), lambda pe: np.full(500, pe)),
    "ones": (lambda pe: shmem.ones(500, np.int64), lambda pe: np.ones(500, np.int64)),
    "array": (lambda pe: shmem.array(np.arange(500) + pe), lambda pe: np.arange(500) + pe),
    "zeros": (lambda pe: shmem.zeros(500, np.int64), lambda pe: np.zeros(500, np.int64)),
}


@pytest.mark.parametrize("name", ["full", "ones", "array"])
def test_nobody_returns_before_all_have_filled(name, monkeypatch):
    """The last thing is the barrier, and by then the own block is filled. From inside, since a race would be luck."""
    made, met = [], []
    make, collective = arrays.make, arrays.collective
    monkeypatch.setattr(arrays, "make", lambda *given, **more: made.append(make(*given, **more)) or made[-1])
    monkeypatch.setattr(arrays, "collective", lambda *given: met.append(made[-1].tolist()) or collective(*given))
    call = {"full": lambda: shmem.full(5, 1), "ones": lambda: shmem.ones(5, int), "array": lambda: shmem.array([1] * 5)}
    x = call[name]()
    assert met == [[1] * 5]
    shmem.free(x)


@pytest.mark.parametrize("name", FILLED)
def test_contents_are_there_on_every_pe_when_the_call_returns(name):
    """Whoever comes first gets the others' at once; later it would be there in any case."""
    make, contents = FILLED[name]
    for _ in range(20):
        x = make(shmem.my_pe())
        got = np.empty((shmem.n_pes(), 500), np.int64)
        for pe in reversed(peers()):
            shmem.get(got[pe], x, pe)
        assert same(got, np.stack([contents(pe) for pe in range(shmem.n_pes())]))
        shmem.free(x)


@pytest.mark.core
def test_malloc_and_calloc_give_bytes():
    raw, clear = shmem.malloc(100), shmem.calloc(7, 11)
    assert (len(raw), raw.format, raw.readonly) == (100, "B", False)
    assert bytes(clear) == bytes(77)
    there = np.frombuffer(raw, np.uint8)
    for pe in peers():
        shmem.put(there[shmem.my_pe() : shmem.my_pe() + 1], np.array([shmem.my_pe() + 1], np.uint8), pe)
    shmem.barrier_all()
    assert there[: shmem.n_pes()].tolist() == list(range(1, shmem.n_pes() + 1))
    shmem.free(raw)
    shmem.free(clear)


@pytest.mark.parametrize("order", ["C", "F"])
def test_order_is_kept(order):
    x = shmem.zeros((3, 5), np.int32, order=order)
    assert x.flags.c_contiguous == (order == "C")
    assert x.flags.f_contiguous == (order == "F")
    shmem.free(x)


def test_nothing_is_allocated_for_nothing():
    assert shmem.malloc(0) is None
    assert shmem.calloc(0, 8) is None
    assert shmem.calloc(8, 0) is None
    before = shmem.heap_stats()
    empty = shmem.zeros((0, 3), np.int32)
    assert (empty.shape, empty.dtype) == ((0, 3), np.int32)
    assert shmem.heap_stats().live == before.live
    shmem.free(empty)
    shmem.free(None)


@pytest.mark.parametrize("dtype", [object, np.dtype("S0"), np.dtype([("a", object)])], ids=str)
def test_elements_of_no_fixed_size_are_refused(dtype):
    for call in (shmem.zeros, shmem.empty):
        with pytest.raises(shmem.DtypeError):
            call(3, dtype)
    with pytest.raises(TypeError):
        shmem.array([object()])


def test_wrong_sizes_are_refused_and_allocate_nothing():
    before = shmem.heap_stats()
    for call in (
        lambda: shmem.malloc(-1),
        lambda: shmem.calloc(-1, 4),
        lambda: shmem.calloc(4, -1),
        lambda: shmem.zeros((2, -3)),
        lambda: shmem.zeros(3, order="K"),
    ):
        with pytest.raises(shmem.ArgumentError):
            call()
    assert shmem.heap_stats() == before


def test_blocks_begin_at_cache_lines_and_alike_on_all_pes():
    blocks = [shmem.empty(n, np.uint8) for n in (1, 63, 64, 65, 4096, 3)]
    starts = [offset(block) for block in blocks]
    assert all(start % 64 == 0 for start in starts)
    assert len(set(starts)) == len(starts)
    assert everyone(starts) == [starts] * shmem.n_pes()
    for block in blocks:
        shmem.free(block)


@pytest.mark.core
def test_stats_count_live_and_peak():
    before = shmem.heap_stats()
    assert (before.live, before.blocks, before.size) == (0, 0, 64 << 20)
    x, y = shmem.zeros(1000, np.uint8), shmem.zeros(100, np.uint8)
    both = shmem.heap_stats()
    assert (both.live, both.blocks) == (1024 + 128, 2)
    assert both.peak == max(before.peak, 1024 + 128)
    shmem.free(x)
    assert (shmem.heap_stats().live, shmem.heap_stats().blocks) == (128, 1)
    assert shmem.heap_stats().peak == both.peak
    shmem.free(y)
    after = shmem.heap_stats()
    assert (after.live, after.blocks, after.largest_free) == (0, 0, after.size)


# -- free ------------------------------------------------------------------------------------------------


def test_double_free_and_foreign_free_raise_on_every_pe():
    x, y = shmem.zeros(10), shmem.zeros((4, 4))
    row = y[1:]
    shmem.free(x)
    with pytest.raises(shmem.FreedBlock):
        shmem.free(x)
    with pytest.raises(KeyError):
        shmem.free(x)
    with pytest.raises(shmem.FreedBlock):
        shmem.free(row)
    with pytest.raises(shmem.NotSymmetric):
        shmem.free(np.zeros(3))
    assert shmem.heap_stats().blocks == 1
    shmem.free(y[:1])  # begins where the block begins
    assert shmem.heap_stats().blocks == 0


def test_freed_memory_is_refused_and_poisoned():
    x, flag = shmem.full(100, 7, np.uint8), shmem.zeros(1, np.int64)
    stale, other = x[10:20], np.zeros(10, np.uint8)
    shmem.free(x)
    assert (stale == 0xDB).all()
    for call in (
        lambda: shmem.put(stale, other, 0),
        lambda: shmem.get(other, stale, 0),
        lambda: shmem.put(stale[::2], other[:5], 0),
        lambda: shmem.atomic_inc(x[:8].view(np.int64), 0),
        lambda: shmem.wait_until(x[:8].view(np.int64), "!=", 0),
        lambda: shmem.p(x[:1], 1, 0),
        lambda: shmem.g(x[:1], 0),
        lambda: shmem.ptr(x, 0),
    ):
        with pytest.raises(shmem.FreedBlock):
            call()
    assert (stale == 0xDB).all()
    shmem.free(flag)


@pytest.mark.usefixtures("fresh_heap")
def test_freed_block_is_reused_last():
    size = 1 << 16
    filler = fill_up(leave=4 * size)
    first, second = shmem.empty(size, np.uint8), shmem.empty(size, np.uint8)
    a, b = offset(first), offset(second)
    shmem.free(second)
    shmem.free(first)
    taken = [shmem.empty(size, np.uint8) for _ in range(4)]
    places = [offset(block) for block in taken]
    assert set(places[:2]).isdisjoint({a, b})  # never used memory first
    assert places[2:] == [b, a]  # then what was freed first
    assert everyone(places) == [places] * shmem.n_pes()
    for block in (filler, *taken):
        shmem.free(block)


def test_free_merges_neighbours():
    whole = shmem.heap_stats().largest_free
    blocks = [shmem.empty(whole // 4, np.uint8) for _ in range(4)]
    for i in (2, 0, 3, 1):
        shmem.free(blocks[i])
    assert shmem.heap_stats().largest_free == whole
    shmem.free(shmem.empty(whole, np.uint8))


# -- zeroed memory ---------------------------------------------------------------------------------------


ZEROED = {
    "zeros": lambda nbytes: shmem.zeros(nbytes, np.uint8),
    "calloc": lambda nbytes: np.frombuffer(shmem.calloc(nbytes, 1), np.uint8),
}


@pytest.mark.parametrize("name", ZEROED)
def test_reused_memory_is_zero_before_anybody_can_put_into_it(name):
    """The fastest PE puts at once; a PE that zeroed after that would wipe what has arrived."""
    n, size = shmem.n_pes(), 1 << 16
    filler = fill_up(leave=size)
    wanted = np.zeros(size, np.uint8)
    marks = np.arange(n) * 64
    wanted[marks] = np.arange(n) + 1
    mine = np.array([shmem.my_pe() + 1], np.uint8)
    for _ in range(20):
        dirty = shmem.full(size, 0xFF, np.uint8)
        shmem.free(dirty)
        x = ZEROED[name](size)
        for pe in peers():
            shmem.put(x[marks[shmem.my_pe()] :], mine, pe)
        shmem.barrier_all()
        assert offset(x) == offset(dirty)
        assert same(x, wanted)
        shmem.free(x)
    shmem.free(filler)


# -- exhaustion ------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.usefixtures("fresh_heap")
def test_exhaustion_raises_on_every_pe_and_the_heap_stays_usable():
    x = shmem.zeros(1000, np.uint8)
    before = shmem.heap_stats()
    asked = before.size + 1
    for call in (lambda: shmem.zeros(asked, np.uint8), lambda: shmem.malloc(asked), lambda: shmem.calloc(asked, 1)):
        with pytest.raises(shmem.HeapExhausted) as caught:
            call()
        error = caught.value
        assert isinstance(error, MemoryError)
        assert (error.asked, error.free, error.largest_free) == (asked, before.size - 1024, before.largest_free)
        assert str(asked) in str(error)
        assert "SHMEMU_HEAP_SIZE" in str(error)
    assert shmem.heap_stats() == before
    rest = shmem.empty(before.largest_free, np.uint8)
    with pytest.raises(shmem.HeapExhausted) as caught:
        shmem.malloc(1)
    assert (caught.value.free, caught.value.largest_free) == (0, 0)
    shmem.free(rest)
    shmem.free(x)
    shmem.free(shmem.ones(10))


def test_huge_sizes_exhaust_and_never_wrap():
    for shape in (1 << 62, (1 << 40, 1 << 40), 1 << 100):
        with pytest.raises((shmem.HeapExhausted, shmem.ArgumentError)):
            shmem.zeros(shape, np.uint8)
    assert shmem.heap_stats().blocks == 0


@pytest.mark.usefixtures("fresh_heap")
def test_fragments_tell_the_largest_piece():
    blocks = [shmem.empty(1 << 20, np.uint8) for _ in range(64)]
    for block in blocks[::2]:
        shmem.free(block)
    with pytest.raises(shmem.HeapExhausted) as caught:
        shmem.malloc(2 << 20)
    assert (caught.value.free, caught.value.largest_free) == (32 << 20, 1 << 20)
    for block in blocks[1::2]:
        shmem.free(block)


# -- calls that differ between PEs -----------------------------------------------------------------------

ODD_ONE_OUT = {
    "size": (lambda: shmem.zeros(10), lambda: shmem.zeros(11), "zeros((10,), float64)", "zeros((11,), float64)"),
    "dtype": (lambda: shmem.zeros(10, "i4"), lambda: shmem.zeros(10, "f4"), "int32", "float32"),
    "shape": (lambda: shmem.zeros((2, 5)), lambda: shmem.zeros((5, 2)), "(2, 5)", "(5, 2)"),
    "order": (lambda: shmem.zeros((2, 5)), lambda: shmem.zeros((2, 5), order="F"), "zeros", "order='F'"),
    "function": (lambda: shmem.zeros(10), lambda: shmem.empty(10), "zeros", "empty"),
    "malloc": (lambda: shmem.malloc(64), lambda: shmem.malloc(65), "malloc(64)", "malloc(65)"),
    "calloc": (lambda: shmem.calloc(8, 8), lambda: shmem.calloc(4, 16), "calloc(8, 8)", "calloc(4, 16)"),
    "array": (lambda: shmem.array([1, 2]), lambda: shmem.array([1, 2, 3]), "(2,)", "(3,)"),
    "barrier": (lambda: shmem.barrier_all(), lambda: shmem.zeros(3), "barrier_all()", "zeros((3,), float64)"),
    "sync": (lambda: shmem.sync_all(), lambda: shmem.barrier_all(), "sync_all()", "barrier_all()"),
    "team": (lambda: shmem.sync(), lambda: shmem.barrier(), "sync()", "barrier()"),
    "empty": (lambda: shmem.zeros(0), lambda: shmem.zeros(1), "(0,)", "(1,)"),
}


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("case", ODD_ONE_OUT)
@pytest.mark.parametrize("who", ["first", "last"])
def test_differing_calls_raise_on_every_pe_naming_each_call(case, who):
    usual, other, says, other_says = ODD_ONE_OUT[case]
    n = shmem.n_pes()
    odd = 0 if who == "first" else n - 1
    before = shmem.heap_stats()
    with pytest.raises(shmem.SymmetryError) as caught:
        (other if shmem.my_pe() == odd else usual)()
    error = caught.value
    assert set(error.calls) == set(range(n))
    for pe, call in error.calls.items():
        assert (other_says if pe == odd else says) in call
        assert f"PE {pe}: {call}" in str(error)
    assert error.pe == shmem.my_pe()
    assert everyone(error.calls) == [error.calls] * n
    assert shmem.heap_stats() == before
    shmem.barrier_all()
    shmem.free(shmem.zeros(10))


@pytest.mark.mpi(min_size=2)
def test_frees_of_different_blocks_raise_and_free_nothing():
    x, y = shmem.zeros(10), shmem.zeros(10)
    with pytest.raises(shmem.SymmetryError) as caught:
        shmem.free(y if shmem.my_pe() == 1 else x)
    assert caught.value.calls[0] != caught.value.calls[1]
    assert shmem.heap_stats().blocks == 2
    with pytest.raises(shmem.SymmetryError):
        shmem.free(np.zeros(3) if shmem.my_pe() == 1 else x)
    assert shmem.heap_stats().blocks == 2
    shmem.free(y)
    shmem.free(x)


@pytest.mark.mpi(min_size=3)
def test_every_pe_may_differ():
    with pytest.raises(shmem.SymmetryError) as caught:
        shmem.zeros(shmem.my_pe() + 1)
    assert caught.value.calls == {pe: f"zeros(({pe + 1},), float64)" for pe in range(shmem.n_pes())}
