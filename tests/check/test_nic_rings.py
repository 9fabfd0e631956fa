"""Rings of queue pairs on `sim`: the room that requests take, what gives it back, and the order of completions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore
from shmem.delivery.profiles import NAMED
from shmem.errors import CompletionQueueOverrun, QueueFull

from .nic_pair import Ends, of_pe_0

SIZES: list[tuple[nic.Opcode, dict[str, Any], int, int]] = [  # opcode, more, pieces of 8 bytes, blocks
    (nic.WRITE, {}, 1, 1), (nic.WRITE, {}, 2, 2), (nic.WRITE, {}, 13, 4), (nic.WRITE, {"inline": True}, 2, 1),
    (nic.WRITE, {"inline": True}, 3, 2), (nic.WRITE, {"inline": True}, 26, 4), (nic.WRITE_IMM, {"imm": 1}, 1, 2),
    (nic.WRITE_IMM, {"imm": 1}, 12, 4), (nic.WRITE_IMM, {"imm": 1, "inline": True}, 24, 4), (nic.READ, {}, 1, 1),
    (nic.READ, {}, 6, 3), (nic.SEND, {}, 0, 1), (nic.SEND_IMM, {"imm": 1}, 1, 1), (nic.NOP, {}, 0, 1),
    (nic.CAS, {}, 1, 2), (nic.FAA, {}, 1, 2), (nic.WRITE_NOTIFY, {}, 1, 2), (nic.WRITE_NOTIFY, {}, 11, 4),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "more", "pieces", "blocks"), SIZES)
def test_requests_take_so_many_blocks(opcode: nic.Opcode, more: dict[str, Any], pieces: int, blocks: int) -> None:
    def body(ends: Ends) -> Any:
        local = [ends.array[i : i + 1] for i in range(pieces)]
        if "inline" in more:
            local = [ends.array[:pieces]]
        remote = None if opcode in (nic.SEND, nic.SEND_IMM, nic.NOP) else ends.remote
        notify = {"notify": (ends.remote, 0, 1)} if opcode is nic.WRITE_NOTIFY else {}
        wr = nic.WorkRequest(opcode, local=local, remote=remote, doorbell=False, **more, **notify)
        for _ in range(16 // blocks):
            ends.qp.post(wr)
        with pytest.raises(QueueFull, match=rf"16 blocks, {16 // blocks * blocks} in use, .* needs {blocks}"):
            ends.qp.post(wr)
        ends.qp.reset()
        return int(ends.qp.sq["blocks"].max()), ends.qp.post(wr)

    assert of_pe_0(body, words=32, depth=16) == (0, 16 // blocks)


def test_polling_gives_ring_space_back_up_to_the_request() -> None:
    def body(ends: Ends) -> Any:
        for i in range(4):
            ends.qp.post(ends.write(i, signaled=i == 2))
        with pytest.raises(QueueFull):
            ends.qp.post(ends.write(9))
        shmem.quiet()
        [told] = ends.cq.poll()
        assert (told.wr_id, told.ok, told.nbytes, told.opcode) == (2, True, 8, nic.WRITE)
        for i in range(3):
            ends.qp.post(ends.write(i))
        with pytest.raises(QueueFull):
            ends.qp.post(ends.write(9))
        return [each.wr_id for each in ends.cq.wait(3)]

    assert of_pe_0(body, depth=4) == [4, 5, 6]


def test_who_never_signals_fills_the_ring_for_good() -> None:
    def body(ends: Ends) -> Any:
        for i in range(4):
            ends.qp.post(ends.write(i, signaled=False))
        shmem.quiet()
        assert ends.cq.poll() == []
        with pytest.raises(QueueFull):
            ends.qp.post(ends.write(9))
        ends.qp.quiet()  # this one knows that all are over
        return ends.qp.post(ends.write(9))

    assert of_pe_0(body, depth=4) == 4


def test_rings_show_laps_and_fresh_memory_is_nothing_new() -> None:
    def body(ends: Ends) -> Any:
        assert ends.cq.poll() == []
        assert ends.cq.ring["owner"].tolist() == [0, 0, 0]
        for i in range(5):
            ends.qp.post(ends.write(i))
            ends.cq.wait()
        sq, cq = ends.qp.sq, ends.cq.ring
        return [rows.tolist() for rows in (sq["owner"], sq["wr_id"], cq["owner"], cq["wr_id"], cq["entry"])]

    owner, wr_id, new, told, entry = of_pe_0(body, depth=4, cq=3)
    assert (owner, wr_id) == ([0, 1, 1, 1], [4, 1, 2, 3])  # the second lap has begun
    assert (new, told, entry) == ([0, 0, 1], [3, 4, 2], [3, 4, 2])


def test_a_completion_queue_that_is_too_small_overruns() -> None:
    def body(ends: Ends) -> Any:
        for i in range(3):
            ends.qp.post(ends.write(i))
        shmem.quiet()
        for _ in range(2):
            with pytest.raises(CompletionQueueOverrun, match="depth 2"):
                ends.cq.poll()
        with pytest.raises(CompletionQueueOverrun):
            ends.cq.wait()
        return True

    assert of_pe_0(body, cq=2)


def overruns() -> Any:
    ends = Ends(cq=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1))
        ends.qp.post(ends.write(2))
        try:
            return [len(ends.cq.wait()), len(ends.cq.wait())]
        except CompletionQueueOverrun:
            return "overrun"
    return None


def test_whether_it_overruns_depends_on_who_comes_first() -> None:
    report = explore(overruns, 2, "rc_strict")
    assert (report.ok, report.complete) == (True, True)
    assert set(report.outcomes) == {((1, 1), None), ("overrun", None)}


def two_queues() -> Any:
    ends = Ends(words=2)
    second = nic.QueuePair(ends.there, ends.cq, index=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1))
        ends.qp.post(ends.write(1))
        second.post(ends.write(2, at=1))
        return tuple((each.qp is second, each.wr_id) for each in ends.cq.wait(3))
    return None


@pytest.mark.parametrize("strategy", ["exhaustive", "random"])
def test_completions_are_in_order_on_one_queue_pair_only(strategy: str) -> None:
    report = explore(two_queues, 2, "rc_strict", strategy, budget=None if strategy == "exhaustive" else 200)
    first, then, other = (False, 0), (False, 1), (True, 0)
    assert {end[0] for end in report.outcomes} == {(first, then, other), (first, other, then), (other, first, then)}


def receives_in_turn() -> Any:
    ends = Ends(words=4)
    if ends.me == 1:
        boxes = [np.zeros(2, np.uint64) for _ in range(2)]
        for box in boxes:
            nic.register(box, "")
            ends.qp.post_recv(box)
    shmem.barrier_all()
    if ends.me == 0:
        for local in (np.array([1, 2], np.uint64), np.array([3], np.uint64)):
            ends.qp.post(nic.WorkRequest(nic.SEND, local=local, inline=True, signaled=False))
        return None
    return tuple((each.wr_id, each.nbytes) for each in ends.cq.wait(2))


@pytest.mark.parametrize("profile", ["rc_strict", "rc_relaxed", "tso", "udma", "srd"])
def test_receives_are_told_in_order_where_one_covers_all_before_it(profile: str) -> None:
    """On a reliable connection; elsewhere a receive tells of its own data alone."""
    report = explore(receives_in_turn, 2, profile)
    first, second = (0, 16), (1, 8)
    ends = {(None, (first, second))}
    if NAMED[profile].receive_covers == "own":
        ends.add((None, (second, first)))
    assert (report.ok, report.complete, set(report.outcomes)) == (True, True, ends)


def polls() -> Any:
    ends = Ends(words=1)
    if ends.me == 0:
        ends.qp.post(ends.write(1))
        turns = 0
        while not ends.cq.poll():
            turns += 1
            shmem.spin()
        return turns
    return None


@pytest.mark.parametrize("strategy", ["exhaustive", "eager"])
def test_a_loop_that_polls_may_look_too_early(strategy: str) -> None:
    report = explore(polls, 2, "rc_strict", strategy)
    assert (report.ok, report.complete, set(report.outcomes)) == (True, True, {(0, None), (1, None)})
