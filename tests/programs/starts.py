"""Starts in the way its first argument names, and prints what it found, one line a PE."""

from __future__ import annotations

import resource
import sys

import numpy as np

import shmem


def resident_mib() -> int:
    """Most memory that this process has had at a time, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def sizes() -> str:
    return f"{shmem.my_pe()} of {shmem.n_pes()}, heap {shmem.heap_stats().size}"


def untouched() -> str:
    """A large heap, most of it allocated as zeros, of which only a few pages are looked at."""
    shmem.init()
    shmem.free(shmem.zeros(8))
    before = resident_mib()
    x = shmem.zeros(900 << 20, np.uint8)
    y = shmem.empty(100 << 20, np.uint8)
    assert not x[:: 64 << 20].any()
    return f"{(x.nbytes + y.nbytes) >> 20} MiB cost {'little' if resident_mib() - before < 32 else 'much'}"


def mpi_first() -> str:
    from mpi4py import MPI

    MPI.COMM_WORLD.Barrier()
    assert MPI.COMM_WORLD.rank == shmem.my_pe()
    shmem.barrier_all()
    return sizes()


def twice() -> str:
    shmem.init(heap_size="2M")
    first = shmem.heap_stats().size
    old = shmem.full(10, shmem.my_pe())
    shmem.finalize()
    shmem.init(heap_size=3 << 20)
    assert (old == shmem.my_pe()).all()
    return f"{first} then {shmem.heap_stats().size}"


class Late:
    """Looks at its array when Python has ended nearly everything."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __del__(self) -> None:
        self.array[0] += 1


def outlives() -> str:
    global late
    late = Late(shmem.zeros(1000))
    shmem.finalize()
    late.array[:] = 5
    return f"sum {late.array.sum():.0f}"


def forgets() -> str:
    """What ends the program ends shmem: nobody calls finalize."""
    shmem.zeros(2000)
    return "over"


def pending() -> str:
    """The last PE's batch waits for a word that PE 0 sets only now, and the program ends."""
    n, me = shmem.n_pes(), shmem.my_pe()
    word, data, signal = shmem.zeros(1, np.int64), shmem.zeros(1 << 20, np.int64), shmem.zeros(1, np.uint64)
    if me == n - 1:
        batch = shmem.Batch()
        batch.wait(word, "==", 1)
        batch.put(data, np.full(1 << 20, 7), 0)
        batch.signal(signal, shmem.SIGNAL_SET, 1, 0)
        batch.launch(shmem.Stream())
    if me == 0:
        shmem.p(word, 1, n - 1)
        if n > 1:
            shmem.signal_wait_until(signal, "==", 1)
            assert (data == 7).all()
    return "over"


def fails_late() -> str:
    """A batch that nobody waits for, and that can't end well."""
    word = shmem.zeros(1, np.int64)
    batch = shmem.Batch()
    batch.wait(word, "==", 1)
    batch.launch(shmem.Stream(), timeout=0.1)
    return "over"


def unchecked() -> str:
    x = shmem.zeros((2, 5) if shmem.my_pe() else (5, 2))
    shmem.barrier_all() if shmem.my_pe() else shmem.sync_all()
    return f"shape {x.shape}"


def poison() -> str:
    x = shmem.full(8, 7, np.uint8)
    shmem.free(x)
    return f"freed {x[0]:#x}"


def no_use() -> str:
    return "only imported"


WAYS = [sizes, untouched, mpi_first, twice, outlives, forgets, pending, fails_late, unchecked, poison, no_use]
sys.stdout.write({way.__name__: way for way in WAYS}[sys.argv[1]]() + "\n")  # in one piece
