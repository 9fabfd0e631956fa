"""Queue pairs on `sim` whose segments and receives end: in every order with what other PEs send, values by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore
from shmem.delivery.profiles import Profile, varied
from shmem.errors import CompletionError, CompletionQueueOverrun

from .nic_pair import WORDS, Ends, of_pe_0

BOTH = pytest.mark.parametrize("strategy", ["exhaustive", "eager"])


def ends_of(program: Any, profile: str | Profile, strategy: str = "exhaustive", *args: Any) -> set[Any]:
    """All ends of a program, which are all there are."""
    report = explore(program, 2, profile, strategy, args=args)
    assert (report.ok, report.complete) == (True, True), report
    return set(report.outcomes)


# ---- segments ----


def two_segments() -> Any:
    """PE 0 writes by two segments, PE 1 ends the first and looks at the second."""
    ends, more = Ends(words=1), shmem.zeros(1, np.uint64)
    remote = nic.import_segment(nic.register(more), ends.there)
    shmem.barrier_all()
    if ends.me == 0:
        ends.qp.post(ends.write(5))
        ends.qp.post(nic.WorkRequest(nic.WRITE, np.array([6], np.uint64), remote, inline=True))
        return [each.status for each in ends.cq.wait(2)]
    ends.segment.close()
    return int(more[0])


@pytest.mark.parametrize(
    ("profile", "more"),
    [
        ("udma", set()), ("rc_strict", set()), ("srd", set()),
        (varied("udma", on_error="go_on"), {(("rem_access", "ok"), 0), (("rem_access", "ok"), 6)}),
    ],
)  # fmt: skip
def test_what_comes_to_a_segment_that_has_ended_fails(profile: str | Profile, more: set[Any]) -> None:
    """And what was posted after it moves nothing, unless the queue pair goes on."""
    flushed = set() if more else {(("rem_access", "flush"), 0)}
    assert ends_of(two_segments, profile) == {(("ok", "ok"), 0), (("ok", "ok"), 6), *flushed, *more}


def posts_late() -> Any:
    """Whether PE 1 posts before the segment ends or after, nobody says."""
    ends = Ends(words=1)
    if ends.me == 1:
        seen = int(ends.array[0])
        ends.qp.post(ends.write(5))
        return seen, ends.cq.wait()[0].status
    ends.segment.close()
    return int(ends.array[0])


@BOTH
def test_a_request_may_be_posted_before_a_segment_ends_or_after(strategy: str) -> None:
    assert ends_of(posts_late, "udma", strategy) == {(5, (0, "ok")), (0, (0, "rem_access"))}


def word_elsewhere() -> Any:
    """The word of a WRITE_NOTIFY lies in a segment that ends, its data in another."""
    ends = Ends(words=2)
    remote = nic.import_segment(nic.register(shmem.zeros(1, np.uint64)), ends.there)
    shmem.barrier_all()
    if ends.me == 0:
        word = ends.remote, 8, 6
        ends.qp.post(nic.WorkRequest(nic.WRITE_NOTIFY, np.array([5], np.uint64), remote, inline=True, notify=word))
        return ends.cq.wait()[0].status
    ends.segment.close()
    return int(ends.array[1])


def test_a_notify_comes_to_its_own_segment_too() -> None:
    assert ends_of(word_elsewhere, "udma") == {("ok", 6), ("rem_access", 0)}


def ended_memory(words: int) -> Any:
    """PE 1 looks at the memory when the segment has just ended, and in the end."""
    ends = Ends(words=words)
    status, first = "", []
    if ends.me == 0:
        ends.qp.post(ends.write(*range(5, 5 + words)))
        status = ends.cq.wait()[0].status
    else:
        ends.segment.close()
        first = ends.array.tolist()
    shmem.barrier_all()
    return status or (first, ends.array.tolist())


@pytest.mark.parametrize("profile", ["rc_strict", "udma", varied("udma", repeat=True)])
def test_nothing_comes_any_more_when_a_segment_has_ended(profile: str | Profile) -> None:
    """Nor was any of it there by half: it is let in as a whole, and placed before the end."""
    assert ends_of(ended_memory, profile, "exhaustive", 2) == {
        ("ok", ((5, 6), (5, 6))), ("rem_access", ((0, 0), (0, 0)))
    }  # fmt: skip


def takes_none() -> Any:
    """A WRITE_IMM to a segment that ends; there is a receive for it, or else for a SEND."""
    ends = Ends(words=1)
    if ends.me == 1:
        ends.qp.post_recv(np.zeros(0))
    shmem.barrier_all()
    if ends.me == 1:
        ends.segment.close()
        return int(ends.array[0])
    ends.qp.post(nic.WorkRequest(nic.WRITE_IMM, np.array([5], np.uint64), ends.remote, inline=True, imm=3))
    [told] = ends.cq.wait()
    ends.qp.reset()
    ends.qp.post(nic.WorkRequest(nic.SEND))
    return told.status, ends.cq.wait()[0].status


def test_what_is_refused_takes_no_receive() -> None:
    assert ends_of(takes_none, "udma") == {(("ok", "rnr_retry"), 5), (("rem_access", "ok"), 0)}


# ---- receives ----


def private(n: int = 1) -> Any:
    """Words that the adapter may use."""
    made = np.arange(7, 7 + n, dtype=np.uint64)
    nic.register(made, "")
    return made


def fails(ends: Ends) -> str:
    """A request that fails, and its completion."""
    ends.qp.post(ends.write(1, at=WORDS))
    return ends.cq.wait()[0].status


def test_a_failure_flushes_receives_in_the_order_posted() -> None:
    def body(ends: Ends) -> Any:
        recv_cq = nic.CompletionQueue()
        ends.qp = nic.QueuePair(1, ends.cq, recv_cq, index=1)
        buffers = [private() for _ in range(3)]
        ends.qp.post_recv(buffers[0])
        ends.qp.post_recv(buffers[1])
        told = [(fails(ends), 0), *((each.status, each.wr_id) for each in recv_cq.poll())]
        ends.qp.post_recv(buffers[2])
        late = [(each.status, each.wr_id, each.qp is ends.qp, each.nbytes) for each in recv_cq.poll()]
        ends.qp.reset()
        ends.qp.post_recv(buffers[2])
        return told, late, recv_cq.poll()

    told, late, none = of_pe_0(body)
    assert told == [("rem_access", 0), ("flush", 0), ("flush", 1)]
    assert (late, none) == ([("flush", 2, True, 0)], [])


@pytest.mark.parametrize("on_error", ["suspend", "go_on"])
def test_where_a_failure_is_no_error_state_receives_stay(on_error: str) -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post_recv(private())
        return fails(ends), ends.cq.poll()

    assert of_pe_0(body, varied("udma", on_error=on_error)) == ("rem_access", [])


def taken_or_not(how: str, retry: int = 6) -> Any:
    """PE 1 has posted a receive, which goes with its queue pair, or is flushed."""
    ends = Ends(words=1, rnr_retry=retry)
    buffer = private()
    if ends.me == 1:
        ends.qp.post_recv(buffer)
    shmem.barrier_all()
    if ends.me == 0:
        ends.qp.post(nic.WorkRequest(nic.SEND, np.array([4], np.uint64), inline=True))
        return ends.cq.wait()[0].status
    if how == "error":
        ends.qp.post(nic.WorkRequest(nic.READ, ends.array, ends.remote, offset=8))
        return sorted((each.status, each.opcode is nic.RECEIVE) for each in ends.cq.wait(2))
    ends.qp.reset() if how == "reset" else ends.qp.close()
    return [(each.status, each.wr_id, int(buffer[0])) for each in ends.cq.poll()]


@pytest.mark.parametrize("how", ["reset", "close"])
def test_receives_go_with_their_queue_pair(how: str) -> None:
    """What has taken one before is told of before."""
    assert ends_of(taken_or_not, "rc_strict", "exhaustive", how) == {("ok", (("ok", 0, 4),)), ("rnr_retry", ())}


def test_what_is_sent_to_a_queue_pair_in_error_finds_no_receive() -> None:
    refused = "rem_access", False
    assert ends_of(taken_or_not, "rc_strict", "exhaustive", "error") == {
        ("ok", (("ok", True), refused)), ("rnr_retry", (("flush", True), refused)),
    }  # fmt: skip


@pytest.mark.parametrize("how", ["reset", "close"])
def test_who_waits_for_a_receive_for_ever_may_have_come_too_late(how: str) -> None:
    report = explore(taken_or_not, 2, "rc_strict", args=(how, 7), keep_going=True)
    assert report.complete
    assert set(report.outcomes) == {("ok", (("ok", 0, 4),))}
    assert {each.kind for each in report.failures} == {"deadlock"}


def reopened() -> Any:
    """PE 1 closes a queue pair with receives, one of them taken, and makes another in its place."""
    ends = Ends(words=1)
    if ends.me == 1:
        ends.qp.post_recv(private())
        ends.qp.post_recv(private())
    shmem.barrier_all()
    if ends.me == 0:
        ends.qp.post(nic.WorkRequest(nic.SEND))
        first = ends.cq.wait()[0].status
        shmem.barrier_all()
        shmem.barrier_all()
        ends.qp.post(nic.WorkRequest(nic.SEND, np.array([4], np.uint64), inline=True))
        second = ends.cq.wait()[0].status
        shmem.barrier_all()
        return first, second
    shmem.barrier_all()
    ends.qp.close()
    again = nic.QueuePair(0, ends.cq)
    shmem.barrier_all()
    [told] = ends.cq.wait()
    shmem.barrier_all()
    return told.qp is ends.qp, told.wr_id, again.post_recv(np.zeros(0))


def test_a_new_queue_pair_has_none_of_the_receives_before_it() -> None:
    """Nor their completions; its own are counted from 0."""
    assert shmem.run(reopened, 2, profile="rc_strict") == [("ok", "rnr_retry"), (True, 0, 0)]


def overruns() -> Any:
    """Receives that are flushed need room as well."""
    ends = Ends(cq=2)
    if ends.me == 0:
        ends.qp.post_recv(private())
        ends.qp.post_recv(private())
        ends.qp.post(ends.write(1, at=WORDS))
        try:
            return [each.status for each in ends.cq.wait(2)], [each.status for each in ends.cq.wait()]
        except CompletionQueueOverrun:
            with pytest.raises(CompletionError):  # which nobody was told of
                shmem.quiet()
            return "overrun"
    return None


def test_flushed_receives_may_overrun_a_completion_queue() -> None:
    assert ends_of(overruns, "rc_strict") == {("overrun", None)}
