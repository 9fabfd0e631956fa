"""Queue pairs on `sim`: data, receives, and what doorbells and quiet cover, with values counted by hand.

`test_nic_rings` has rings and completions, `test_nic_failures` requests that fail or are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore

from .nic_pair import WORDS, Ends, of_pe_0

# ---- data ----


def test_pieces_are_gathered_and_scattered() -> None:
    def body(ends: Ends) -> Any:
        private = np.arange(10, 13, dtype=np.uint64)
        nic.register(private, "")
        ends.array[:] = np.arange(WORDS)
        ends.qp.post(nic.WorkRequest(nic.WRITE, [ends.array[2:4], private, ends.array[7:8]], ends.remote, offset=8))
        ends.qp.quiet()
        shmem.get(there := np.zeros(WORDS, np.uint64), ends.array, 1)
        back, half = np.zeros(3, np.uint64), np.zeros(1, np.uint32)
        for each in (back, half):
            nic.register(each, "")
        ends.qp.post(nic.WorkRequest(nic.READ, [ends.array[:2], half, back], ends.remote, offset=8))
        told = ends.cq.wait(1)[0]
        return there.tolist(), ends.array[:2].tolist(), half.tolist(), back.view(np.uint32)[:3].tolist(), told.nbytes

    assert of_pe_0(body) == ([0, 2, 3, 10, 11, 12, 7, 0], [2, 3], [10], [0, 11, 0], 44)


def test_atomics_give_the_old_value() -> None:
    def body(ends: Ends) -> Any:
        old = np.full(3, 99, np.uint64)
        nic.register(old, "")
        for i, (code, value, compare) in enumerate(((nic.FAA, 5, 0), (nic.CAS, 8, 5), (nic.CAS, 1, 6))):
            local = old[i : i + 1]
            ends.qp.post(nic.WorkRequest(code, local, ends.remote, value=value, compare=compare))
        ends.cq.wait(3)
        narrow = old.view(np.uint32)[:1]
        ends.qp.post(nic.WorkRequest(nic.FAA, narrow, ends.remote, value=0xFFFFFFFF))
        ends.qp.quiet()
        return old[1:].tolist(), int(narrow[0]), int(shmem.g(ends.array[:1], 1))

    assert of_pe_0(body) == ([5, 8], 8, 7)


def late() -> Any:
    """A source that is reused at once, after its completion, or inline."""
    ends = Ends(words=4)
    if ends.me == 0:
        source = np.array([1], np.uint64)
        nic.register(source, "")
        for i in range(3):
            wr = nic.WorkRequest(nic.WRITE, source, ends.remote, offset=8 * i, inline=i == 2)
            ends.qp.post(wr)
            if i == 1:
                ends.cq.wait(2)
            source[0] += 1
        ends.qp.quiet()
    shmem.barrier_all()
    return tuple(ends.array.tolist())


def test_a_source_is_read_late_unless_it_is_inline() -> None:
    report = explore(late, 2, "rc_strict")
    assert (report.ok, report.complete) == (True, True)
    assert {end[1] for end in report.outcomes} == {(1, 2, 3, 0), (2, 2, 3, 0)}


# ---- receives ----


def receives(sends: int, buffers: int, rnr_retry: int) -> Any:
    """PE 0 sends, PE 1 has posted buffers before."""
    me = shmem.my_pe()
    array = shmem.zeros(4, np.uint64)
    cq, recv_cq = nic.CompletionQueue(), nic.CompletionQueue()
    qp = nic.QueuePair(1 - me, cq, recv_cq, rnr_retry=rnr_retry)
    places = [np.zeros(2, np.uint64), array[1:3], np.zeros(1, np.uint64)][:buffers]
    if me == 1:
        for each in places:
            nic.register(each, "")
            qp.post_recv(each)
    shmem.barrier_all()
    if me == 0:
        for i in range(sends):
            local = np.array([i + 1, i + 5], np.uint64)
            qp.post(nic.WorkRequest(nic.SEND_IMM, local, imm=i, inline=True))
        told = [(each.wr_id, each.status) for each in cq.wait(sends)]
        return told, qp.state
    came = [(each.wr_id, each.status, each.imm, each.nbytes) for each in recv_cq.wait(min(sends, buffers))]
    return came, [each.tolist() for each in places]


def test_what_is_sent_goes_to_the_receives_in_order() -> None:
    sent, came = shmem.run(lambda: receives(2, 2, 6), 2, profile="rc_relaxed")
    assert sent == ([(0, "ok"), (1, "ok")], "ready")
    assert came == ([(0, "ok", 0, 16), (1, "ok", 1, 16)], [[1, 5], [2, 6]])


def rests() -> Any:
    """Two receives of four words each; one takes two words, the other goes unused with its queue pair."""
    me = shmem.my_pe()
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(1 - me, cq)
    buffers = [np.full(4, 9, np.uint64), np.full(4, 9, np.uint64)]
    for each in buffers:
        nic.register(each, "")
        if me == 1:
            qp.post_recv(each)
    shmem.barrier_all()
    if me == 0:
        qp.post(nic.WorkRequest(nic.SEND, np.array([1, 5], np.uint64), inline=True))
    cq.wait()
    shmem.barrier_all()
    qp.close()
    return tuple(tuple(each.tolist()) for each in buffers)


@pytest.mark.parametrize("profile", ["rc_strict", "rc_relaxed", "udma"])
def test_what_a_send_does_not_fill_stays_as_it_was(profile: str) -> None:
    report = explore(rests, 2, profile)
    assert (report.ok, report.complete) == (True, True)
    unused = (9, 9, 9, 9)
    assert set(report.outcomes) == {((unused, unused), ((1, 5, 9, 9), unused))}


def test_what_is_too_long_for_its_receive_fails_at_both_ends() -> None:
    sent, came = shmem.run(lambda: receives(3, 3, 6), 2, profile="rc_strict")
    assert sent == ([(0, "ok"), (1, "ok"), (2, "rem_inv_req")], "error")
    assert came[0] == [(0, "ok", 0, 16), (1, "ok", 1, 16), (2, "loc_len", None, 16)]
    assert came[1][:2] == [[1, 5], [2, 6]]


def test_without_a_receive_a_request_gives_up() -> None:
    sent, came = shmem.run(lambda: receives(4, 2, 0), 2, profile="udma")
    assert sent == ([(0, "ok"), (1, "ok"), (2, "rnr_retry"), (3, "flush")], "error")
    assert came == ([(0, "ok", 0, 16), (1, "ok", 1, 16)], [[1, 5], [2, 6]])


def test_or_waits_for_ever() -> None:
    report = explore(receives, 2, "rc_strict", args=(2, 1, 7))
    assert [each.kind for each in report.failures] == ["deadlock"]


@pytest.mark.parametrize("retry", [6, 7])
@pytest.mark.parametrize("strategy", ["exhaustive", "eager"])
def test_a_receive_that_comes_later_may_be_too_late(strategy: str, retry: int) -> None:
    def program() -> Any:
        me = shmem.my_pe()
        cq = nic.CompletionQueue()
        qp = nic.QueuePair(1 - me, cq, rnr_retry=retry)
        if me == 0:
            qp.post(nic.WorkRequest(nic.SEND))
            return cq.wait()[0].status
        qp.post_recv(np.zeros(0))
        return None

    report = explore(program, 2, "rc_strict", strategy)
    assert (report.ok, report.complete) == (True, True)
    assert {end[0] for end in report.outcomes} == ({"ok", "rnr_retry"} if retry < 7 else {"ok"})


# ---- doorbells, quiet ----


def unrung(quiet: str) -> Any:
    ends = Ends(words=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1, doorbell=False))
        ends.qp.quiet() if quiet == "qp" else shmem.quiet()
    shmem.barrier_all()
    return int(ends.array[0])


def test_nothing_moves_before_the_doorbell() -> None:
    assert set(explore(unrung, 2, "openshmem", args=("shmem",)).outcomes) == {(0, 0)}
    [failure] = explore(unrung, 2, "openshmem", args=("qp",)).failures
    assert failure.kind == "deadlock"
    assert "quiet of a queue pair" in failure.text


def covered(how: str) -> Any:
    ends = Ends(words=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1))
        if how == "qp.quiet":
            ends.qp.quiet()
        elif how == "pe_quiet":
            shmem.pe_quiet(1)
        elif how == "quiet":
            shmem.quiet()
        elif how == "completion":
            ends.cq.wait()
    shmem.sync_all() if how == "completion" else shmem.barrier_all()
    return int(ends.array[0])


@pytest.mark.parametrize(
    ("profile", "how", "stale"),
    [
        ("rc_strict", "barrier", False), ("rc_strict", "quiet", False), ("rc_strict", "qp.quiet", False),
        ("rc_strict", "completion", True), ("udma", "completion", False), ("srd", "completion", True),
        ("tso", "completion", False), ("udma_engine_scoped", "barrier", True), ("udma_engine_scoped", "quiet", True),
        ("udma_engine_scoped", "pe_quiet", False), ("udma_engine_scoped", "qp.quiet", False),
    ],
)  # fmt: skip
def test_what_makes_a_request_visible(profile: str, how: str, stale: bool) -> None:
    """The rows "completion means" and "reach the queue pairs" of the table of profiles."""
    report = explore(covered, 2, profile, args=(how,))
    assert (report.ok, report.complete) == (True, True)
    assert {end[1] for end in report.outcomes} == ({0, 1} if stale else {1})


def fenced(fence: bool) -> Any:
    ends = Ends(words=2)
    if ends.me == 0:
        ends.qp.post(ends.write(1))
        if fence:
            shmem.fence()
        ends.qp.post(ends.write(1, at=1))
        return None
    shmem.wait_until(ends.array[1:], "==", 1)
    return int(ends.array[0])


@pytest.mark.parametrize(("profile", "reaches"), [("udma", True), ("srd", True), ("udma_engine_scoped", False)])
def test_fence_orders_requests(profile: str, reaches: bool) -> None:
    for fence in (False, True):
        report = explore(fenced, 2, profile, args=(fence,))
        assert (report.ok, report.complete) == (True, True)
        assert {end[1] for end in report.outcomes} == ({1} if fence and reaches else {0, 1})


# ---- segments, posters ----


def ends_a_segment() -> Any:
    ends = Ends(words=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1))
        return ends.cq.wait()[0].status
    ends.segment.close()
    return int(ends.array[0])


def test_a_segment_may_end_before_a_request_comes() -> None:
    report = explore(ends_a_segment, 2, "udma")
    assert (report.ok, report.complete) == (True, True)
    assert set(report.outcomes) == {("ok", 1), ("rem_access", 0)}
    assert set(explore(ends_a_segment, 2, "udma", "eager").outcomes) == set(report.outcomes)


def registers_late(n: int) -> Any:
    array, other = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    me, cq = shmem.my_pe(), nic.CompletionQueue()
    if me == 1:
        nic.register(np.zeros(4))  # what else is registered does not matter
        nic.register(other)
        segments = [nic.register(array, "r"), nic.register(array)]
        shmem.wait_until(array, "==", 3)
        return segments[1].rights
    segments = [nic.register(array), nic.register(array)]
    qp = nic.QueuePair(1, cq, rnr_retry=0)
    qp.post(nic.WorkRequest(nic.WRITE, np.array([3], np.uint64), nic.import_segment(segments[n], 1), inline=True))
    return cq.wait()[0].status


def test_an_import_waits_for_the_registration_of_the_same_number() -> None:
    assert set(explore(registers_late, 2, "rc_strict", args=(1,)).outcomes) == {("ok", "rwa")}
    [failure] = explore(registers_late, 2, "rc_strict", args=(0,)).failures
    assert failure.kind == "exception" or failure.kind == "deadlock"


def two_posters() -> Any:
    ends = Ends(words=2)
    if ends.me == 0:
        shmem.workers(2, lambda i: ends.qp.post(ends.write(i + 1, at=i)))
        told = [each.wr_id for each in ends.cq.wait(2)]
        ends.qp.quiet()
        assert told == [0, 1]
    shmem.barrier_all()
    return tuple(ends.array.tolist())


def test_workers_may_post_one_after_the_other() -> None:
    report = explore(two_posters, 2, "udma")
    assert (report.ok, report.complete) == (True, True)
    assert {end[1] for end in report.outcomes} == {(1, 2)}
