"""EPBuffer against the oracle, bit for bit. Its loud failures are in `test_ep_buffer_errors`.

Every PE draws the inputs of all ranks from one seed, calls dispatch and combine with its own, and compares
what it got with its part of the oracle's answer for the whole job. A case is data (`ep_cases`).
"""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from moe_ep import reference

from .ep_cases import CASES, TM, Case, arguments, buffer_for, check_received, every_rank, full, one, rows, same, uniform


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
