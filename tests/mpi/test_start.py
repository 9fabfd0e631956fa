"""Start, stop and queries: who am I, how many are we, what is reachable, what is left after the end."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import shmem

from .data import everyone, peers, rank, same, stop

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_numbers_are_those_of_the_job(cell):
    from mpi4py import MPI

    assert shmem.n_pes() == cell.pes == MPI.COMM_WORLD.size
    assert shmem.my_pe() == MPI.COMM_WORLD.rank
    assert everyone(shmem.my_pe()) == list(range(cell.pes))


@pytest.mark.core
def test_every_pe_is_accessible_and_no_other_number():
    n = shmem.n_pes()
    assert [shmem.pe_accessible(pe) for pe in range(n)] == [True] * n
    assert not any(shmem.pe_accessible(pe) for pe in (-1, n, n + 1, 1 << 40))


@pytest.mark.core
def test_symmetric_memory_is_accessible_and_private_is_not():
    x = shmem.zeros((4, 5))
    for pe in peers():
        assert shmem.addr_accessible(x, pe)
        assert shmem.addr_accessible(x[2, 3:4], pe)
        assert not shmem.addr_accessible(np.zeros(3), pe)
    assert not shmem.addr_accessible(x, shmem.n_pes())
    stale = x[:]
    shmem.free(x)
    assert not shmem.addr_accessible(stale, 0)


@pytest.mark.core
def test_version_and_name():
    assert shmem.info_get_version() == (1, 6) == (shmem.MAJOR_VERSION, shmem.MINOR_VERSION)
    assert shmem.info_get_name() == shmem.VENDOR_STRING
    assert isinstance(shmem.info_get_name(), str)


@pytest.mark.core
def test_init_nests():
    assert shmem.my_pe() == rank()  # the job has started shmem, whichever test comes first
    shmem.init()
    shmem.init(heap_size="1G")  # the arguments of the first count
    for wrong in ({"fabric": "pigeon"}, {"heap_size": 0}, {"heap_size": "much"}):
        with pytest.raises(shmem.ArgumentError):
            shmem.init(**wrong)
    assert shmem.initialized()
    assert shmem.query_initialized()
    size = shmem.heap_stats().size
    shmem.finalize()
    shmem.finalize()
    assert shmem.initialized()
    assert shmem.heap_stats().size == size == 64 << 20


def test_end_and_new_start(capfd):
    """One test, since what it ends the other tests of the job use: it starts that again."""
    old = shmem.full(1000, shmem.my_pe(), np.int32)
    stop()
    try:
        told = everyone(capfd.readouterr().err)
        assert "1 symmetric allocation was not freed:" in told[0]
        assert "full((1000,), int32) at " in told[0]
        assert "test_start.py:" in told[0]
        assert not shmem.query_initialized()
        assert (old == rank()).all()  # stays readable
        for call in (shmem.my_pe, shmem.n_pes, shmem.barrier_all, shmem.sync_all, shmem.quiet, shmem.heap_stats):
            with pytest.raises(shmem.StateError, match="finalised"):
                call()
        for call in (lambda: shmem.put(old, old, 0), lambda: shmem.atomic_inc(old[:1], 0), lambda: shmem.zeros(3)):
            with pytest.raises(shmem.StateError):
                call()
    finally:
        shmem.init()
    assert shmem.heap_stats().blocks == 0
    x = shmem.zeros(shmem.n_pes(), np.int64)
    for pe in peers():
        shmem.p(x[rank() : rank() + 1], rank() + 1, pe)
    shmem.barrier_all()
    assert same(x, np.arange(1, shmem.n_pes() + 1))
    assert (old == rank()).all()
    shmem.free(x)


def test_wrong_arguments_of_init():
    size = shmem.heap_stats().size
    stop()
    try:
        for wrong in ({"fabric": "pigeon"}, {"heap_size": 0}, {"heap_size": -1}, {"heap_size": "much"}):
            with pytest.raises(shmem.ArgumentError):
                shmem.init(**wrong)
            assert not shmem.initialized()
    finally:
        shmem.init(heap_size=f"{size >> 10}k")
    assert shmem.heap_stats().size == size


@pytest.mark.mpi(min_size=2)
def test_pes_that_start_differently_are_told():
    size = shmem.heap_stats().size
    stop()
    try:
        with pytest.raises(shmem.SymmetryError) as caught:
            shmem.init(heap_size=size + (4096 if rank() == 1 else 0))
        assert set(caught.value.calls) == set(range(len(everyone(0))))
        assert [pe for pe, call in caught.value.calls.items() if str(size + 4096) in call] == [1]
        assert not shmem.initialized()
    finally:
        shmem.init()
    assert shmem.heap_stats().size == size


def test_an_exit_status_that_is_no_integer_is_refused():
    for wrong in ("x", None, 1.5):
        with pytest.raises(shmem.ArgumentError, match="the status is an integer"):
            shmem.global_exit(wrong)
    assert shmem.initialized()


def test_an_array_from_before_finalize_says_so():
    old, older = shmem.zeros(4, np.int64), []
    for _ in range(2):
        older.append(old)
        stop()
        shmem.init()
        old = shmem.zeros(4, np.int64)
        for array in older:
            for call in (
                partial(shmem.put, array, old, 0), partial(shmem.get, old, array, 0),
                partial(shmem.p, array[1:2], 1, 0), partial(shmem.atomic_inc, array[3:], 0), partial(shmem.free, array),
                partial(shmem.sum_reduce, array, old),
            ):  # fmt: skip
                with pytest.raises(shmem.NotSymmetric, match="was allocated before finalize"):
                    call()
    with pytest.raises(shmem.NotSymmetric, match="it lies outside the heap"):
        shmem.put(np.zeros(4, np.int64), old, 0)
    shmem.free(old)
