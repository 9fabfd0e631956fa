"""Puts that several queue pairs carry: what the pieces may do to one another, and what puts them in order again."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import explore
from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.profiles import Profile, varied
from shmem.delivery.requests import Kind, Place, Request
from shmem.errors import ArgumentError
from tests.launcher.cells import FULL

WORDS = 4
OLD, NEW = [0] * WORDS, [1, 2, 3, 4]


def striped(base: str = "rc_strict", stripes: int = 2, **changes: Any) -> Profile:
    return varied(base, **{"unit": 8, "stripe_bytes": 16, "stripes": stripes, **changes})


def told(how: str) -> list[int] | None:
    """PE 0 puts some words and tells PE 1, which returns what is there then."""
    data, flag = shmem.zeros(WORDS, np.uint64), shmem.zeros(1, np.uint64)
    new = np.array(NEW, np.uint64)
    if shmem.my_pe() == 0:
        if how == "signal":
            shmem.put_signal(data, new, 1, flag, 1, shmem.SIGNAL_SET)
        elif how == "signal_nbi":
            shmem.put_signal_nbi(data, new, 1, flag, 1, shmem.SIGNAL_SET)
        else:
            (shmem.put_nbi if how.endswith("nbi") else shmem.put)(data, new, 1)
            if how.startswith("fence"):
                shmem.fence()
            elif how == "quiet":
                shmem.quiet()
            elif how == "pe_quiet":
                shmem.pe_quiet([1])
            if how == "atomic":
                shmem.atomic_set(flag, 1, 1)
            else:
                shmem.p(flag, 1, 1)
        return None
    shmem.wait_until(flag, "==", 1)
    return data.tolist()  # type: ignore[no-any-return]


def seen(how: str, profile: Profile, strategy: str = "exhaustive") -> set[tuple[int, ...]]:
    report = explore(told, 2, profile, strategy, args=(how,))
    assert report.complete
    return {got for _, got in report.outcomes}


@pytest.mark.parametrize("how", ["nothing", "nbi", "atomic"])
def test_a_flag_passes_the_pieces_on_other_queue_pairs(how: str) -> None:
    """One queue pair keeps its order. Of two the second carries the second piece, whose words come as they like."""
    assert seen(how, striped(stripes=1)) == {(1, 2, 3, 4)}
    assert seen(how, striped()) == {(1, 2, third, fourth) for third in (0, 3) for fourth in (0, 4)}


def test_with_as_many_queue_pairs_as_pieces_only_the_first_is_before_the_flag() -> None:
    assert seen("nothing", striped(stripes=4, stripe_bytes=8)) == {
        (1, *rest) for rest in itertools.product((0, 2), (0, 3), (0, 4))
    }


@pytest.mark.parametrize("how", ["fence", "quiet", "pe_quiet", "signal", "signal_nbi"])
@pytest.mark.parametrize("base", ["rc_strict", "rc_relaxed", "udma", "srd", "openshmem"])
def test_fence_quiet_and_the_own_signal_wait_for_all_pieces(how: str, base: str) -> None:
    assert seen(how, striped(base)) == {tuple(NEW)}


@pytest.mark.parametrize("how", ["nothing", "signal"] if FULL else ["signal"])
def test_the_reductions_lose_nothing(how: str) -> None:
    assert seen(how, striped(), "eager") == seen(how, striped())


def test_an_ordered_machine_stays_one() -> None:
    assert seen("nothing", striped("tso")) == {tuple(NEW)}


def test_a_fence_that_misses_the_queues_misses_the_pieces() -> None:
    assert tuple(OLD) in seen("fence nbi", striped("udma_engine_scoped"))
    assert seen("fence nbi", striped("udma")) == {tuple(NEW)}


def test_inside_a_piece_nothing_waits_for_its_signal() -> None:
    """The signal is on a queue pair of the put, but no part of a piece: the words of the last may come in any order."""

    def polled() -> list[int] | None:
        data, flag = shmem.zeros(WORDS, np.uint64), shmem.zeros(1, np.uint64)
        if shmem.my_pe() == 0:
            shmem.put_signal(data, np.array(NEW, np.uint64), 1, flag, 1, shmem.SIGNAL_SET)
            return None
        shmem.wait_until(data[3:], "==", 4)
        return data.tolist()  # type: ignore[no-any-return]

    report = explore(polled, 2, striped())
    assert report.complete
    assert {got for _, got in report.outcomes} == {(*rest, 4) for rest in itertools.product((0, 1), (0, 2), (0, 3))}


def pieces(profile: Profile, lo: int, n: int) -> list[tuple[int, int, int]]:
    """Where the pieces of a put of n bytes lie, and on which queue pair each is."""
    found: list[tuple[int, int, int]] = []
    post = Machine.post

    def noted(machine: Machine, request: Request) -> None:
        if request.kind is Kind.WRITE and request.pe == 0:
            found.append((request.at.lo - lo, request.at.hi - lo, request.stripe))
        post(machine, request)

    def program() -> None:
        block = shmem.zeros(lo + n, np.uint8)
        if shmem.my_pe() == 0:
            shmem.put(block[lo:], np.ones(n, np.uint8), 1)

    Machine.post = noted  # type: ignore[method-assign]
    try:
        shmem.run(program, 2, profile=profile)
    finally:
        Machine.post = post  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize(
    ("lo", "n", "expected"),
    [
        (0, 16, [(0, 16, 0)]),
        (0, 17, [(0, 16, 0), (16, 17, 1)]),
        (8, 16, [(0, 8, 0), (8, 16, 1)]),  # at multiples of 16 in the target's heap: aligned units stay whole
        (8, 8, [(0, 8, 0)]),
        (0, 80, [(0, 16, 0), (16, 32, 1), (32, 48, 2), (48, 64, 0), (64, 80, 1)]),
    ],
)
def test_puts_are_cut_at_aligned_pieces_that_take_turns(lo: int, n: int, expected: list[tuple[int, int, int]]) -> None:
    assert pieces(striped(stripes=3), lo, n) == expected


def test_without_stripes_nothing_is_cut() -> None:
    assert pieces(striped(stripes=1), 0, 80) == [(0, 80, 0)]


@pytest.mark.parametrize("changes", [{"stripes": 0}, {"stripe_bytes": 24}, {"unit": 64, "stripe_bytes": 32}])
def test_stripes_of_nonsense_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match="stripe"):
        striped(**changes)  # type: ignore[arg-type]


def test_only_a_fence_orders_requests_of_different_queue_pairs() -> None:
    machine = Machine(striped(), Memory())
    machine.memory.spaces[1] = bytearray(64)

    def waits_for(stripe: int) -> set[int]:
        """Which of the earlier ones a new request has to wait for."""
        request = Request(machine.name(0), Kind.WRITE, "q", 1, Place(1, 0, 8), (), data=bytes(8), stripe=stripe)
        machine.post(request)
        return {number for (_, number), *_ in request.gates}

    assert [waits_for(0), waits_for(1), waits_for(0), waits_for(1)] == [set(), set(), {0}, {1}]
    machine.fence(0, "q")
    assert waits_for(1) == {0, 1, 2, 3}
