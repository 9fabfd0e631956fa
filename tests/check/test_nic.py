"""Queue pairs on `sim`: rings, errors, receives, late sources, and what quiet covers, with values counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore
from shmem.delivery.profiles import varied
from shmem.errors import (
    ArgumentError,
    CompletionError,
    CompletionQueueOverrun,
    DtypeError,
    InvalidPE,
    NotSymmetric,
    QueueFull,
    QueueStateError,
    StateError,
)

WORDS = 8


class Ends:
    """Two PEs with an array each, registered, and a queue pair to the other."""

    def __init__(self, rights: str = "rwa", words: int = WORDS, cq: int = 64, **more: Any) -> None:
        self.me = shmem.my_pe()
        self.there = 1 - self.me
        self.array = shmem.zeros(words, np.uint64)
        self.segment = nic.register(self.array, rights)
        self.remote = nic.import_segment(self.segment, self.there)
        self.cq = nic.CompletionQueue(cq)
        self.qp = nic.QueuePair(self.there, self.cq, **more)
        shmem.barrier_all()

    def write(self, *values: int, at: int = 0, **more: Any) -> nic.WorkRequest:
        """A WRITE of some words, inline."""
        local = np.array(values, np.uint64)
        return nic.WorkRequest(nic.WRITE, local=local, remote=self.remote, offset=8 * at, inline=True, **more)


def of_pe_0(body: Callable[[Ends], Any], profile: Any = "rc_strict", **more: Any) -> Any:
    """What PE 0 gets from `body`, in the usual order; PE 1 only takes part in barriers."""

    def main() -> Any:
        ends = Ends(**more)
        found = body(ends) if ends.me == 0 else None
        shmem.barrier_all()
        return found

    return shmem.run(main, 2, profile=profile)[0]


# ---- rings ----

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


# ---- failures ----


def test_what_fails_is_told_in_order_and_once() -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(ends.write(1))
        ends.qp.post(ends.write(2, at=WORDS, signaled=False))  # beyond the segment
        ends.qp.post(ends.write(3, at=1, signaled=False))
        ends.qp.post(ends.write(4, at=2))
        told = [(each.status, each.wr_id) for each in ends.cq.wait(4)]
        assert (ends.qp.state, ends.qp.error.wr_id, ends.qp.error.status) == ("error", 1, "rem_access")
        ends.qp.post(ends.write(5, at=3))
        told += [(each.status, each.wr_id) for each in ends.cq.wait()]
        ends.qp.reset()
        ends.qp.post(ends.write(6, at=4))
        told += [(each.status, each.wr_id) for each in ends.cq.wait()]
        there = np.zeros(WORDS, np.uint64)
        shmem.get(there, ends.array, 1)
        return told, there.tolist(), ends.qp.state

    told, there, state = of_pe_0(body)
    assert told == [("ok", 0), ("rem_access", 1), ("flush", 2), ("flush", 3), ("flush", 4), ("ok", 5)]
    assert (there, state) == ([1, 0, 0, 0, 6, 0, 0, 0], "ready")


@pytest.mark.parametrize(
    "quiet", [lambda ends: ends.qp.quiet(), lambda ends: shmem.quiet(), lambda ends: shmem.pe_quiet(1)]
)
def test_quiet_raises_once_for_a_failure(quiet: Callable[[Ends], None]) -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(ends.write(1, at=WORDS))
        ends.qp.post(ends.write(2))
        with pytest.raises(CompletionError, match="request 0 to PE 1 ended with rem_access") as caught:
            quiet(ends)
        quiet(ends)
        return caught.value.pe, caught.value.wr_id, caught.value.status

    assert of_pe_0(body) == (1, 0, "rem_access")


FAULTS: dict[str, tuple[str, str, Callable[[Ends], dict[str, Any]]]] = {
    "beyond the end": ("rwa", "rem_access", lambda ends: {"offset": 8 * WORDS - 4}),
    "before the start": ("rwa", "rem_access", lambda ends: {"offset": -8}),
    "no right to write": ("ra", "rem_access", lambda ends: {}),
    "for the own PE only": ("", "rem_access", lambda ends: {}),
    "no right to read": ("wa", "rem_access", lambda ends: {"opcode": nic.READ}),
    "no right to add": ("rw", "rem_access", lambda ends: {"opcode": nic.FAA}),
    "a word that is not aligned": ("a", "rem_inv_req", lambda ends: {"opcode": nic.CAS, "offset": 4}),
    "a bad key": ("rwa", "rem_access", lambda ends: {"remote": nic.Segment(1, 12345, 64, "rwa")}),
    "private memory": ("rwa", "loc_access", lambda ends: {"local": np.zeros(1, np.uint64)}),
    "a notify beyond the end": (
        "rwa", "rem_access", lambda ends: {"opcode": nic.WRITE_NOTIFY, "notify": (ends.remote, 8 * WORDS, 1)}
    ),
    "a notify that is not aligned": (
        "rwa", "rem_inv_req", lambda ends: {"opcode": nic.WRITE_NOTIFY, "notify": (ends.remote, 4, 1)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_has_its_status_and_moves_nothing(what: str) -> None:
    rights, status, change = FAULTS[what]

    def body(ends: Ends) -> Any:
        given = {"opcode": nic.WRITE, "local": ends.array[:1], "remote": ends.remote, "value": 1, **change(ends)}
        ends.array[0] = 7
        ends.qp.post(nic.WorkRequest(**given))
        [told] = ends.cq.wait()
        there = np.zeros(WORDS, np.uint64)
        shmem.get(there, ends.array, 1)
        return told.status, there.tolist(), int(ends.array[0])

    assert of_pe_0(body, rights=rights) == (status, [0] * WORDS, 7)


def test_no_bytes_need_no_key() -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(nic.WorkRequest(nic.WRITE, remote=nic.Segment(1, 12345, 64, "rwa"), offset=-4))
        ends.qp.post(nic.WorkRequest(nic.NOP))
        return [each.status for each in ends.cq.wait(2)]

    assert of_pe_0(body, rights="") == ["ok", "ok"]


REFUSED: dict[str, tuple[type[Exception], str, Callable[[Ends], Any]]] = {
    "an order": (ArgumentError, "order='loose'", lambda ends: ends.write(1, order="loose")),
    "no remote": (ArgumentError, "needs a remote", lambda ends: nic.WorkRequest(nic.WRITE, local=ends.array)),
    "a remote": (ArgumentError, "no remote", lambda ends: nic.WorkRequest(nic.SEND, remote=ends.remote)),
    "no immediate": (ArgumentError, "imm=None", lambda ends: nic.WorkRequest(nic.SEND_IMM)),
    "an immediate": (ArgumentError, "no immediate", lambda ends: ends.write(1, imm=3)),
    "a large immediate": (ArgumentError, "64 bits", lambda ends: nic.WorkRequest(nic.SEND_IMM, imm=1 << 64)),
    "inline": (ArgumentError, "216 bytes inline, 208 fit", lambda ends: ends.write(*range(27))),
    "inline READ": (
        ArgumentError, "inline", lambda ends: nic.WorkRequest(nic.READ, ends.array, ends.remote, inline=True)
    ),
    "pieces": (
        ArgumentError, "14 pieces", lambda ends: nic.WorkRequest(nic.WRITE, [ends.array[:1]] * 14, ends.remote)
    ),
    "pieces of READ": (
        ArgumentError, "7 pieces", lambda ends: nic.WorkRequest(nic.READ, [ends.array[:1]] * 7, ends.remote)
    ),
    "a wide atomic": (ArgumentError, "4 or 8", lambda ends: nic.WorkRequest(nic.FAA, ends.array, ends.remote)),
    "an operand": (
        ArgumentError, "value=-1", lambda ends: nic.WorkRequest(nic.FAA, ends.array[:1], ends.remote, value=-1)
    ),
    "no notify": (ArgumentError, "notify", lambda ends: nic.WorkRequest(nic.WRITE_NOTIFY, ends.array, ends.remote)),
    "NOP with bytes": (ArgumentError, "moves nothing", lambda ends: nic.WorkRequest(nic.NOP, ends.array)),
    "an opcode": (DtypeError, "opcode", lambda ends: nic.WorkRequest(1)),  # type: ignore[arg-type]
    "RECEIVE": (DtypeError, "opcode", lambda ends: nic.WorkRequest(nic.RECEIVE)),
    "an offset": (DtypeError, "offset", lambda ends: nic.WorkRequest(nic.WRITE, ends.array, ends.remote, 0.5)),  # type: ignore[arg-type]
    "no request": (ArgumentError, "no work request", lambda ends: "write"),
    "a list": (DtypeError, "local", lambda ends: nic.WorkRequest(nic.WRITE, [1, 2], ends.remote)),  # type: ignore[list-item]
    "steps": (ArgumentError, "contiguous", lambda ends: nic.WorkRequest(nic.WRITE, ends.array[::2], ends.remote)),
    "a segment of another": (
        ArgumentError, "of PE 0", lambda ends: nic.WorkRequest(nic.WRITE, ends.array, ends.segment)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_posted_is_refused_and_nothing_is(what: str) -> None:
    kind, text, make = REFUSED[what]

    def body(ends: Ends) -> Any:
        with pytest.raises(kind, match=text):
            ends.qp.post(make(ends))
        return ends.qp.post(ends.write(1)), ends.qp.sq["blocks"].tolist()[:2]

    assert of_pe_0(body) == (0, [1, 0])


def test_a_list_stops_at_the_first_bad_one() -> None:
    def body(ends: Ends) -> Any:
        with pytest.raises(ArgumentError, match="order") as caught:
            ends.qp.post_many([ends.write(1), ends.write(2, at=1), ends.write(3, order="?"), ends.write(4)])
        ends.cq.wait(2)
        shmem.get(there := np.zeros(WORDS, np.uint64), ends.array, 1)
        more = ends.qp.post_many([ends.write(5, at=2), ends.write(6, at=3)], doorbell="each")
        with pytest.raises(ArgumentError, match="doorbell='once'"):
            ends.qp.post_many([], doorbell="once")
        return caught.value.posted, there.tolist()[:3], more  # type: ignore[attr-defined]

    assert of_pe_0(body) == ([0, 1], [1, 2, 0], [2, 3])


def test_queues_are_made_with_care_and_closed_in_order() -> None:
    def body(ends: Ends) -> Any:
        wrong: list[tuple[type[Exception], Callable[[], Any]]] = [
            (QueueStateError, lambda: nic.QueuePair(1, ends.cq)),
            (InvalidPE, lambda: nic.QueuePair(2, ends.cq)),
            (ArgumentError, lambda: nic.QueuePair(1, ends.cq, depth=3, index=1)),
            (ArgumentError, lambda: nic.QueuePair(1, ends.cq, index=1, rnr_retry=8)),
            (ArgumentError, lambda: nic.QueuePair(1, "cq", index=1)),  # type: ignore[arg-type]
            (ArgumentError, lambda: nic.CompletionQueue(0)),
            (DtypeError, lambda: nic.CompletionQueue(1.5)),  # type: ignore[arg-type]
            (ArgumentError, lambda: nic.register(ends.array, "rx")),
            (ArgumentError, lambda: nic.register(ends.array[::2])),
            (DtypeError, lambda: nic.register([1])),  # type: ignore[arg-type]
            (StateError, lambda: nic.import_segment(ends.remote, 1)),
            (NotSymmetric, lambda: nic.import_segment(nic.register(np.zeros(1)), 1)),
            (ArgumentError, lambda: ends.cq.wait(65)),
            (QueueStateError, ends.cq.close),
        ]
        for kind, call in wrong:
            with pytest.raises(kind):
                call()
        ends.qp.post(ends.write(1, doorbell=False))
        with pytest.raises(QueueStateError, match="unfinished"):
            ends.qp.close()
        ends.qp.doorbell()
        shmem.quiet()
        ends.qp.close()
        ends.qp.close()
        with pytest.raises(QueueStateError, match="closed"):
            ends.qp.post(ends.write(1))
        told = [each.status for each in ends.cq.poll()]
        ends.cq.close()
        with pytest.raises(QueueStateError, match="closed"):
            ends.cq.poll()
        again = nic.QueuePair(1, nic.CompletionQueue())
        again.post(ends.write(2))
        again.quiet()
        return ends.qp.state, told

    assert of_pe_0(body) == ("reset", ["ok"])


def test_a_profile_may_refuse_the_own_pe_or_atomics() -> None:
    def to_itself(ends: Ends) -> Any:
        cq = nic.CompletionQueue()
        qp, own = nic.QueuePair(0, cq), nic.import_segment(ends.segment, 0)
        qp.post(nic.WorkRequest(nic.WRITE, np.array([5], np.uint64), own, inline=True))
        cq.wait()
        shmem.quiet()
        return int(ends.array[0])

    def add(ends: Ends) -> Any:
        ends.qp.post(nic.WorkRequest(nic.FAA, ends.array[:1], ends.remote, value=1))

    assert of_pe_0(to_itself) == 5
    with pytest.raises(InvalidPE, match="profile udma"):
        of_pe_0(to_itself, "udma")
    with pytest.raises(ArgumentError, match="profile srd"):
        of_pe_0(add, "srd")


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


# ---- completion queues, segments, posters ----


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


def test_suspended_and_going_on() -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(ends.write(1, at=WORDS))
        ends.qp.post(ends.write(2))
        told = [each.status for each in ends.cq.wait()]
        state = ends.qp.state
        ends.qp.reset()
        ends.qp.post(ends.write(3, at=1))
        ends.cq.wait()
        ends.qp.quiet()
        shmem.get(there := np.zeros(2, np.uint64), ends.array[:2], 1)
        return told, state, there.tolist()

    assert of_pe_0(body, varied("udma", on_error="suspend")) == (["rem_access"], "suspended", [0, 3])
    told, state, there = of_pe_0(body, varied("udma", on_error="go_on"))
    assert (told, state, there) == (["rem_access"], "ready", [2, 3])
