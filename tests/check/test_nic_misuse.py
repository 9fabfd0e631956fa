"""Queue pairs on `sim` used in odd ways: arguments that mean nothing, objects of another time, failures told twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore
from shmem.errors import (
    ArgumentError,
    CompletionError,
    DtypeError,
    NotSymmetric,
    QueueFull,
    QueueStateError,
    StateError,
)

from .nic_pair import WORDS, Ends, of_pe_0

TWO = np.array([1, 2])

REFUSED: dict[str, tuple[type[Exception], str, Callable[[Ends], Any]]] = {
    "a notify": (
        ArgumentError, "notify=3", lambda ends: nic.WorkRequest(nic.WRITE_NOTIFY, ends.array, ends.remote, notify=3)  # type: ignore[arg-type]
    ),
    "a short notify": (
        ArgumentError, "notify=", lambda ends: nic.WorkRequest(nic.WRITE_NOTIFY, ends.array, ends.remote, notify=(1, 2))  # type: ignore[arg-type]
    ),
    "signaled": (DtypeError, "signaled", lambda ends: ends.write(1, signaled=TWO)),
    "fence": (DtypeError, "fence", lambda ends: ends.write(1, fence=TWO)),
    "doorbell": (DtypeError, "doorbell", lambda ends: ends.write(1, doorbell=TWO)),
    "inline": (DtypeError, "inline", lambda ends: nic.WorkRequest(nic.WRITE, ends.array, ends.remote, inline=TWO)),  # type: ignore[arg-type]
    "a key": (
        DtypeError, "key of the seg", lambda ends: nic.WorkRequest(nic.WRITE, ends.array, nic.Segment(1, "", 8, ""))  # type: ignore[arg-type]
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_means_nothing_is_refused_and_nothing_is_posted(what: str) -> None:
    kind, text, make = REFUSED[what]

    def body(ends: Ends) -> Any:
        with pytest.raises(kind, match=text):
            ends.qp.post(make(ends))
        return ends.qp.post(ends.write(1)), ends.cq.wait()[0].status

    assert of_pe_0(body) == (0, "ok")


CALLS: dict[str, tuple[type[Exception], str, Callable[[Ends], Any]]] = {
    "poll": (ArgumentError, "max is -1", lambda ends: ends.cq.poll(-1)),
    "import": (StateError, "has registered", lambda ends: nic.import_segment(None, 1)),  # type: ignore[arg-type]
    "post_many": (ArgumentError, "no list", lambda ends: ends.qp.post_many(None)),  # type: ignore[arg-type]
    "post_many by": (ArgumentError, "doorbell", lambda ends: ends.qp.post_many([], TWO)),  # type: ignore[arg-type]
    "memory of another": (
        NotSymmetric, "private", lambda ends: nic.import_segment(nic.register(shmem.ptr(ends.array, 1)), 1)  # type: ignore[arg-type]
    ),
    "a ring that is too small": (
        QueueFull, "never fits", lambda ends: nic.QueuePair(1, ends.cq, depth=1, index=1).post(
            nic.WorkRequest(nic.FAA, ends.array[:1], ends.remote))
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_calls_that_mean_nothing_are_refused(what: str) -> None:
    kind, text, call = CALLS[what]

    def body(ends: Ends) -> Any:
        with pytest.raises(kind, match=text):
            call(ends)
        return True

    assert of_pe_0(body)


@pytest.mark.parametrize("offset", [1 << 70, -(1 << 70), 1 << 63])
@pytest.mark.parametrize("key", [-1, 1 << 40])
def test_no_offset_and_no_key_is_too_large_for_the_ring(offset: int, key: int) -> None:
    def body(ends: Ends) -> Any:
        for remote, at in ((ends.remote, offset), (nic.Segment(1, key, 8, "w"), 0)):
            ends.qp.post(nic.WorkRequest(nic.WRITE, ends.array[:1], remote, at))
        told = [(each.wr_id, each.status) for each in ends.cq.wait(2)]
        return told, ends.qp.sq["key"].tolist()[1]

    assert of_pe_0(body) == ([(0, "rem_access"), (1, "flush")], key & 0xFFFFFFFF)


def test_operands_may_be_numbers_of_numpy() -> None:
    def body(ends: Ends) -> Any:
        top = np.uint64(1 << 63)
        for value in (top, np.uint8(3)):
            ends.qp.post(nic.WorkRequest(nic.FAA, ends.array[:1], ends.remote, value=value))  # type: ignore[arg-type]
        ends.qp.post(nic.WorkRequest(nic.WRITE_NOTIFY, None, ends.remote, notify=(ends.remote, 8, top)))  # type: ignore[arg-type]
        ends.qp.quiet()
        shmem.get(there := np.zeros(2, np.uint64), ends.array[:2], 1)
        return there.tolist()

    assert of_pe_0(body) == [(1 << 63) + 3, 1 << 63]


def test_segments_can_be_keys() -> None:
    assert of_pe_0(lambda ends: {ends.segment: 1, ends.remote: 2}[ends.remote]) == 2


def test_a_closed_completion_queue_makes_no_queue_pair() -> None:
    def body(ends: Ends) -> Any:
        closed, good = nic.CompletionQueue(), nic.CompletionQueue()
        closed.close()
        for cqs in ((closed, good), (good, closed)):
            with pytest.raises(QueueStateError, match="closed"):
                nic.QueuePair(1, *cqs, index=1)
        pair = nic.QueuePair(1, good, index=1)
        pair.post(ends.write(1))
        good.wait()
        pair.close()
        good.close()
        return True

    assert of_pe_0(body)


# ---- failures ----


def quiet() -> Any:
    """What a quiet says of failures: the number of the request."""
    try:
        shmem.quiet()
    except CompletionError as error:
        return error.wr_id
    return None


def test_quiet_tells_of_later_failures_too() -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(ends.write(1, at=WORDS))
        told = [quiet(), quiet()]
        ends.qp.post(ends.write(2))
        return [*told, quiet(), quiet()]

    assert of_pe_0(body) == [0, None, 1, None]


def test_quiet_tells_of_a_failure_once_whatever_is_reset() -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(ends.write(1, at=WORDS))
        told = [quiet()]
        ends.qp.reset()
        ends.qp.post(ends.write(2))
        return [*told, quiet()]

    assert of_pe_0(body) == [0, None]


# ---- segments ----


def closes() -> Any:
    """PE 1 ends a segment while PE 0 writes by another one."""
    ends = Ends(words=1)
    remote = nic.import_segment(nic.register(ends.array), ends.there)
    shmem.barrier_all()
    if ends.me == 0:
        ends.qp.post(nic.WorkRequest(nic.WRITE, np.array([5], np.uint64), remote, inline=True))
        return ends.cq.wait()[0].status
    ends.segment.close()
    return None


def test_a_segment_that_ends_is_no_matter_to_another_of_the_same_memory() -> None:
    report = explore(closes, 2, "udma")
    assert report.complete
    assert {end[0] for end in report.outcomes} == {"ok"}


# ---- one life after the other ----


def lives() -> Any:
    first = Ends(index=2)
    first.qp.post_recv(first.array[:1])
    first.qp.post(first.write(1, at=1))
    shmem.finalize()
    shmem.init()
    calls = [first.qp.doorbell, first.cq.poll, lambda: nic.import_segment(first.segment, first.there)]
    for call in calls:
        with pytest.raises(StateError):
            call()
    ends = Ends(index=2)
    if ends.me == 0:
        ends.qp.post(ends.write(7))
        ends.qp.post(nic.WorkRequest(nic.SEND))
        return [(each.wr_id, each.status) for each in ends.cq.wait(2)]
    return None


def test_shmem_may_start_again() -> None:
    assert shmem.run(lives, 2, profile="udma")[0] == [(0, "ok"), (1, "rnr_retry")]


def test_what_belongs_to_a_job_ends_with_it() -> None:
    ends = of_pe_0(lambda ends: ends)
    for call in (lambda: ends.qp.post(ends.write(1)), ends.qp.quiet, ends.cq.wait, lambda: ends.qp.post_recv(TWO)):
        with pytest.raises(StateError, match="ended"):
            call()


def gives_up_late() -> Any:
    """The end of a request that no barrier waits for may come before a look at the completion queue."""
    ends = Ends(words=1)
    if ends.me == 0:
        ends.qp.post(nic.WorkRequest(nic.SEND))
        return [each.status for each in ends.cq.poll()]
    return None


@pytest.mark.parametrize("strategy", ["exhaustive", "eager"])
def test_what_no_barrier_waits_for_may_have_come_before(strategy: str) -> None:
    report = explore(gives_up_late, 2, "udma_engine_scoped", strategy)
    assert (report.ok, report.complete) == (True, True)
    assert {end[0] for end in report.outcomes} == {(), ("rnr_retry",)}
