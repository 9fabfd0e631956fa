"""On `sim` symmetric arrays are tracked: calls that make views of their arguments still find them in the heap."""

from __future__ import annotations

import numpy as np

import shmem
from shmem.check import explore


def strided_calls() -> tuple[tuple[int, ...], ...]:
    """Of 2 PEs: what iput and ibput leave at this one."""
    other = 1 - shmem.my_pe()
    x, y, z = shmem.array(np.arange(8)), shmem.zeros(16, int), shmem.zeros(16, int)
    shmem.iput(y, x, other, 2, 1, 8)
    shmem.ibput(z, x, other, 4, 2, 2, 4)
    shmem.barrier_all()
    return tuple(y.tolist()), tuple(z.tolist())


def test_strided_calls_reach_tracked_arrays() -> None:
    report = explore(strided_calls, n_pes=2)
    y, z = np.zeros((2, 16), int)
    y[::2] = np.arange(8)
    z.reshape(4, 4)[:, :2] = np.arange(8).reshape(4, 2)
    assert report.ok, str(report)
    assert list(report.outcomes) == [((tuple(y), tuple(z)),) * 2]
