"""EPBuffer against the oracle, bit for bit, and its loud failures.

Every PE draws the inputs of all ranks from one seed, calls dispatch and combine with its own, and compares
what it got with its part of the oracle's answer for the whole job. A case is data: tokens of each rank,
routing, sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import shmem
from moe_ep import EPBuffer, reference

BF16 = np.dtype(ml_dtypes.bfloat16)
TM = 24


# ------------------------------------------------------------------------------------------ cases


def ragged(rank: int, ranks: int) -> int:
    return max(1, TM - 5 * rank)


def odd_ranks_empty(rank: int, ranks: int) -> int:
    return 0 if rank % 2 else TM - 1


def none(rank: int, ranks: int) -> int:
    return 0


def full(rank: int, ranks: int) -> int:
    return TM


def one(rank: int, ranks: int) -> int:
    return 1


Routing = Callable[[np.random.Generator, int, int, int, int], np.ndarray]


def uniform(rng, tokens, topk, experts, ranks):
    """K different experts out of E in random order."""
    order = rng.permuted(np.tile(np.arange(experts), (tokens, 1)), axis=1)
    return order[:, :topk].astype(np.int64)


def masked(rng, tokens, topk, experts, ranks):
    """A third of the selections is -1, in any position."""
    idx = uniform(rng, tokens, topk, experts, ranks)
    idx[rng.random(idx.shape) < 1 / 3] = -1
    return idx


def nothing(rng, tokens, topk, experts, ranks):
    return np.full((tokens, topk), -1, np.int64)


def one_hot_expert(rng, tokens, topk, experts, ranks):
    """Every token of every rank selects the last expert, and only that."""
    idx = np.full((tokens, topk), -1, np.int64)
    idx[np.arange(tokens), rng.integers(topk, size=tokens)] = experts - 1
    return idx


def every_rank(rng, tokens, topk, experts, ranks):
    """A token goes to every rank: R*Tm rows arrive everywhere when T = Tm. Needs K >= R."""
    first = np.arange(topk) % ranks * (experts // ranks) + np.arange(topk) // ranks
    return rng.permuted(np.tile(first, (tokens, 1)), axis=1).astype(np.int64)


def not_to_rank_0(rng, tokens, topk, experts, ranks):
    idx = uniform(rng, tokens, topk, experts, ranks)
    idx[idx < experts // ranks] = -1
    return idx


@dataclass(frozen=True)
class Case:
    """`per_rank` experts on each rank; `tokens(rank, R)`; `routing` draws topk_idx."""

    name: str
    tokens: Callable[[int, int], int]
    routing: Routing
    topk: int
    per_rank: int
    hidden: int = 256
    alignment: int = 1
    multiple: bool = True

    def draw(self, seed: int = 0):
        """Inputs of all ranks: xs, topk_idxs, topk_weights."""
        ranks = shmem.n_pes()
        xs, idxs, weights = [], [], []
        for rank in range(ranks):
            rng = np.random.default_rng([seed, rank, len(self.name)])
            tokens = self.tokens(rank, ranks)
            xs.append(rows(rng, tokens, self.hidden))
            idxs.append(self.routing(rng, tokens, self.topk, self.per_rank * ranks, ranks))
            weights.append(rng.random((tokens, self.topk), np.float32))
        return xs, idxs, weights


CASES = [
    Case("ragged", ragged, uniform, topk=8, per_rank=8),
    Case("ragged, masked, aligned", ragged, masked, topk=6, per_rank=7, hidden=512, alignment=128),
    Case("no tokens on odd ranks", odd_ranks_empty, uniform, topk=4, per_rank=4),
    Case("no tokens at all", none, uniform, topk=4, per_rank=4, alignment=128),
    Case("one token a rank", one, uniform, topk=2, per_rank=2),
    Case("nothing selected", full, nothing, topk=5, per_rank=1),
    Case("one hot expert", full, one_hot_expert, topk=3, per_rank=16),
    Case("one selection", full, uniform, topk=1, per_rank=1),
    Case("an expert a rank, all ranks", full, every_rank, topk=8, per_rank=8),
    Case("32 selections", full, masked, topk=32, per_rank=32),
    Case("32 selections, no sums on ranks", ragged, uniform, topk=32, per_rank=40, multiple=False),
    Case("nobody routes to rank 0", full, not_to_rank_0, topk=6, per_rank=6),
    Case("more ranks than selections", ragged, uniform, topk=2, per_rank=5, hidden=512),
]


def rows(rng: np.random.Generator, count: int, hidden: int) -> np.ndarray:
    """bf16 rows with what rounding and order can spoil: large and tiny values, both zeros."""
    values = rng.standard_normal((count, hidden), np.float32)
    values *= np.float32(2.0) ** rng.integers(-20, 20, (count, hidden)).astype(np.float32)
    values[rng.random((count, hidden)) < 0.05] = -0.0
    return values.astype(BF16)


@contextmanager
def buffer_for(case: Case, **options) -> Iterator[EPBuffer]:
    buffer = EPBuffer(
        num_max_tokens_per_rank=TM,
        hidden=case.hidden,
        num_topk=case.topk,
        allow_multiple_reduction=case.multiple,
        explicitly_destroy=True,
        **options,
    )
    yield buffer
    buffer.destroy()


def same(expected: object, actual: object, what: str, **options) -> None:
    found = reference.difference(expected, actual, what, **options)
    assert found is None, found


def check_received(expected, got, handle, what: str) -> None:
    recv_x, recv_idx, recv_weights = got
    found = reference.received_difference(
        expected,
        recv_x,
        recv_idx,
        recv_weights,
        handle.recv_src_metadata,
        handle.num_unaligned_recv_tokens_per_expert,
        what,
    )
    assert found is None, found
    # Ours is deterministic: by source, then by token, without the sorting that the comparison above does.
    same(expected.global_id, handle.recv_src_metadata[:, 0].astype(np.int64), f"{what}: order")


# ------------------------------------------------------------------------------------------ the oracle's bits


@pytest.mark.mpi
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_dispatch_gives_the_oracles_rows_and_handle(case):
    me, ranks = shmem.my_pe(), shmem.n_pes()
    xs, idxs, weights = case.draw()
    experts = case.per_rank * ranks
    expected = reference.dispatch(xs, idxs, weights, experts, TM, case.alignment)[me]
    with buffer_for(case) as buffer:
        stats = np.arange(case.per_rank, dtype=np.int32)
        *got, handle, event = buffer.dispatch(
            xs[me],
            idxs[me],
            weights[me],
            cumulative_local_expert_recv_stats=stats,
            num_experts=experts,
            expert_alignment=case.alignment,
        )
        check_received(expected, got, handle, case.name)
    assert got[1].dtype == np.int64
    assert event.event is None
    assert handle.topk_idx is idxs[me]
    assert handle.num_recv_tokens == len(expected.rows)
    assert handle.num_recv_tokens_per_expert_list == expected.aligned_counts
    same(expected.psum_ranks, handle.psum_num_recv_tokens_per_scaleup_rank, "psum of ranks")
    same(expected.psum_experts, handle.psum_num_recv_tokens_per_expert, "psum of experts")
    same(np.arange(case.per_rank, dtype=np.int32) + expected.counts, stats, "statistics")


@pytest.mark.mpi
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_slots_are_dense_and_stand_at_the_master_positions(case):
    me, ranks = shmem.my_pe(), shmem.n_pes()
    xs, idxs, _ = case.draw()
    experts = case.per_rank * ranks
    sets = reference.slot_sets(idxs, experts, TM)[me]
    with buffer_for(case) as buffer:
        *_, handle, _ = buffer.dispatch(xs[me], idxs[me], num_experts=experts)
    slots = handle.dst_buffer_slot_idx
    assert slots.shape == idxs[me].shape
    owners = np.where(idxs[me] >= 0, idxs[me] // case.per_rank, -1)
    for rank in range(ranks):
        assert set(slots[(owners == rank) & (slots >= 0)].tolist()) == sets[rank]
    for token, experts_of_token in enumerate(idxs[me]):
        for rank in range(ranks):
            positions = reference.owned_positions(experts_of_token, rank, case.per_rank)
            assert all(slots[token, k] == -1 for k in positions[:-1])


@pytest.mark.mpi
@pytest.mark.parametrize("num_biases", [0, 1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_combine_gives_the_oracles_sums_and_weights(case, num_biases):
    me, ranks = shmem.my_pe(), shmem.n_pes()
    xs, idxs, weights = case.draw()
    experts = case.per_rank * ranks
    received = reference.dispatch(xs, idxs, weights, experts, TM)
    ys = [rows(np.random.default_rng([1, r]), len(one.rows), case.hidden) for r, one in enumerate(received)]
    carried = [np.random.default_rng([2, r]).random((len(y), case.topk), np.float32) for r, y in enumerate(ys)]
    biases = [
        tuple(rows(np.random.default_rng([3, r, b]), len(x), case.hidden) for b in range(num_biases))
        for r, x in enumerate(xs)
    ]
    sums, back = reference.combine(ys, idxs, experts, carried, biases)
    bias = (None, biases[me][0] if biases[me] else None, biases[me])[num_biases]
    with buffer_for(case) as buffer:
        *_, handle, _ = buffer.dispatch(xs[me], idxs[me], num_experts=experts)
        combined, combined_weights, _ = buffer.combine(ys[me], handle, carried[me], bias=bias)
        without, no_weights, _ = buffer.combine(ys[me], handle, bias=bias)
    same(sums[me], combined, "sum", nan="position")
    same(back[me], combined_weights, "weight")
    same(sums[me], without, "sum without weights", nan="position")
    assert no_weights is None


@pytest.mark.mpi
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cached_dispatch_repeats_the_routing_for_another_x(case):
    me, ranks = shmem.my_pe(), shmem.n_pes()
    xs, idxs, weights = case.draw()
    others = [rows(np.random.default_rng([9, r]), len(x), case.hidden) for r, x in enumerate(xs)]
    experts = case.per_rank * ranks
    expected = reference.dispatch(others, idxs, weights, experts, TM)[me]
    with buffer_for(case) as buffer:
        *_, handle, _ = buffer.dispatch(xs[me], idxs[me], num_experts=experts)
        for given in ({}, {"num_experts": experts, "num_max_tokens_per_rank": TM, "do_cpu_sync": False}):
            *got, returned, _ = buffer.dispatch(others[me], None, weights[me], handle=handle, **given)
            assert returned is handle
            check_received(expected, got, handle, "cached")


@pytest.mark.mpi
def test_handles_are_used_in_any_order_and_more_than_once():
    me, ranks = shmem.my_pe(), shmem.n_pes()
    case = CASES[0]
    experts = case.per_rank * ranks
    drawn = [case.draw(seed) for seed in (5, 6)]
    with buffer_for(case) as buffer:
        handles = [buffer.dispatch(xs[me], idxs[me], num_experts=experts)[3] for xs, idxs, _ in drawn]
        for turn in (0, 1, 1, 0):
            xs, idxs, weights = drawn[turn]
            received = reference.dispatch(xs, idxs, weights, experts, TM)
            recv_x, *_ = buffer.dispatch(xs[me], handle=handles[turn])
            same(received[me].rows, recv_x, "cached rows")
            combined, _, _ = buffer.combine(recv_x, handles[turn])
            sums, _ = reference.combine([one.rows for one in received], idxs, experts)
            same(sums[me], combined, "sum", nan="position")


@pytest.mark.mpi
def test_weights_return_from_the_owner_of_each_expert():
    """A plain round trip would hide weights that come from the wrong owner: each returns its own numbers."""
    me, ranks = shmem.my_pe(), shmem.n_pes()
    case = Case("weights", one, uniform, topk=4, per_rank=4)
    xs, _, _ = case.draw()
    far = (me + 1) % ranks * 4
    idx = np.array([[-1, far + 1, -1, me * 4 + 2]], np.int64)
    with buffer_for(case) as buffer:
        recv_x, recv_idx, *_, handle, _ = buffer.dispatch(xs[me], idx, num_experts=4 * ranks)
        mine = np.where(recv_idx >= 0, np.float32([[0, 11, 0, 22]]), np.float32(-1))
        _, weights, _ = buffer.combine(recv_x, handle, np.ascontiguousarray(mine))
    same(np.float32([[0, 11, 0, 22]]), weights, "weights")


@pytest.mark.mpi
def test_two_dispatches_of_the_same_input_are_identical():
    me = shmem.my_pe()
    case = CASES[1]
    xs, idxs, weights = case.draw()
    with buffer_for(case) as buffer:
        first, second = (
            buffer.dispatch(xs[me], idxs[me], weights[me], num_experts=case.per_rank * shmem.n_pes()) for _ in range(2)
        )
    for a, b in zip(first[:3], second[:3], strict=True):
        same(a, b, "repeated")
    same(first[3].dst_buffer_slot_idx, second[3].dst_buffer_slot_idx, "slots")
    same(first[3].recv_src_metadata, second[3].recv_src_metadata, "metadata")


@pytest.mark.mpi
@pytest.mark.parametrize("case", CASES[:5], ids=lambda case: case.name)
def test_own_rows_arrive_alike_from_x_and_through_the_receive_area(case):
    me, ranks = shmem.my_pe(), shmem.n_pes()
    xs, idxs, weights = case.draw()
    experts = case.per_rank * ranks
    expected = reference.dispatch(xs, idxs, weights, experts, TM)[me]
    with buffer_for(case) as buffer:
        for keep_own in (False, True, False):
            buffer.keep_own = keep_own
            *got, handle, _ = buffer.dispatch(xs[me], idxs[me], weights[me], num_experts=experts)
            check_received(expected, got, handle, f"keep_own={keep_own}")


@pytest.mark.mpi
def test_count_words_are_zero_again_after_a_dispatch():
    right = arguments(CASES[0])
    with buffer_for(CASES[0]) as buffer:
        assert not buffer.words.any()
        buffer.dispatch(**right)
        buffer.barrier()  # nobody else writes here now
        assert not buffer.words.any()


@pytest.mark.mpi
def test_outputs_belong_to_the_caller_and_survive_later_calls():
    """Memory of outputs is used again only when nobody holds any part of it. Large enough to be pooled."""
    me, ranks = shmem.my_pe(), shmem.n_pes()
    case = Case("outputs", full, every_rank, topk=8, per_rank=8, hidden=8192)
    xs, idxs, _ = case.draw()
    with buffer_for(case) as buffer:
        first, *_, handle, _ = buffer.dispatch(xs[me], idxs[me], num_experts=8 * ranks)
        kept = first[1:].view(np.uint16)[:, ::2]  # the only thing left of it: a view of a view
        before = kept.copy()
        address = first.__array_interface__["data"][0]
        del first
        for _ in range(3):
            again, *_ = buffer.dispatch(-xs[me], handle=handle)
            assert again.__array_interface__["data"][0] != address
            same(before, kept, "kept")


@pytest.mark.mpi
def test_the_communicator_of_all_pes_is_a_group():
    from mpi4py import MPI

    case = CASES[4]
    xs, idxs, _ = case.draw()
    me = shmem.my_pe()
    for group in (shmem.TEAM_WORLD, MPI.COMM_WORLD):
        with buffer_for(case, group=group) as buffer:
            assert buffer.group is group
            assert (buffer.rank_idx, buffer.num_ranks) == (me, shmem.n_pes())
            buffer.dispatch(xs[me], idxs[me], num_experts=case.per_rank * shmem.n_pes())


@pytest.mark.mpi
def test_bytes_are_counted_in_separate_ledgers():
    me, ranks = shmem.my_pe(), shmem.n_pes()
    case = CASES[1]
    xs, idxs, weights = case.draw()
    experts = case.per_rank * ranks
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(xs[me], idxs[me], weights[me], num_experts=experts)
        sent = buffer.last_traffic
        buffer.combine(recv_x, handle)
        returned = buffer.last_traffic
    sets = reference.slot_sets(idxs, experts, TM)[me]
    records, crossing = sum(map(len, sets)), sum(map(len, sets)) - len(sets[me])
    selections = int((idxs[me] >= 0).sum())
    assert (sent.selections, sent.records, sent.crossing) == (selections, records, crossing)
    assert sent.logical == selections * 1024
    assert sent.physical == crossing * (1024 + 12 * case.topk)
    control = (ranks - 1) * (2 + 1 + case.per_rank)  # two barriers, the counts of ranks and of experts
    assert sent.wire == crossing * 1152 + 8 * control
    assert (returned.records, returned.physical) == (len(recv_x), 1024 * returned.crossing)


# ------------------------------------------------------------------------------------------ loud failures


def arguments(case: Case):
    """The arguments of a right dispatch of this PE."""
    xs, idxs, weights = case.draw()
    me = shmem.my_pe()
    return {
        "x": xs[me],
        "topk_idx": idxs[me],
        "topk_weights": weights[me],
        "num_experts": case.per_rank * shmem.n_pes(),
    }


def changed_id(idx: np.ndarray, value: int) -> np.ndarray:
    idx = idx.copy()
    idx[-1, 0] = value
    return idx


def twice(idx: np.ndarray) -> np.ndarray:
    idx = idx.copy()
    idx[-1, 1] = idx[-1, 0]
    return idx


WRONG = {
    "id too large": (shmem.RoutingError, lambda a: {"topk_idx": changed_id(a["topk_idx"], a["num_experts"])}),
    "id too small": (shmem.RoutingError, lambda a: {"topk_idx": changed_id(a["topk_idx"], -2)}),
    "expert twice": (shmem.RoutingError, lambda a: {"topk_idx": twice(a["topk_idx"])}),
    "no experts": (shmem.RoutingError, lambda a: {"num_experts": 0}),
    "too many experts": (shmem.RoutingError, lambda a: {"num_experts": 1 << 20}),
    "experts not given": (shmem.ArgumentError, lambda a: {"num_experts": None}),
    "T beyond Tm": (shmem.BufferTooSmall, lambda a: {"num_max_tokens_per_rank": 3}),
    "Tm beyond the buffer": (shmem.BufferTooSmall, lambda a: {"num_max_tokens_per_rank": 1 << 20}),
    "x of fp32": (shmem.DtypeError, lambda a: {"x": a["x"].astype(np.float32)}),
    "x is a list": (shmem.DtypeError, lambda a: {"x": [[1.0]]}),
    "x in one dimension": (shmem.ArgumentError, lambda a: {"x": a["x"].reshape(-1)}),
    "x not contiguous": (shmem.LayoutError, lambda a: {"x": a["x"][:, ::2]}),
    "rows of 30 bytes": (shmem.ArgumentError, lambda a: {"x": np.zeros((len(a["x"]), 15), BF16)}),
    "fp8 with scales": (shmem.ArgumentError, lambda a: {"x": (a["x"], a["x"])}),
    "ids of int32": (shmem.DtypeError, lambda a: {"topk_idx": a["topk_idx"].astype(np.int32)}),
    "ids of fewer tokens": (shmem.ArgumentError, lambda a: {"topk_idx": a["topk_idx"][:-1]}),
    "33 selections": (shmem.ArgumentError, lambda a: {"topk_idx": np.full((len(a["x"]), 33), -1)}),
    "weights of fp64": (shmem.DtypeError, lambda a: {"topk_weights": a["topk_weights"].astype(np.float64)}),
    "weights of another K": (
        shmem.ArgumentError,
        lambda a: {"topk_weights": a["topk_weights"][:, 1:].copy()},
    ),
    "statistics of int64": (
        shmem.DtypeError,
        lambda a: {"cumulative_local_expert_recv_stats": np.zeros(8, np.int64)},
    ),
    "alignment 0": (shmem.ArgumentError, lambda a: {"expert_alignment": 0}),
    "a handle from elsewhere": (shmem.HandleError, lambda a: {"handle": "handle", "topk_idx": None}),
    "expanded": (shmem.ArgumentError, lambda a: {"do_expand": True}),
    "padding": (shmem.ArgumentError, lambda a: {"do_zero_padding": True}),
    "column-major scales": (shmem.ArgumentError, lambda a: {"use_tma_aligned_col_major_sf": True}),
    "copied handle": (shmem.ArgumentError, lambda a: {"do_handle_copy": True}),
    "no cpu sync": (shmem.ArgumentError, lambda a: {"do_cpu_sync": False}),
    "asynchronous": (shmem.ArgumentError, lambda a: {"async_with_compute_stream": True}),
    "deferred": (shmem.ArgumentError, lambda a: {"defer_epilogue": True}),
    "event": (shmem.ArgumentError, lambda a: {"previous_event": object()}),
    "queues": (shmem.ArgumentError, lambda a: {"num_qps": 1000}),
}


@pytest.mark.mpi
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_dispatch_raises_on_every_pe_and_the_buffer_stays_usable(what):
    """Wrong on all PEs, then on the last only: its own error there, SymmetryError with it on the others."""
    case = CASES[8]
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    error, change = WRONG[what]
    right = arguments(case)
    with buffer_for(case) as buffer:
        with pytest.raises(error):
            buffer.dispatch(**{**right, **change(right)})
        with pytest.raises(error if me == last else shmem.SymmetryError) as caught:
            buffer.dispatch(**(right if me != last else {**right, **change(right)}))
        if me != last:
            assert error.__name__ in caught.value.calls[last] or "refused" in caught.value.calls[last]
        recv_x, *_ = buffer.dispatch(**right)
    xs, idxs, weights = case.draw()
    same(reference.dispatch(xs, idxs, weights, right["num_experts"], TM)[me].rows, recv_x, "after the error")


DISAGREE = {
    "num_max_tokens_per_rank": lambda a, me: {"num_max_tokens_per_rank": TM - (me == 0)},
    "num_experts": lambda a, me: {"num_experts": a["num_experts"] * (2 if me == 0 else 1)},
    "topk": lambda a, me: {"topk_idx": a["topk_idx"][:, me == 0 :].copy(), "topk_weights": None},
    "hidden": lambda a, me: {"x": a["x"][:, : 128 if me == 0 else 256].copy()},
    "weights": lambda a, me: {"topk_weights": None if me == 0 else a["topk_weights"]},
    "alignment": lambda a, me: {"expert_alignment": 1 + (me == 0)},
}


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("what", DISAGREE)
def test_ranks_that_disagree_raise_on_every_pe(what):
    case = Case("disagree", lambda rank, ranks: 8, uniform, topk=8, per_rank=8)
    right = arguments(case)
    with buffer_for(case) as buffer:
        with pytest.raises(shmem.SymmetryError) as caught:
            buffer.dispatch(**{**right, **DISAGREE[what](right, shmem.my_pe())})
        assert set(caught.value.calls) == set(range(shmem.n_pes()))
        buffer.dispatch(**right)


@pytest.mark.mpi(min_size=2)
def test_different_operations_on_one_buffer_raise_on_every_pe():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
        operations = (lambda: buffer.combine(recv_x, handle), lambda: buffer.dispatch(**right))
        with pytest.raises(shmem.SymmetryError):
            operations[shmem.my_pe() % 2]()
        buffer.combine(recv_x, handle)


@pytest.mark.mpi
def test_a_changed_routing_makes_its_handle_unusable():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
        right["topk_idx"][0, 0], kept = -1, right["topk_idx"][0, 0]
        with pytest.raises(shmem.HandleError, match="topk_idx"):
            buffer.combine(recv_x, handle)
        with pytest.raises(shmem.HandleError, match="topk_idx"):
            buffer.dispatch(right["x"], handle=handle)
        right["topk_idx"][0, 0] = kept
        buffer.combine(recv_x, handle)


@pytest.mark.mpi
def test_a_handle_serves_the_buffer_that_made_it():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as one_buffer, buffer_for(case) as other:
        recv_x, *_, handle, _ = one_buffer.dispatch(**right)
        with pytest.raises(shmem.HandleError):
            other.combine(recv_x, handle)
        with pytest.raises(shmem.HandleError):
            other.dispatch(right["x"], handle=handle)
        with pytest.raises(shmem.HandleError):
            one_buffer.dispatch(right["x"], handle=handle, num_experts=right["num_experts"] * 2)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("error", "change"),
    [
        (shmem.DtypeError, lambda x, t: {"x": x.astype(np.float32)}),
        (shmem.ArgumentError, lambda x, t: {"x": np.concatenate([x, x[:1]])}),
        (shmem.ArgumentError, lambda x, t: {"topk_weights": np.zeros((len(x), 3), np.float32)}),
        (shmem.DtypeError, lambda x, t: {"topk_weights": np.zeros((len(x), 8))}),
        (shmem.ArgumentError, lambda x, t: {"bias": (np.zeros((t, x.shape[1]), BF16),)}),
        (shmem.ArgumentError, lambda x, t: {"bias": (np.zeros((t, x.shape[1]), BF16),) * 3}),
        (shmem.ArgumentError, lambda x, t: {"bias": np.zeros((t + 1, x.shape[1]), BF16)}),
        (shmem.DtypeError, lambda x, t: {"bias": np.zeros((t, x.shape[1]), np.float32)}),
        (shmem.BufferTooSmall, lambda x, t: {"x": np.zeros((len(x), 1 << 16), BF16)}),
        (shmem.HandleError, lambda x, t: {"handle": None}),
        (shmem.ArgumentError, lambda x, t: {"defer_epilogue": True}),
    ],
)
def test_a_wrong_combine_raises_on_every_pe(error, change):
    case = CASES[0]
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
        wrong = {"x": recv_x, "handle": handle, **change(recv_x, len(right["x"]))}
        with pytest.raises(error):
            buffer.combine(**wrong)
        with pytest.raises(error if me == last else shmem.SymmetryError):
            buffer.combine(**(wrong if me == last else {"x": recv_x, "handle": handle}))
        buffer.combine(recv_x, handle)


@pytest.mark.mpi
def test_a_synchronous_event_is_not_waited_for():
    right = arguments(CASES[0])
    with buffer_for(CASES[0]) as buffer:
        *_, event = buffer.dispatch(**right)
    assert event.event is None
    for wait in (event.wait, event.current_stream_wait, event):
        with pytest.raises(shmem.EventError) as caught:
            wait()
        assert isinstance(caught.value, AssertionError)
    with event:
        pass


@pytest.mark.mpi
def test_destroy_twice_is_once_and_use_after_it_raises():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
    buffer.destroy()
    for use in (
        lambda: buffer.dispatch(**right),
        lambda: buffer.combine(recv_x, handle),
        buffer.barrier,
    ):
        with pytest.raises(shmem.StateError):
            use()


@pytest.mark.mpi
@pytest.mark.parametrize(
    "settings",
    [
        {"num_max_tokens_per_rank": 0, "hidden": 256},
        {"num_max_tokens_per_rank": 8, "hidden": 0},
        {"num_bytes": 1000},
        {"num_bytes": -(2 << 20)},
        {"num_bytes": 2 << 20, "lb_allocation_plan_or_num_bytes": 2 << 20},
        {"num_bytes": 2 << 20, "group": "world"},
    ],
)
def test_wrong_settings_raise_on_every_pe(settings):
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    with pytest.raises(shmem.ArgumentError):
        EPBuffer(**settings)
    with pytest.raises(shmem.ArgumentError if me == last else shmem.SymmetryError):
        EPBuffer(**(settings if me == last else {"num_bytes": 2 << 20}))


@pytest.mark.mpi(min_size=2)
def test_settings_that_differ_raise_on_every_pe():
    with pytest.raises(shmem.SymmetryError):
        EPBuffer(num_bytes=(2 + 2 * (shmem.my_pe() == 0)) << 20)


@pytest.mark.mpi
def test_a_buffer_has_the_size_of_its_hint():
    shape = {"num_max_tokens_per_rank": 64, "hidden": 512, "num_topk": 4}
    hint = EPBuffer.get_buffer_size_hint(None, **shape)
    buffer = EPBuffer(**shape, explicitly_destroy=True)
    assert buffer.num_bytes == hint
    assert buffer.get_logical_domain_size() == (1, shmem.n_pes())
    buffer.destroy()
    buffer = EPBuffer(num_bytes=4 << 20, **shape, explicitly_destroy=True)
    assert buffer.num_bytes == 4 << 20
    buffer.destroy()
