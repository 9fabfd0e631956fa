"""A barrier whose ShmemTimeout was caught is not lost: the PE has arrived there.

Its next collective call first waits for the end of that barrier and then is a call of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

import shmem

pytestmark = pytest.mark.mpi(min_size=2)


def _meet_late(signal: object) -> None:
    """All but the last PE give up a barrier; the last one comes when they have told it so."""
    me, n = shmem.my_pe(), shmem.n_pes()
    if me < n - 1:
        with pytest.raises(shmem.ShmemTimeout, match=f"no arrival of PE {n - 1}"):
            shmem.barrier_all(timeout=0.05)
        shmem.signal_add(signal, 1, n - 1)
    else:
        shmem.signal_wait_until(signal, "==", n - 1)
        shmem.barrier_all()


def test_another_collective_call_follows() -> None:
    gave_up = shmem.zeros(1, np.uint64)
    _meet_late(gave_up)
    after = shmem.full(5, 3, np.int64)  # not taken for the barrier that was given up
    value = int(shmem.g(after[4:5], shmem.n_pes() - 1))
    shmem.free(after)
    shmem.free(gave_up)
    assert value == 3


def test_the_same_call_goes_on_with_it() -> None:
    gave_up = shmem.zeros(1, np.uint64)
    _meet_late(gave_up)
    if shmem.my_pe() < shmem.n_pes() - 1:
        shmem.barrier_all()
    shmem.sync_all()
    shmem.free(gave_up)
    assert shmem.heap_stats().blocks == 0
