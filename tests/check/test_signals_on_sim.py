"""Signals on `sim` in corners of put_signal."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.check import explore
from shmem.delivery.profiles import varied


def empty(fenced: bool) -> int | None:
    """A put, then a put_signal without data; what lies behind the signal."""
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.p(data, 7, 1)
        if fenced:
            shmem.fence()
        shmem.put_signal(data[:0], np.zeros(0, np.uint64), 1, flag, 1, shmem.SIGNAL_SET)
        return None
    shmem.signal_wait_until(flag, "==", 1)
    return int(data[0])


@pytest.mark.parametrize("profile", ["openshmem", "srd", "rc_strict"])
def test_a_fence_orders_the_signal_of_an_empty_put_as_well(profile: str) -> None:
    ordered = profile == "rc_strict"
    for strategy in ("exhaustive", "eager"):
        for fenced in (True, False):
            report = explore(empty, 2, varied(profile, unit=8), strategy, args=(fenced,))
            assert report.complete
            assert {seen for _, seen in report.outcomes} == ({7} if fenced or ordered else {0, 7})
