"""Routing in vectorised NumPy against the rules of the contract written as loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shmem.errors as errors
from moe_ep import reference
from moe_ep.routing import route


@st.composite
def routings(draw):
    """(topk_idx [T,K], E, R, rank): different experts in a token, any of them missing."""
    ranks, per_rank = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    experts = ranks * per_rank
    topk = draw(st.integers(1, min(experts, 32)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    tokens = draw(st.sampled_from([0, 1, 2, 7, 40]))
    idx = rng.permuted(np.tile(np.arange(experts), (tokens, 1)), axis=1)[:, :topk].astype(np.int64)
    idx[rng.random(idx.shape) < draw(st.sampled_from([0, 0.5, 1]))] = -1
    return idx, experts, ranks, draw(st.integers(0, ranks - 1))


@settings(max_examples=150, deadline=None)
@given(routings())
def test_routing_equals_the_rules_as_loops(case):
    idx, experts, ranks, rank = case
    per_rank, limit = experts // ranks, 50
    found = route(idx, experts, ranks, rank, limit)
    slots = np.full(idx.shape, -1, np.int32)
    used, pairs = [0] * ranks, []
    for token, chosen in enumerate(idx):
        for to in range(ranks):
            mine = reference.owned_positions(chosen, to, per_rank)
            assert found.master[token, to] == (mine[-1] if mine else -1)
            if mine:
                slots[token, mine[-1]] = rank * limit + used[to]
                pairs.append((token, to, used[to]))
                used[to] += 1
    assert np.array_equal(found.slots, slots)
    assert found.rank_counts.tolist() == used
    assert found.expert_counts.tolist() == [int((idx == e).sum()) for e in range(experts)]
    own = [(token, rank, slot) for slot, token in enumerate(found.own_token.tolist())]
    far = list(zip(found.token.tolist(), found.rank.tolist(), found.slot.tolist(), strict=True))
    assert sorted(own + far) == sorted(pairs)
    assert found.num_pairs == len(pairs)
    assert far == sorted(far, key=lambda pair: (pair[0], (pair[1] - rank - 1) % ranks))


@pytest.mark.parametrize(("token", "value"), [(0, -2), (2, 8), (1, 1 << 40)])
def test_an_id_out_of_range_is_named_with_its_place(token, value):
    idx = np.array([[0, 1], [2, 3], [4, 5]], np.int64)
    idx[token, 1] = value
    with pytest.raises(errors.RoutingError, match=rf"topk_idx\[{token}, 1\] is {value}"):
        route(idx, 8, 2, 0, 4)


def test_an_expert_twice_is_named_with_its_token():
    idx = np.array([[0, 1, -1, -1], [2, 7, 3, 7]], np.int64)
    with pytest.raises(errors.RoutingError, match=r"topk_idx\[1\] selects expert 7 twice"):
        route(idx, 8, 2, 0, 4)
