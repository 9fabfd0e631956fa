"""Transfers from and into views on `sim`, where nothing is complete before it must be: no call leaves a copy of the
program's memory to a request that goes on after it."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.check import explore

VIEWS = {"every second": slice(None, None, 2), "backwards": slice(None, None, -1)}


def _got(nbi: bool, view: slice) -> list[int]:
    a, result = shmem.array(np.arange(4)), np.full(8, 9)
    shmem.barrier_all()
    (shmem.get_nbi if nbi else shmem.get)(result[view][:4], a, (shmem.my_pe() + 1) % 2)
    shmem.quiet()
    shmem.barrier_all()
    return [int(each) for each in result[view]]


def _put(nbi: bool, view: slice) -> list[int]:
    a, values = shmem.full(8, 9), np.arange(4)
    source = np.full(8, 7)
    source[view][:4] = values
    shmem.barrier_all()
    (shmem.put_nbi if nbi else shmem.put)(a[view][:4], source[view][:4], (shmem.my_pe() + 1) % 2)
    shmem.quiet()
    shmem.barrier_all()
    return [int(each) for each in a[view]]


@pytest.mark.parametrize("nbi", [False, True], ids=["", "nbi"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("call", [_got, _put], ids=["get", "put"])
def test_views_hold_what_was_moved(call: object, view: slice, nbi: bool) -> None:
    def main() -> tuple[int, ...]:
        return tuple(call(nbi, view))  # type: ignore[operator]

    report = explore(main, n_pes=2, strategy="random", budget=20)
    expected = tuple([0, 1, 2, 3] + [9] * (len(range(8)[view]) - 4))
    assert not report.failures
    assert set(report.outcomes) == {(expected, expected)}
