"""Requests of queue pairs on `sim` that fail, and what is refused before: who is told, how often, and what moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.delivery.profiles import varied
from shmem.errors import (
    ArgumentError,
    CompletionError,
    DtypeError,
    InvalidPE,
    NotSymmetric,
    QueueStateError,
    StateError,
)

from .nic_pair import WORDS, Ends, of_pe_0


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
