"""A transfer of a PE to itself whose target overlaps its source gives what NumPy gives with a copy of the source."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

pytestmark = pytest.mark.mpi
VIEWS = (
    slice(None), slice(None, None, -1), slice(None, None, 2), slice(1, None, 2), slice(0, 6), slice(6, None),
    slice(3, 9), slice(9, 3, -1), slice(2, None, 3),
)  # fmt: skip


@pytest.mark.parametrize("call", ["put", "get", "put_nbi", "get_nbi"])
def test_every_pair_of_views_of_one_array(call: str) -> None:
    me = shmem.my_pe()
    x = shmem.zeros(12, np.int32)
    transfer = getattr(shmem, call)
    checked = 0
    for to in VIEWS:
        for source in VIEWS:
            x[:] = np.arange(12)
            n = min(x[to].size, x[source].size)
            wanted = np.arange(12)
            wanted[to][:n] = np.arange(12)[source][:n].copy()
            transfer(x[to], x[source], me, size=n)
            shmem.quiet()
            assert x.tolist() == wanted.tolist(), (to, source)
            checked += 1
    shmem.free(x)
    assert checked == len(VIEWS) ** 2


def test_a_view_over_a_freed_block_is_refused_by_the_front_too() -> None:
    blocks = [shmem.zeros(8, np.int64) for _ in range(3)]
    shmem.free(blocks[1])
    across = np.lib.stride_tricks.as_strided(blocks[0], (24,), (8,))
    before = across.copy()
    with pytest.raises(shmem.FreedBlock):
        shmem.put(across, np.ones(24, np.int64), shmem.my_pe())
    with pytest.raises(shmem.FreedBlock):
        shmem.get(np.ones(24, np.int64), across, shmem.my_pe())
    assert across.tolist() == before.tolist()
    shmem.free(blocks[0])
    shmem.free(blocks[2])
