"""Queue pairs on `sim` at the wrong time: freed and read-only memory, what is closed, other lives, waits that end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore
from shmem.delivery.profiles import varied
from shmem.errors import ArgumentError, FreedBlock, NotSymmetric, QueueStateError, ShmemTimeout, StateError

from .nic_pair import Ends, of_pe_0


def freed() -> Any:
    """What may not be done with memory that was freed."""
    ends, array = Ends(), shmem.zeros(2, np.uint64)
    shmem.free(array)
    calls: list[Callable[[], Any]] = [
        lambda: nic.register(array), lambda: nic.register(array[1:], ""), lambda: ends.qp.post_recv(array),
        lambda: ends.qp.post(nic.WorkRequest(nic.WRITE, array, ends.remote)),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(FreedBlock, match="freed"):
            call()
    return ends.qp.post(ends.write(1))


def test_freed_memory_is_refused() -> None:
    assert shmem.run(freed, 2, profile="rc_strict") == [0, 0]


@pytest.mark.parametrize("rights", ["rwa", "w", "a"])
def test_read_only_memory_can_not_be_registered_to_be_changed(rights: str) -> None:
    def body(ends: Ends) -> Any:
        array = np.arange(2)
        array.flags.writeable = False
        with pytest.raises(ArgumentError, match=f"read-only: rights='{rights}'"):
            nic.register(array, rights)
        return nic.register(array, "r").rights, nic.register(array, "").rights

    assert of_pe_0(body) == ("r", "")


def test_a_closed_completion_queue_has_no_ring() -> None:
    def body(ends: Ends) -> Any:
        closed = nic.CompletionQueue()
        closed.close()
        with pytest.raises(QueueStateError, match="closed"):
            _ = closed.ring
        return True

    assert of_pe_0(body)


# ---- waits that end ----


def test_a_wait_says_what_came_and_what_is_outstanding() -> None:
    def body(ends: Ends) -> Any:
        other = nic.QueuePair(0, ends.cq)
        ends.qp.post_recv(ends.array[:1])
        ends.qp.post(ends.write(1))
        shmem.quiet()
        ends.qp.post(ends.write(2, doorbell=False))
        other.post(nic.WorkRequest(nic.NOP, doorbell=False))
        with pytest.raises(ShmemTimeout) as caught:
            ends.cq.wait(2, timeout=0)
        return str(caught.value), caught.value.awaited

    text, awaited = of_pe_0(body)
    assert awaited == "2 completions"
    unrung = "which no doorbell was rung for"
    assert text.endswith(
        f"it saw 1; outstanding: request 1 (WRITE) to PE 1, {unrung}; request 0 (NOP) to PE 0, {unrung}; "
        "1 receives posted for PE 1"
    )


def test_a_wait_without_anything_says_so() -> None:
    def body(ends: Ends) -> Any:
        with pytest.raises(ShmemTimeout, match="it saw 0; outstanding: nothing"):
            ends.cq.wait(timeout=0)
        return True

    assert of_pe_0(body)


def looks() -> Any:
    """Waits without time are looks: what they see depends on when."""
    ends = Ends(words=1)
    if ends.me == 1:
        return None
    ends.qp.post(ends.write(1))
    try:
        return ends.cq.wait(timeout=0)[0].status
    except ShmemTimeout as error:
        return "request 0 (WRITE) to PE 1" in str(error)


def test_a_wait_without_time_may_come_too_early() -> None:
    """Or just so, so that what it says of later holds nothing any more."""
    report = explore(looks, 2, "rc_strict")
    assert (report.ok, report.complete) == (True, True)
    assert {end[0] for end in report.outcomes} == {"ok", True, False}


def unrung() -> Any:
    ends = Ends(words=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1, doorbell=False))
        ends.cq.wait()


def test_who_waits_in_finalize_has_ended_its_program() -> None:
    [failure] = explore(unrung, 2, "rc_strict").failures
    ended = "has ended its program and waits for the others in finalize"
    assert failure.text == f"PE 0 waits in a wait for completions; PE 1 {ended}"
    assert f"(end) {ended}" in failure.story


# ---- one life after the other ----


def lives() -> Any:
    """Arrays from before finalize stay readable, as on every fabric."""
    before = shmem.zeros(2, np.uint64)
    there = shmem.ptr(before, 1 - shmem.my_pe())
    before[:] = [3 + shmem.my_pe(), 4]
    shmem.barrier_all()
    shmem.finalize()
    shmem.init()
    now = shmem.full(2, 9, np.uint64)
    for call, error in (
        (lambda: shmem.put(before, now, 0), NotSymmetric), (lambda: nic.register(before), NotSymmetric),
        (lambda: shmem.free(before), NotSymmetric),
    ):  # fmt: skip
        with pytest.raises(error, match="before finalize"):
            call()
    shmem.put(now, before, 1 - shmem.my_pe())
    shmem.barrier_all()
    return before.tolist(), there.tolist(), int(before[1]), now.tolist()


@pytest.mark.parametrize("profile", ["rc_strict", varied("openshmem", unit=8, reader="lazy")])
def test_arrays_outlive_finalize(profile: Any) -> None:
    assert shmem.run(lives, 2, profile=profile) == [([3, 4], [4, 4], 4, [4, 4]), ([4, 4], [3, 4], 4, [3, 4])]


def test_queues_do_not() -> None:
    def main() -> Any:
        ends = Ends()
        shmem.finalize()
        shmem.init()
        with pytest.raises(StateError, match="before finalize"):
            _ = ends.cq.ring
        return True

    assert shmem.run(main, 2, profile="udma") == [True, True]
