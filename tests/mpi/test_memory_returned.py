"""The memory of a heap after finalize: readable as long as there is an array over it, and then given back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.views import address_of

from .data import everyone, rank, same, stop

pytestmark = pytest.mark.mpi
KEPT: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda x: x,
    "view of a view": lambda x: x[10:][5:].view(np.uint8)[3:9],
    "memoryview": lambda x: memoryview(x[4:8]),
    "transposed": lambda x: x.reshape(10, 10).T[1:3],
    "another dtype by way of a buffer": lambda x: np.frombuffer(memoryview(x), np.float32),
    "of a peer": lambda x: shmem.ptr(x, (shmem.my_pe() + 1) % shmem.n_pes()),
    "view of a peer": lambda x: shmem.ptr(x, (shmem.my_pe() + 1) % shmem.n_pes())[50:][2:4],
}


def files_at(address: int) -> set[str]:
    """The file, as device and number, whose page is mapped at an address; none if nothing is."""
    return {file for start, end, file in mappings() if start <= address < end}


def mappings() -> list[tuple[int, int, str]]:
    """Start, end and file of all mappings of this process."""
    with open("/proc/self/maps") as lines:
        fields = [line.split() for line in lines]
    return [(*(int(side, 16) for side in one[0].split("-")), f"{one[3]} {one[4]}") for one in fields]


@pytest.fixture
def restarted():
    """The job goes on with a heap as it was."""
    size = shmem.heap_stats().size
    yield
    shmem.init(heap_size=size)


@pytest.mark.core
@pytest.mark.parametrize("kind", KEPT)
def test_the_memory_goes_with_the_last_array(restarted, kind):
    x = shmem.array(np.arange(100) + 1000 * shmem.my_pe())
    base, own = shmem.runtime.current().heap.base, "peer" not in kind or shmem.n_pes() == 1
    shmem.barrier_all()
    kept = KEPT[kind](x)
    found, before = address_of(np.asarray(kept)), np.array(kept)
    (file,) = files_at(found)
    del x  # and not freed: free memory may be filled with something else
    stop()
    gc.collect()
    assert files_at(found) == {file}
    assert files_at(base) == ({file} if own else set())
    assert same(np.array(kept), before)
    del kept
    gc.collect()
    assert files_at(found) == files_at(base) == set()
    assert [one for one in mappings() if one[2] == file] == []  # and no other mapping keeps the pages


@pytest.mark.core
def test_a_heap_without_arrays_goes_at_finalize(restarted):
    heaps = []
    for round_ in range(4):
        x = shmem.full(1000, round_)
        heaps.append((shmem.runtime.current().heap.base, files_at(address_of(x))))
        shmem.free(x)
        del x
        stop()
        for base, files in heaps:
            assert files_at(base).isdisjoint(files)
            assert not [one for one in mappings() if {one[2]} == files]
        shmem.init(heap_size="1M")
        assert shmem.runtime.current().past == ()
    stop()


def test_only_what_is_there_was_allocated_before(restarted):
    """Memory of the program that lies where a heap was is just private."""
    x, word = shmem.zeros(4, np.int64), shmem.zeros(1, np.int64)
    other = x[1:]
    shmem.free(word)
    shmem.free(x)
    del x, word
    stop()
    shmem.init(heap_size="1M")
    with pytest.raises(shmem.NotSymmetric, match="was allocated before finalize"):
        shmem.put(other, np.zeros(3, np.int64), 0)
    (heap,) = shmem.runtime.current().past
    inside = address_of(other)
    assert shmem.views.from_before(shmem.runtime.current(), inside) is not None
    del other
    gc.collect()
    assert not heap.mapped
    assert shmem.views.from_before(shmem.runtime.current(), inside) is None
    stop()


def test_a_finalized_team_or_batch_keeps_nothing(restarted):
    """Handles of an ended job are no arrays."""
    team, ctx, lock = shmem.team_from_pes(range(shmem.n_pes())), shmem.ctx_create(), shmem.Lock()
    empty, stream = shmem.Batch(), shmem.Stream()
    empty.quiet()
    event = empty.launch(stream)
    x, y = shmem.zeros(8), shmem.zeros(8)
    for _ in range(3):
        shmem.sum_reduce(x, y)  # its plan knows the arrays
        shmem.sum_reduce(x, y, team=team)
    lock.acquire()
    lock.release()
    base, files = shmem.runtime.current().heap.base, files_at(address_of(x))
    stream.close()
    team.destroy()
    ctx.destroy()
    lock.destroy()
    shmem.free(y)
    shmem.free(x)
    del x, y
    stop()
    gc.collect()
    assert files_at(base).isdisjoint(files)
    assert event.done()
    assert not team
    assert not ctx
    assert rank() == everyone(rank())[rank()]
