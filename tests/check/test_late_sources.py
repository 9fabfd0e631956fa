"""A private source that the program changes after it did something else: a search finds that the change was sent,
though the adapter, in the usual order, had read the source by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore


def twice(put: Callable[[Any, Any, int], None], between: Callable[[Any], object]) -> Any:
    """PE 0 sends two words from one place, and does something in between; what PE 1 gets."""
    box, word = shmem.zeros(2, np.uint64), np.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        for i in range(2):
            word[0] = i + 1
            put(box, word, i)
            between(box)
        return None
    for i in range(2):
        shmem.wait_until(box[i : i + 1], "!=", 0)
    return tuple(box.tolist())


def put(box: Any, word: Any, i: int) -> None:
    shmem.put_nbi(box[i : i + 1], word, 1)


def look(box: Any) -> None:
    assert box[0] == 0


@pytest.mark.parametrize("profile", ["openshmem", "rc_strict", "udma", "tso"])
@pytest.mark.parametrize(
    ("between", "seen"),
    [
        (look, {(1, 2), (2, 2)}),
        (lambda box: shmem.quiet(), {(1, 2)}),
        (lambda box: (shmem.flush_local(), look(box)), {(1, 2)}),
        (lambda box: (shmem.fence(), look(box)), {(1, 2), (2, 2)}),
    ],
    ids=["look", "quiet", "flush_local", "fence"],
)
def test_of_a_put(profile: str, between: Callable[[Any], object], seen: set[Any]) -> None:
    report = explore(twice, 2, profile, args=(put, between))
    assert (report.ok, report.complete) == (True, True)
    assert {end[1] for end in report.outcomes} == seen


def on_a_queue_pair(between: Callable[[Any], object]) -> Any:
    """The same, as work requests."""
    there = 1 - shmem.my_pe()
    box, word = shmem.zeros(2, np.uint64), np.zeros(1, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    nic.register(word, "")
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq)
    if shmem.my_pe() == 0:
        for i in range(2):
            word[0] = i + 1
            qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i))
            between(cq)
        return None
    for i in range(2):
        shmem.wait_until(box[i : i + 1], "!=", 0)
    return tuple(box.tolist())


@pytest.mark.parametrize(
    ("between", "seen"),
    [(lambda cq: cq.poll(), {(1, 2), (2, 2)}), (lambda cq: cq.wait(), {(1, 2)})],
    ids=["poll", "wait"],
)
def test_of_a_work_request(between: Callable[[Any], object], seen: set[Any]) -> None:
    report = explore(on_a_queue_pair, 2, "rc_strict", args=(between,))
    assert (report.ok, report.complete) == (True, True)
    assert {end[1] for end in report.outcomes} == seen
