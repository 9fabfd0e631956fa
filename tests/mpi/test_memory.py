"""Raw blocks and shmem4py's allocators: alignment, realloc, hints, arrays over blocks, signals, and what leaks say."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.runtime import current

from .data import DTYPES, Array, dtype_id, everyone, payload, peers, rank, same, stop

pytestmark = pytest.mark.mpi


def address(mem: memoryview | Array) -> int:
    return int(np.asarray(mem).__array_interface__["data"][0])


def offset(mem: memoryview | Array) -> int:
    return address(mem) - current().heap.base


def entered() -> int:
    """How many barriers of all PEs this PE has been in."""
    return current().fabric.entered(current().me, 0)


# -- align and hints -------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("alignment", [1, 8, 64, 128, 1024, 4096])
def test_align_aligns_on_every_pe(alignment):
    odd, block = shmem.malloc(3), shmem.align(alignment, 100)
    array = shmem.zeros(10, np.int16, align=alignment)
    assert (block.nbytes, block.format, block.readonly) == (100, "B", False)
    for mem in (block, array):
        assert address(mem) % alignment == 0
        assert everyone(offset(mem)) == [offset(mem)] * shmem.n_pes()
    target = np.frombuffer(block, np.uint8)
    shmem.put(target, payload(target.dtype, 100, shmem.my_pe()), (shmem.my_pe() + 1) % shmem.n_pes())
    shmem.barrier_all()
    assert same(target, payload(target.dtype, 100, (shmem.my_pe() - 1) % shmem.n_pes()))
    for mem in (array, block, odd):
        shmem.free(mem)


ALLOCATORS = {
    "empty": lambda **keywords: shmem.empty(9, np.int32, **keywords),
    "zeros": lambda **keywords: shmem.zeros(9, np.int32, **keywords),
    "ones": lambda **keywords: shmem.ones(9, np.int32, **keywords),
    "full": lambda **keywords: shmem.full(9, 3, np.int32, **keywords),
    "array": lambda **keywords: shmem.array(np.full(9, 4, np.int32), **keywords),
    "new_array": lambda **keywords: shmem.new_array(9, np.int32, **keywords),
    "alloc": lambda **keywords: shmem.alloc(9, 4, **keywords),
}
CONTENTS = {"zeros": 0, "ones": 1, "full": 3, "array": 4, "new_array": 0, "alloc": 0}


@pytest.mark.core
@pytest.mark.parametrize("hints", [None, 0, 1, 3, shmem.MALLOC_SIGNAL_REMOTE])
@pytest.mark.parametrize("name", ALLOCATORS)
def test_every_allocator_takes_align_and_hints(name, hints):
    odd, used = shmem.malloc(3), shmem.full(2000, 0x55, np.uint8)
    shmem.free(used)
    made = ALLOCATORS[name](align=512, hints=hints)
    assert address(made) % 512 == 0
    held = current().heap.allocation(offset(made))
    assert (held.align, held.hints, held.nbytes) == (512, int(hints or 0), 36)
    if name in CONTENTS:
        assert np.frombuffer(made, np.int32).tolist() == [CONTENTS[name]] * 9
    shmem.free(made)
    shmem.free(odd)


@pytest.mark.core
def test_malloc_with_hints():
    both = shmem.MALLOC_ATOMICS_REMOTE | shmem.MALLOC_SIGNAL_REMOTE
    blocks = [shmem.malloc_with_hints(64, hints) for hints in (0, both, shmem.MALLOC_ATOMICS_REMOTE, 2)]
    held = [current().heap.allocation(offset(block)).hints for block in blocks]
    assert held == [0, 3, 1, 2]
    word = np.frombuffer(blocks[1], np.int64)[:1]
    word[0] = 0
    shmem.barrier_all()
    shmem.atomic_add(word, shmem.my_pe() + 1, 0)
    shmem.barrier_all()
    assert shmem.g(word, 0) == sum(range(1, shmem.n_pes() + 1))
    shmem.barrier_all()
    for block in blocks:
        shmem.free(block)


WRONG = {
    "align 3": lambda: shmem.align(3, 8),
    "align 0": lambda: shmem.align(0, 8),
    "align -8": lambda: shmem.align(-8, 8),
    "align 8192": lambda: shmem.align(8192, 8),
    "align -1 bytes": lambda: shmem.align(64, -1),
    "zeros align 48": lambda: shmem.zeros(3, align=48),
    "hints 4": lambda: shmem.malloc_with_hints(8, 4),
    "hints -1": lambda: shmem.zeros(3, hints=-1),
    "hints of another kind": lambda: shmem.malloc_with_hints(8, shmem.SIGNAL_ADD),
    "hints as text": lambda: shmem.alloc(8, hints="atomics"),
    "alloc -1": lambda: shmem.alloc(-1),
    "alloc 1 of -1": lambda: shmem.alloc(1, -1),
    "malloc 1.5": lambda: shmem.malloc(1.5),
    "realloc -1": lambda: shmem.realloc(None, -1),
    "free of text": lambda: shmem.free("x"),
    "realloc of a list": lambda: shmem.realloc([1], 8),
    "order": lambda: shmem.new_array(3, order="K"),
}


@pytest.mark.core
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_allocate_nothing(case):
    before = shmem.heap_stats(), entered()
    with pytest.raises((shmem.ArgumentError, shmem.DtypeError)):
        WRONG[case]()
    assert (shmem.heap_stats(), entered()) == before


# -- nothing ---------------------------------------------------------------------------------------------


@pytest.mark.core
def test_nothing_of_malloc_and_its_like_is_none_without_a_barrier():
    before = entered(), shmem.heap_stats()
    for call in (
        lambda: shmem.malloc(0),
        lambda: shmem.calloc(0, 4),
        lambda: shmem.calloc(4, 0),
        lambda: shmem.malloc_with_hints(0, 1),
        lambda: shmem.align(64, 0),
        lambda: shmem.realloc(None, 0),
    ):
        assert call() is None
    shmem.free(None)
    assert (entered(), shmem.heap_stats()) == before


@pytest.mark.core
def test_empty_blocks_and_arrays_work_everywhere():
    """They take no memory, and every routine takes them."""
    before = shmem.heap_stats()
    block = shmem.alloc(0)
    assert (block.nbytes, shmem.heap_stats().live) == (0, before.live)
    made = [
        shmem.zeros(0), shmem.empty((0, 3)), shmem.ones((2, 0)), shmem.full(0, 7), shmem.array([]),
        shmem.new_array((4, 0), "i4", "F"), shmem.fromalloc(block), shmem.zeros(0, align=256, hints=1),
    ]  # fmt: skip
    for x in made:
        y = np.zeros(x.shape, x.dtype)
        for pe in peers():
            shmem.put(x, y, pe)
            shmem.get_nbi(y, x, pe)
            shmem.iput(x, y, pe, 2, 3)
            shmem.ibget(y, x, pe, 2, 2, 2, 0)
        assert shmem.heap_stats().blocks == before.blocks
    assert shmem.realloc(block, 0) is None
    for x in made:
        shmem.free(x)
    shmem.free(block)
    assert shmem.heap_stats().live == before.live


# -- realloc ---------------------------------------------------------------------------------------------

SIZES = [1, 64, 65, 100, 640, 10_000, 1_000_000]


@pytest.mark.core
@pytest.mark.parametrize("old", SIZES)
@pytest.mark.parametrize("new", SIZES)
def test_realloc_keeps_what_both_sizes_have(old, new):
    me, dtype = shmem.my_pe(), np.dtype(np.uint8)
    neighbour = shmem.full(64, 9, np.uint8)
    block = shmem.align(512, old)
    behind = shmem.full(64, 8, np.uint8)
    np.frombuffer(block, dtype)[...] = payload(dtype, old, me)
    grown = shmem.realloc(block, new)
    assert grown.nbytes == new
    assert address(grown) % 512 == 0
    kept = min(old, new)
    assert same(np.frombuffer(grown, dtype)[:kept], payload(dtype, old, me)[:kept])
    assert everyone(offset(grown)) == [offset(grown)] * shmem.n_pes()
    held = current().heap.allocation(offset(grown))
    assert (held.nbytes, shmem.heap_stats().blocks) == (new, 3)
    assert shmem.heap_stats().live == 128 + -(-new // 64) * 64
    target = np.frombuffer(grown, dtype)
    shmem.put(target, payload(dtype, new, me, 1), (me + 1) % shmem.n_pes())  # at once: no barrier of ours
    shmem.barrier_all()
    assert same(target, payload(dtype, new, (me - 1) % shmem.n_pes(), 1))
    assert (neighbour == 9).all()
    assert (behind == 8).all()
    for mem in (behind, grown, neighbour):
        shmem.free(mem)


def test_a_put_right_after_realloc_is_not_overwritten_by_the_copy():
    """Whoever comes out first writes to the last to come in, whose copy must be done by then."""
    n, me = shmem.n_pes(), shmem.my_pe()
    for round_ in range(30):
        block = shmem.malloc(200_000)
        np.frombuffer(block, np.uint8)[...] = 1
        behind = shmem.malloc(64)
        block = shmem.realloc(block, 400_000)
        words = np.frombuffer(block, np.uint8)
        shmem.put(words[100_000:150_000], np.full(50_000, 2 + round_, np.uint8), (me + 1) % n)
        shmem.barrier_all()
        assert (words[100_000:150_000] == 2 + round_).all()
        assert (words[:100_000] == 1).all()
        shmem.free(behind)
        shmem.free(block)


@pytest.mark.core
def test_realloc_of_none_is_malloc_and_to_nothing_is_free():
    block = shmem.realloc(None, 100)
    assert (block.nbytes, shmem.heap_stats().blocks) == (100, 1)
    block = shmem.realloc(shmem.realloc(block, 5000), 8)
    assert shmem.realloc(block, 0) is None
    assert shmem.heap_stats().blocks == 0
    block = shmem.realloc(shmem.alloc(0), 10)
    shmem.free(block)


def test_realloc_keeps_hints_and_takes_arrays():
    x = shmem.array(np.arange(5), hints=shmem.MALLOC_ATOMICS_REMOTE)
    spare = shmem.zeros(1)
    block = shmem.realloc(x, 4000)
    assert current().heap.allocation(offset(block)).hints == 1
    assert np.frombuffer(block, np.int64)[:5].tolist() == list(range(5))
    for stale in (lambda: shmem.put(x, np.arange(5), 0), lambda: shmem.realloc(x, 8), lambda: shmem.free(x)):
        with pytest.raises(shmem.FreedBlock):
            stale()
    block = shmem.realloc(block, 16)
    assert current().heap.allocation(offset(block)).hints == 1
    with pytest.raises(shmem.FreedBlock):
        shmem.put(beyond(block), np.zeros(8, np.uint8), 0)
    shmem.free(block)
    shmem.free(spare)


def beyond(block: memoryview) -> Array:
    """Bytes of the heap that a block had before it became smaller."""
    start = offset(block) + 64
    return current().heap.memory[start : start + 8]


def test_realloc_that_does_not_fit_leaves_the_block():
    n, me = shmem.n_pes(), shmem.my_pe()
    block = shmem.malloc(1000)
    words = np.frombuffer(block, np.uint8)
    words[...] = me
    size = shmem.heap_stats().size
    with pytest.raises(shmem.HeapExhausted) as caught:
        shmem.realloc(block, size)
    assert caught.value.asked == size
    shmem.put(words[:10], np.full(10, 200, np.uint8), (me + 1) % n)
    shmem.barrier_all()
    assert words.tolist() == [200] * 10 + [me] * 990
    rest = shmem.malloc(shmem.heap_stats().largest_free)
    block = shmem.realloc(block, 10)  # needs no room
    assert bytes(block) == b"\xc8" * 10
    shmem.free(rest)
    shmem.free(block)


@pytest.mark.mpi(min_size=2)
def test_differing_calls_raise_on_every_pe():
    n, odd = shmem.n_pes(), shmem.my_pe() == shmem.n_pes() - 1
    x, y = shmem.malloc(100), shmem.malloc(100)
    before = shmem.heap_stats()
    for usual, other, says, other_says in (
        (lambda: shmem.realloc(x, 300), lambda: shmem.realloc(x, 301), "300", "301"),
        (lambda: shmem.realloc(x, 300), lambda: shmem.realloc(y, 300), "block at", "block at"),
        (lambda: shmem.realloc(x, 300), lambda: shmem.realloc(None, 300), "block at", "None"),
        (lambda: shmem.realloc(x, 0), lambda: shmem.realloc(x, 1), "free(", "realloc("),
        (lambda: shmem.align(64, 8), lambda: shmem.align(128, 8), "align(64, 8)", "align(128, 8)"),
        (lambda: shmem.zeros(8), lambda: shmem.zeros(8, align=128), "float64)", "align=128)"),
        (lambda: shmem.zeros(8), lambda: shmem.zeros(8, hints=1), "float64)", "hints=1)"),
        (lambda: shmem.new_array(8), lambda: shmem.new_array(8, clear=False), "new_array(", "without clear("),
        (lambda: shmem.alloc(8), lambda: shmem.alloc(8, clear=False), "alloc(8, 1)", "clear=False"),
        (lambda: shmem.malloc_with_hints(8, 1), lambda: shmem.malloc(8), "with_hints(8, 1)", "malloc(8)"),
    ):
        with pytest.raises(shmem.SymmetryError) as caught:
            (other if odd else usual)()
        for pe, call in caught.value.calls.items():
            assert (other_says if pe == n - 1 else says) in call
        assert shmem.heap_stats() == before
    shmem.free(y)
    shmem.free(x)


# -- shmem4py's allocators -------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.usefixtures("fresh_heap")
@pytest.mark.parametrize("clear", [True, False])
def test_alloc_gives_bytes(clear):
    used = shmem.full(5000, 0x77, np.uint8)
    rest = shmem.malloc(shmem.heap_stats().largest_free)
    shmem.free(used)
    block = shmem.alloc(10, 12, clear=clear)
    assert (type(block), block.nbytes, block.readonly) == (memoryview, 120, False)
    assert bytes(block) == (bytes(120) if clear else b"\xdb" * 120)
    shmem.free(block)
    array = shmem.new_array((3, 5), np.int64, clear=clear)
    assert (array.view(np.uint8) == (0 if clear else 0xDB)).all()
    shmem.del_array(array)
    shmem.free(rest)


@pytest.mark.core
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_fromalloc_shares_the_block(dtype, order):
    n, me = shmem.n_pes(), shmem.my_pe()
    block = shmem.alloc(6, dtype.itemsize)
    flat, table = shmem.fromalloc(block, dtype=dtype), shmem.fromalloc(block, (2, 3), dtype, order)
    assert (flat.shape, flat.dtype, table.shape, table.dtype) == ((6,), dtype, (2, 3), dtype)
    assert (table.flags.c_contiguous, table.flags.f_contiguous) == (order == "C", order == "F")
    shmem.put(flat, payload(dtype, 6, me), (me + 1) % n)
    shmem.barrier_all()
    came = payload(dtype, 6, (me - 1) % n)
    assert same(table, came.reshape((2, 3), order=order))
    assert same(np.frombuffer(block, dtype), came)
    shmem.free(table)
    assert shmem.heap_stats().blocks == 0


def test_fromalloc_refuses_what_does_not_fit():
    block = shmem.alloc(48)
    assert shmem.fromalloc(block).dtype == np.float64
    for error, call in (
        (shmem.SizeMismatch, lambda: shmem.fromalloc(block, 5)),
        (shmem.SizeMismatch, lambda: shmem.fromalloc(block, 7)),
        (shmem.SizeMismatch, lambda: shmem.fromalloc(block, dtype="S5")),
        (shmem.NotSymmetric, lambda: shmem.fromalloc(memoryview(bytearray(48)))),
        (shmem.DtypeError, lambda: shmem.fromalloc(bytes(48))),
        (shmem.DtypeError, lambda: shmem.fromalloc(block, dtype=object)),
        (shmem.ArgumentError, lambda: shmem.fromalloc(block, order="K")),
        (shmem.DtypeError, lambda: shmem.del_array(block)),
    ):
        with pytest.raises(error):
            call()
    shmem.free(block)
    with pytest.raises(shmem.FreedBlock):
        shmem.fromalloc(block)


@pytest.mark.core
def test_array_keeps_the_order_of_its_source():
    table = np.arange(12).reshape(3, 4)
    for given, order, fortran in (
        (table, "K", False), (table.T, "K", True), (table.T, "A", True), (table.T, "C", False), (table, "F", True),
        (table[:, ::2], "K", False), (table[0], "K", False), ([[1, 2], [3, 4]], "K", False),
    ):  # fmt: skip
        x = shmem.array(given, order=order)
        assert x.tolist() == np.asarray(given).tolist()
        assert x.flags.fnc == fortran
        shmem.free(x)
    x = shmem.array(table.T)
    assert x.flags.fnc
    shmem.free(x)


@pytest.mark.core
def test_transfers_of_fortran_order_go_through_the_transpose():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, given = shmem.zeros((3, 4), np.int32, "F"), np.asfortranarray(payload(np.dtype("i4"), 12, me).reshape(3, 4))
    with pytest.raises(shmem.LayoutError):
        shmem.put(x, given, n - 1)
    shmem.put(x.T, given.T, (me + 1) % n)
    shmem.barrier_all()
    assert x.tolist() == payload(np.dtype("i4"), 12, (me - 1) % n).reshape(3, 4).tolist()
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_arrays_without_dimensions(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((), dtype)
    got, given = np.zeros((), dtype), payload(dtype, 1, me).reshape(())
    assert (x.shape, x.ndim) == ((), 0)
    shmem.put(x, given, (me + 1) % n)
    shmem.barrier_all()
    came = payload(dtype, 1, (me - 1) % n).reshape(())
    assert same(x, came)
    shmem.get(got, x, (me + 1) % n)
    assert same(got, given)
    shmem.barrier_all()
    shmem.iput(x, given, me)
    shmem.p(x, given[()], me)
    assert same(x, given)
    assert same(np.asarray(shmem.g(x, me), dtype), given)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_signals_as_objects():
    n, me = shmem.n_pes(), shmem.my_pe()
    signal, data = shmem.new_signal(), shmem.zeros(4, np.int32)
    assert (signal.shape, signal.dtype, int(signal[0])) == ((1,), np.uint64, 0)
    assert current().heap.allocation(offset(signal)).hints == shmem.MALLOC_SIGNAL_REMOTE
    shmem.barrier_all()
    shmem.put_signal(data, np.full(4, me, np.int32), (me + 1) % n, signal, 5, shmem.SIGNAL_SET)
    assert shmem.signal_wait_until(signal, "==", 5) == 5
    assert (data == (me - 1) % n).all()
    with pytest.raises(shmem.DtypeError):
        shmem.del_signal(data)
    assert shmem.del_signal(signal) is None
    with pytest.raises(shmem.FreedBlock):
        shmem.signal_fetch(signal)
    shmem.free(data)


# -- leaks -----------------------------------------------------------------------------------------------


def test_leaks_are_told_with_shape_and_line(capfd):
    made = [
        shmem.new_array((3, 4), np.int16, order="F"), shmem.alloc(7, 11), shmem.new_signal(),
        shmem.malloc_with_hints(9, 1), shmem.align(256, 33), shmem.realloc(shmem.malloc(5), 70), shmem.zeros(0),
    ]  # fmt: skip
    capfd.readouterr()
    stop()
    try:
        told = everyone(capfd.readouterr().err)
        assert not any(told[1:])
        assert "6 symmetric allocations were not freed" in told[0]
        for text in (
            "new_array((3, 4), int16, order='F')", "alloc(7, 11)", "new_signal((1,), uint64, hints=2)",
            "malloc_with_hints(9, 1)", "align(256, 33)", "realloc(70)",
        ):  # fmt: skip
            assert f"\n  {text} at {__file__}:" in told[0], text
        assert len(made) == 7
        assert rank() < len(told)
    finally:
        shmem.init()


def test_equal_leaks_are_one_line_and_the_list_is_short(capfd):
    made = [shmem.zeros(3, np.uint8) for _ in range(30)]
    made += [shmem.zeros(n, np.int32) for n in range(1, 26)]
    capfd.readouterr()
    stop()
    try:
        told = everyone(capfd.readouterr().err)[0].splitlines()
        assert told[0] == "PE 0: 55 symmetric allocations were not freed:"
        assert told[1].startswith(f"  30 x zeros((3,), uint8) at {__file__}:")
        assert [line.split(" at ")[0] for line in told[2:20]] == [f"  zeros(({n},), int32)" for n in range(1, 19)]
        assert told[20:] == ["  and 7 more"]
        assert len(made) == 55
    finally:
        shmem.init()
