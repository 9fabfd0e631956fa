"""Ring accounting of a queue pair: free-running positions, blocks, what a polled completion gives back."""

from __future__ import annotations

import pytest

from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.profiles import NAMED
from shmem.delivery.queues import POSITIONS, QueueState
from shmem.delivery.requests import Key, Kind, Place, Request, units_of


def request(number: int, **more: object) -> Request:
    return Request((0, number), Kind.WRITE, "qp", 1, Place(1, 0, 8), (), ring=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [0, 5, POSITIONS - 3])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_as_many_requests_fit_as_the_depth_has_room_for(first: int, blocks: int) -> None:
    """Also where the 32-bit positions wrap."""
    queue = QueueState("cq", depth=8, pi=first, ci=first)
    for number in range(8 // blocks):
        assert queue.room(blocks)
        queue.add(request(number, blocks=blocks))
    assert not queue.room(blocks)
    assert queue.room(8 % blocks) or 8 % blocks == 0


def test_a_completion_gives_back_all_blocks_up_to_its_own() -> None:
    queue = QueueState("cq", depth=8, pi=POSITIONS - 2, ci=POSITIONS - 2)
    for number, blocks in enumerate((1, 2, 3, 2)):
        queue.add(request(number, blocks=blocks))
    assert not queue.room(1)
    queue.poll((0, 2))
    assert (queue.ci, queue.room(6), queue.room(7)) == (4, True, False)
    queue.poll((0, 3))
    assert queue.ci == queue.pi == 6


def test_after_a_request_that_fails_all_are_flushed_in_order() -> None:
    queue = QueueState("cq")
    flight: dict[Key, Request] = {(0, i): request(i, bad="rem_access" if i == 1 else "") for i in range(4)}
    for each in flight.values():
        queue.add(each)
    assert [each.bad for each in flight.values()] == ["", "rem_access", "flush", "flush"]
    queue.retire(flight[0, 0])
    assert not queue.failed
    queue.retire(flight[0, 1])
    assert queue.failed
    queue.reset()
    queue.add(late := request(9))
    assert (late.bad, queue.pi, queue.failed) == ("", 1, False)


def test_nobody_sees_what_a_failed_request_would_have_written() -> None:
    """On an ordered machine loads of a PE find what it has still to place: not what will never be placed."""
    machine = Machine(NAMED["tso"], Memory())
    machine.memory.spaces.update({0: bytearray(8), 1: bytearray(8)})
    machine.queue_pair("qp", "cq", 64)
    word = Place(1, 0, 8)
    machine.post(request(0, data=b"\1" * 8))
    assert machine.load(0, word) == b"\1" * 8
    nowhere = Request((0, 1), Kind.WRITE, "qp", 1, Place(("nowhere", 1), 0, 8), (), ring=True, bad="rem_access")
    machine.post(nowhere)
    assert machine.load(0, word) == b"\1" * 8
    machine.post(flushed := request(2, data=b"\2" * 8))
    assert (flushed.bad, machine.load(0, word)) == ("flush", b"\1" * 8)


@pytest.mark.parametrize(
    ("lo", "hi", "unit", "wanted"),
    [
        (0, 0, 8, ()),
        (0, 8, 8, ((0, 8),)),
        (3, 20, 8, ((3, 8), (8, 16), (16, 20))),
        (3, 5, 8, ((3, 5),)),
        (6, 9, 1, ((6, 7), (7, 8), (8, 9))),
        (100, 8200, 4096, ((100, 4096), (4096, 8192), (8192, 8200))),
    ],
)
def test_units_are_the_aligned_pieces(lo: int, hi: int, unit: int, wanted: object) -> None:
    assert units_of(lo, hi, unit) == wanted


def test_units_of_a_result_in_several_places_end_at_their_borders() -> None:
    pieces = [Place("a", 0, 4), Place("b", 8, 20), Place("c", 0, 2)]
    assert units_of(16, 34, 8, pieces) == ((16, 20), (20, 24), (24, 32), (32, 34))
    made = Request((0, 0), Kind.READ, "qp", 1, Place(1, 16, 34), (), result=pieces[0], rest=tuple(pieces[1:]))
    assert [made.landing(lo - 16, hi - 16) for lo, hi in units_of(16, 34, 8, pieces)] == [
        Place("a", 0, 4), Place("b", 8, 12), Place("b", 12, 20), Place("c", 0, 2),
    ]  # fmt: skip
