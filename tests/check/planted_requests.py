"""Bugs in the use of queue pairs, each beside its repair, as in `planted`."""

from __future__ import annotations

from typing import Any

import numpy as np

import shmem
from shmem import nic

from .planted import planted, value, words


class Pair:
    """A queue pair of PE 0 to PE 1 and the segments of both."""

    def __init__(self, *arrays: Any, **more: Any) -> None:
        self.me, self.there = shmem.my_pe(), 1 - shmem.my_pe()
        segments = [nic.register(array) for array in arrays]
        self.remote = [nic.import_segment(segment, self.there) for segment in segments]
        self.cq = nic.CompletionQueue()
        self.qp = nic.QueuePair(self.there, self.cq, **more)

    def write(self, which: int, number: int, **more: Any) -> nic.WorkRequest:
        """A WRITE of one word, inline."""
        return nic.WorkRequest(nic.WRITE, value(number), self.remote[which], inline=True, **more)


def private(number: int) -> Any:
    """A word that the adapter may use."""
    array = value(number)
    nic.register(array, "")
    return array


@planted(profile="rc_strict", sort="a source changed before it was read")
def a_source_reused_at_once(right: bool) -> None:
    """Two words are sent from one source; without a wait between, or inline, the first may bring the second's value."""
    data = words()
    other = words()
    pair = Pair(data, other)
    if pair.me == 0:
        source = private(1)
        pair.qp.post(nic.WorkRequest(nic.WRITE, source, pair.remote[0], inline=right))
        source[0] = 2
        pair.qp.post(nic.WorkRequest(nic.WRITE, source, pair.remote[1]))
        pair.qp.quiet()
    shmem.barrier_all()
    assert pair.me == 0 or (data[0], other[0]) == (1, 2)


@planted(profile="rc_strict", sort="a completion taken for visibility", source="NCCL #1688")
def a_completion_taken_for_visibility(right: bool) -> None:
    """The request is acknowledged, so its sender tells the reader by another way; the data may still be behind."""
    data, flag = words(), words()
    pair = Pair(data)
    if pair.me == 0:
        pair.qp.post(pair.write(0, 7))
        if right:
            pair.qp.quiet()
        else:
            pair.cq.wait()
        shmem.atomic_set(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(profile="rc_strict", sort="data and flag on different queue pairs", source="NCCL #2302")
def a_flag_on_another_queue_pair(right: bool) -> None:
    data, flag = words(), words()
    pair = Pair(data, flag)
    second = nic.QueuePair(pair.there, pair.cq, index=1)
    if pair.me == 0:
        pair.qp.post(pair.write(0, 7))
        (pair.qp if right else second).post(pair.write(1, 1))
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(profile="rc_relaxed", sort="an atomic that passes relaxed writes", source="NCCL #2210")
def an_atomic_that_passes_the_data(right: bool) -> None:
    """Relaxed ordering: a count added on the same queue pair may come before the data it counts."""
    data, count = words(), words()
    pair = Pair(data, count)
    if pair.me == 0:
        pair.qp.post(pair.write(0, 7))
        if right:
            pair.qp.quiet()
        pair.qp.post(nic.WorkRequest(nic.FAA, private(0), pair.remote[1], value=1))
    else:
        shmem.wait_until(count, "==", 1)
        assert data[0] == 7


@planted(profile="rc_strict", sort="a read's result sent on without the fence flag", source="torchcomms #840")
def a_write_of_what_a_read_brings(right: bool) -> None:
    """The source of the WRITE is the result of the READ before it: only the fence flag makes it wait."""
    data, back = words(), words()
    pair = Pair(data, back)
    if pair.me == 1:
        data[0] = 7
    shmem.barrier_all()
    if pair.me == 0:
        between = private(0)
        pair.qp.post(nic.WorkRequest(nic.READ, between, pair.remote[0]))
        pair.qp.post(nic.WorkRequest(nic.WRITE, between, pair.remote[1], fence=right))
        pair.qp.quiet()
    shmem.barrier_all()
    assert pair.me == 0 or back[0] == 7


@planted(kind="deadlock", profile="udma", sort="a doorbell that is not rung", source="mori #428")
def a_last_doorbell_forgotten(right: bool) -> None:
    """Doorbells are saved by ringing for every second request; the last one of an odd number is never rung for."""
    data, flag = words(), words()
    pair = Pair(data, flag)
    if pair.me == 0:
        for i in range(3):
            pair.qp.post(pair.write(0, i, doorbell=i % 2 == 1))
        if right:
            pair.qp.doorbell()
        pair.cq.wait(3)


@planted(profile="udma", sort="data and flag as two requests that nothing orders")
def a_notify_made_of_two_requests(right: bool) -> None:
    """Data and flag as two requests, which `udma` places in any order; WRITE_NOTIFY is one."""
    data, flag = words(), words()
    pair = Pair(data, flag)
    if pair.me == 0:
        if right:
            notify = (pair.remote[1], 0, 1)
            pair.qp.post(nic.WorkRequest(nic.WRITE_NOTIFY, value(7), pair.remote[0], inline=True, notify=notify))
        else:
            pair.qp.post_many([pair.write(0, 7), pair.write(1, 1)])
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(profile="rc_strict", sort="a receive too few", source="brpc #3145")
def immediates_miscounted(right: bool) -> None:
    """Each immediate takes a receive; the receiver has posted one too few."""
    data = words()
    pair = Pair(data, rnr_retry=0)
    if pair.me == 1:
        for _ in range(2 if right else 1):
            pair.qp.post_recv(np.zeros(0))
    shmem.barrier_all()
    if pair.me == 0:
        for i in (1, 2):
            wr = nic.WorkRequest(nic.WRITE_IMM, value(i), pair.remote[0], inline=True, imm=i)
            pair.qp.post(wr)
        assert [each.status for each in pair.cq.wait(2)] == ["ok", "ok"]


@planted(kind="exception", profile="rc_strict", sort="a ring whose places never come back")
def nothing_is_ever_signaled(right: bool) -> None:
    """Without a completion no place in the ring comes back: QueueFull."""
    data = words()
    pair = Pair(data, depth=4)
    if pair.me == 0:
        for i in range(6):
            pair.qp.post(pair.write(0, i, signaled=right and i % 2 == 1))
            if right and i % 2 == 1:
                pair.cq.wait()


@planted(kind="exception", profile="rc_relaxed", sort="a completion queue that is too small")
def a_completion_queue_too_small(right: bool) -> None:
    """Two queue pairs share a completion queue that holds one completion: which may overrun, or not."""
    data = words()
    pair = Pair(data)
    cq = nic.CompletionQueue(4 if right else 1)
    pairs = [nic.QueuePair(pair.there, cq, index=index) for index in (1, 2)]
    if pair.me == 0:
        for qp in pairs:
            qp.post(pair.write(0, 1))
        for _ in pairs:
            cq.wait()


@planted(profile="udma", sort="memory given up while it is written to")
def a_segment_closed_too_early(right: bool) -> None:
    """Its owner is told by nobody that all requests have come."""
    data, done = words(), words()
    me, there = shmem.my_pe(), 1 - shmem.my_pe()
    segment = nic.register(data)
    remote = nic.import_segment(segment, there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq)
    if me == 0:
        qp.post(nic.WorkRequest(nic.WRITE, value(7), remote, inline=True))
        assert cq.wait()[0].ok
        shmem.atomic_set(done, 1, 1)
    else:
        if right:
            shmem.wait_until(done, "==", 1)
        segment.close()
