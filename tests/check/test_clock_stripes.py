"""Virtual time of puts that several queue pairs carry, of rails, and of fences, against closed forms as in
`test_clock`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.delivery.model import Link, Model
from shmem.delivery.profiles import NAMED, Profile, varied

from .test_clock import SIGNAL, G, L, S, about, data, g, measured, r, times, us

PIECE = 512
PIECES = 8


def railed(rails: int, **changes: Any) -> Model:
    link = Link(**{"latency_us": L, "bandwidth_GBps": 1e-3 / G, "rails": rails, **changes})
    return Model(f"{rails} rails", {"network": link}, receive_us=r)


def striped(stripes: int, base: str = "rc_strict") -> Profile:
    return varied(base, stripes=stripes, stripe_bytes=PIECE)


def large(pe: Any) -> None:
    me, box, _ = pe
    if me == 0:
        shmem.put(box[: PIECES * PIECE], data(PIECES * PIECE), 1)
        shmem.quiet()


@pytest.mark.parametrize(("rails", "stripes"), [(1, 1), (1, 4), (2, 2), (4, 2), (4, 4), (4, 8), (8, 8)])
def test_stripes_have_the_bandwidth_of_their_rails(rails: int, stripes: int) -> None:
    """Pieces without gap or overhead: those of one rail follow one another."""
    used = min(rails, stripes)
    flow = S(PIECES * PIECE) if stripes == 1 else PIECES // used * S(PIECE)
    assert times(large, 2, railed(rails), striped(stripes)) == about(flow + 2 * L + r, 0)


def test_stripes_are_limited_by_the_processor_that_posts_their_pieces() -> None:
    slow = 50.0
    found = times(large, 2, railed(8, overhead_us=slow), striped(8))
    assert found == about(PIECES * slow + S(PIECE) + 2 * L + r, 0)


def test_what_is_in_pieces_is_as_many_messages() -> None:
    found = measured(large, 2, railed(4), striped(4))
    assert (found.messages, found.bytes) == (PIECES, PIECES * PIECE)


@pytest.mark.parametrize("stripes", [1, 4])
def test_the_signal_of_a_striped_put_leaves_when_all_pieces_are_acknowledged(stripes: int) -> None:
    def part(pe: Any) -> None:
        me, box, signal = pe
        if me == 0:
            shmem.put_signal(box[: PIECES * PIECE], data(PIECES * PIECE), 1, signal, 1, shmem.SIGNAL_SET)
        else:
            shmem.signal_wait_until(signal, "==", 1)
            assert (box[: PIECES * PIECE] == data(PIECES * PIECE)).all()

    together = S(PIECES * PIECE + SIGNAL) + L + r
    apart = PIECES // stripes * S(PIECE) + 2 * L + S(SIGNAL) + L + r
    found = times(part, 2, railed(4), striped(stripes))
    assert found[1] == pytest.approx(together if stripes == 1 else apart)


FREE = {"rc_strict", "tso", "udma_engine_scoped"}  # in order by itself; or the fence misses the queue


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_fence_costs_completions_where_the_queue_pair_keeps_no_order(name: str) -> None:
    costs: list[float] = []

    def part(pe: Any) -> None:
        me, box, signal = pe
        source = data(800)
        if me == 0:
            shmem.put_nbi(box[:800], source, 1)
            start = us()
            shmem.fence()
            costs.append(us() - start)
            shmem.signal_set(signal, 1, 1)
            shmem.pe_quiet([1])
        else:
            shmem.signal_wait_until(signal, "==", 1)
            if name != "udma_engine_scoped":
                assert (box[:800] == data(800)).all()

    measured(part, 2, profile=name)
    assert costs == about(0 if name in FREE else S(800) + 2 * L + r)


@pytest.mark.parametrize(("stripes", "cost"), [(1, 0.0), (2, S(PIECE) + 2 * L + r)])
def test_a_fence_under_rc_strict_costs_only_with_several_queue_pairs(stripes: int, cost: float) -> None:
    costs: list[float] = []

    def part(pe: Any) -> None:
        me, box, _ = pe
        if me == 0:
            shmem.put(box[: 2 * PIECE], data(2 * PIECE), 1)
            start = us()
            shmem.fence()
            costs.append(us() - start)

    measured(part, 2, railed(2), striped(stripes))
    assert costs == about(cost)


@pytest.mark.parametrize("rails", [1, 2])
def test_contexts_take_the_rails_in_turn(rails: int) -> None:
    ends: list[float] = []

    def part(pe: Any) -> None:
        me, box, _ = pe
        contexts = [shmem.ctx_create() for _ in range(2)]
        if me == 0:
            start = us()
            for ctx in contexts:
                shmem.put(box[:1000], data(1000), 1, ctx=ctx)
            for ctx in contexts:
                shmem.quiet(ctx)
            ends.append(us() - start)

    measured(part, 2, railed(rails))
    assert ends == about((2 if rails == 1 else 1) * S(1000) + 2 * L + r)


def test_a_gap_is_between_messages_of_one_port_only() -> None:
    """To PEs of the own node and of another one a PE has ports of their own."""

    def part(pe: Any) -> None:
        me, box, _ = pe
        if me == 0:
            for target in (1, 2):
                shmem.put(box[:1000], np.zeros(1000, np.uint8), target)
            shmem.quiet()

    link = Link(L, 0.0, g, 1e-3 / G)
    apart = Model("apart", {"node": link, "network": link}, pes_per_node=2, receive_us=r)
    together = replace(apart, pes_per_node=0)
    assert times(part, 3, apart)[0] == pytest.approx(S(1000) + 2 * L + r)
    assert times(part, 3, together)[0] == pytest.approx(2 * S(1000) + g + 2 * L + r)
