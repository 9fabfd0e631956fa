"""The oracle against cases worked out by hand.

Every number here was written down from the contract, not taken from a run: 2 ranks, 4 experts
(0, 1 on rank 0; 2, 3 on rank 1), K = 2, H = 2. The last tests damage one bit at a time and see
the comparison notice, since an oracle that can't fail shows nothing.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from moe_ep import reference

BF16 = np.dtype(ml_dtypes.bfloat16)
TM = 3
NAN_BITS = 0x7FC1


def bf16(values: Any) -> Any:
    return np.array(values, np.float32).astype(BF16)


def from_bits(values: Any) -> Any:
    return np.array(values, np.uint16).view(BF16)


def bits(rows: Any) -> list[Any]:
    listed: list[Any] = np.ascontiguousarray(rows).view(np.uint16).tolist()
    return listed


XS = [bf16([[1, 2], [3, 4], [5, 6]]), bf16([[7, 8], [9, 10]])]
TOPK_IDX = [np.array([[0, 2], [3, 2], [-1, 1]]), np.array([[1, 0], [-1, -1]])]
WEIGHTS = [
    np.array([[0.5, 0.25], [0.75, 0.125], [9.0, 1.0]], np.float32),
    np.array([[2.0, 3.0], [4.0, 5.0]], np.float32),
]


def received() -> list[reference.Received]:
    return reference.dispatch(XS, TOPK_IDX, WEIGHTS, 4, TM, 4)


# ------------------------------------------------------------------------------ dispatch


def test_rank_0_receives_the_tokens_that_chose_its_experts_in_the_order_of_global_ids() -> None:
    got = received()[0]
    assert got.global_id.tolist() == [0, 2, 3]
    assert got.rows.tolist() == [[1, 2], [5, 6], [7, 8]]
    assert got.topk_idx.tolist() == [[0, -1], [-1, 1], [1, 0]]


def test_rank_1_sees_local_ids_and_a_token_with_two_of_its_experts_once() -> None:
    got = received()[1]
    assert got.global_id.tolist() == [0, 1]
    assert got.rows.tolist() == [[1, 2], [3, 4]]
    assert got.topk_idx.tolist() == [[-1, 0], [1, 0]]


def test_the_whole_weight_row_arrives_even_where_another_rank_owns_the_expert() -> None:
    first, second = (r.topk_weights for r in received())
    assert first is not None
    assert second is not None
    assert first.tolist() == [[0.5, 0.25], [9.0, 1.0], [2.0, 3.0]]
    assert second.tolist() == [[0.5, 0.25], [0.75, 0.125]]


def test_no_weights_sent_no_weights_received() -> None:
    assert all(r.topk_weights is None for r in reference.dispatch(XS, TOPK_IDX, None, 4, TM))


def test_the_master_is_the_highest_own_position() -> None:
    assert received()[0].master.tolist() == [0 * 2 + 0, 0 * 2 + 1, 1 * 2 + 1]
    assert received()[1].master.tolist() == [0 * 2 + 1, 0 * 2 + 1]


def test_counts_are_real_the_list_is_aligned_and_both_prefix_sums_are_inclusive() -> None:
    first, second = received()
    assert (first.counts.tolist(), second.counts.tolist()) == ([2, 2], [2, 1])
    assert (first.aligned_counts, second.aligned_counts) == ([4, 4], [4, 4])
    assert (first.psum_experts.tolist(), second.psum_experts.tolist()) == ([4, 8], [4, 8])
    assert (first.psum_ranks.tolist(), second.psum_ranks.tolist()) == ([2, 3], [2, 2])


def test_slots_are_dense_within_a_pair_of_ranks_and_start_at_the_senders_share() -> None:
    assert reference.slot_sets(TOPK_IDX, 4, TM) == [[{0, 1}, {0, 1}], [{3}, set()]]


def test_ranks_without_tokens_and_a_rank_nobody_chose() -> None:
    empty = np.zeros((0, 2), np.int64)
    got = reference.dispatch([bf16(np.zeros((0, 2))), bf16([[1, 2]])], [empty, np.array([[1, -1]])], None, 4, TM)
    assert [r.rows.shape for r in got] == [(1, 2), (0, 2)]
    assert got[0].global_id.tolist() == [TM]
    assert got[0].psum_ranks.tolist() == [0, 1]
    assert got[1].topk_idx.shape == (0, 2)
    assert got[1].counts.tolist() == [0, 0]


def test_no_token_anywhere() -> None:
    empty = [np.zeros((0, 2), np.int64)] * 2
    got = reference.dispatch([bf16(np.zeros((0, 2)))] * 2, empty, None, 4)
    assert [len(r.rows) for r in got] == [0, 0]
    combined, weights = reference.combine([r.rows for r in got], empty, 4)
    assert [c.shape for c in combined] == [(0, 2), (0, 2)]
    assert weights is None


def test_bytes_are_carried_whatever_they_mean() -> None:
    x = from_bits([[NAN_BITS, 0x8000], [0xFFFF, 0x0001]])
    got = reference.dispatch([x], [np.array([[0], [0]])], None, 1)
    assert bits(got[0].rows) == [[NAN_BITS, 0x8000], [0xFFFF, 0x0001]]


def test_thirty_two_selections_of_one_token() -> None:
    experts = np.arange(32)[::-1].reshape(1, 32).copy()
    got = reference.dispatch([bf16([[1, 2]]), bf16(np.zeros((0, 2)))], [experts, np.zeros((0, 32), np.int64)], None, 32)
    assert got[0].topk_idx.tolist() == [[-1] * 16 + list(range(15, -1, -1))]
    assert got[1].topk_idx.tolist() == [[*range(15, -1, -1), *[-1] * 16]]
    assert (got[0].master.tolist(), got[1].master.tolist()) == ([31], [15])


# ------------------------------------------------------------------------------ rounding and sums


@pytest.mark.parametrize(
    ("fp32", "rounded", "why"),
    [
        (0x3F800000, 0x3F80, "1.0 is exact"),
        (0x3F808000, 0x3F80, "a tie goes to the even neighbour below"),
        (0x3F818000, 0x3F82, "a tie goes to the even neighbour above"),
        (0x3F808001, 0x3F81, "just above the tie"),
        (0x3F807FFF, 0x3F80, "just below the tie"),
        (0xBF818000, 0xBF82, "the sign changes nothing"),
        (0x80000000, 0x8000, "-0.0 stays"),
        (0x00000001, 0x0000, "the smallest fp32 subnormal is nearer to 0"),
        (0x00018000, 0x0002, "subnormals round like the rest and are not flushed"),
        (0x7F7FFFFF, 0x7F80, "the largest fp32 number rounds to infinity"),
        (0x7F800000, 0x7F80, "infinity stays"),
    ],
)
def test_rounding_to_nearest_even(fp32: int, rounded: int, why: str) -> None:
    value = np.array([fp32], np.uint32).view(np.float32)
    assert bits(reference.round_bf16(value)) == [rounded], why


@pytest.mark.parametrize("fp32", [0x7F800001, 0xFFFFFFFF, 0x7FC00000])
def test_nan_stays_nan_whatever_its_payload(fp32: int) -> None:
    value = np.array([fp32], np.uint32).view(np.float32)
    assert np.isnan(reference.round_bf16(value)).all()


def test_widen_is_exact_for_every_bf16() -> None:
    every = np.arange(65536, dtype=np.uint32)
    assert np.array_equal(reference.widen(from_bits(every)).view(np.uint32), every << 16)


def combine_one(rows: list[Any], topk_idx: list[int], biases: tuple[Any, ...] = (), ranks: int = 2) -> list[Any]:
    """One token on rank 0 whose rank ``r`` supplies ``rows[r]`` (None = it received nothing)."""
    ys = [bf16(np.zeros((0, 2))) if r is None else np.array([r]) for r in rows]
    idxs = [np.array([topk_idx])] + [np.zeros((0, len(topk_idx)), np.int64)] * (ranks - 1)
    given = [tuple(np.array([b]) for b in biases)] + [tuple(bf16(np.zeros((0, 2))) for _ in biases)] * (ranks - 1)
    combined, _ = reference.combine(ys, idxs, 2 * ranks, biases=given)
    return bits(combined[0][0])


def test_terms_are_added_by_increasing_position_and_not_by_rank() -> None:
    # 2^24 + 1 = 2^24 in fp32, so the order shows: positions are (rank 1, rank 2, rank 0).
    rows = [bf16([2.0**24, 1]), bf16([1, 0]), bf16([-(2.0**24), 0])]
    by_position = combine_one(rows, [2, 4, 0], ranks=3)  # (1 - 2^24) + 2^24 = 1
    by_rank = combine_one(rows, [0, 2, 4], ranks=3)  # (2^24 + 1) - 2^24 = 0
    assert by_position == bits(bf16([1, 1]))
    assert by_rank == bits(bf16([0, 1]))


def test_the_position_of_a_row_is_its_highest_selection() -> None:
    # Rank 0 holds positions 0 and 2, so rank 1 at position 1 comes first: the order of the test above.
    rows = [bf16([2.0**24, 0]), bf16([1, 0])]
    assert combine_one(rows, [0, 2, 1], (bf16([-(2.0**24), 0]),)) == bits(bf16([1, 0]))
    assert combine_one(rows, [0, 1, 2], (bf16([-(2.0**24), 0]),)) == bits(bf16([1, 0]))
    # The other way round: 2^24 + 1 is lost before the last term.
    rows = [bf16([-(2.0**24), 0]), bf16([1, 0])]
    assert combine_one(rows, [0, 2, 1], (bf16([2.0**24, 0]),)) == bits(bf16([0, 0]))
    assert combine_one(rows, [0, 1, 2], (bf16([2.0**24, 0]),)) == bits(bf16([1, 0]))


def test_the_sum_is_rounded_once_at_its_end() -> None:
    # 2^-9 + 1 + 2^-9: bf16 would lose each term; the fp32 sum 1 + 2^-8 is a tie, to even = 1.
    tiny = bf16([2.0**-9, 2.0**-9])
    assert combine_one([bf16([1, 1]), tiny], [0, 2], (tiny,)) == bits(bf16([1, 1]))
    # With 2^-8 as the bias it is 1 + 3 * 2^-9, above the tie: 1 + 2^-7.
    assert combine_one([bf16([1, 1]), tiny], [0, 2], (bf16([2.0**-8] * 2),)) == bits(bf16([1 + 2.0**-7] * 2))


def test_minus_zero_plus_minus_zero_is_plus_zero() -> None:
    minus = from_bits([0x8000, 0x8000])
    assert combine_one([minus, minus], [0, 2]) == [0, 0]
    assert combine_one([minus, None], [0, -1]) == [0, 0]


def test_biases_come_first_in_their_order() -> None:
    big, small = bf16([2.0**24, 0]), bf16([1, 0])
    # (2^24 + 1) - 2^24 = 0, where adding the row between or before would leave 1.
    assert combine_one([bf16([-(2.0**24), 5]), None], [0, -1], (big, small)) == bits(bf16([0, 5]))
    assert combine_one([bf16([1, 5]), None], [0, -1], (big, -big)) == bits(bf16([1, 5]))


def test_a_token_without_selection_gets_the_rounded_bias_sum_or_plus_zero() -> None:
    assert combine_one([None, None], [-1, -1]) == [0, 0]
    assert combine_one([None, None], [-1, -1], (bf16([1, 2]), bf16([2.0**-8, 4]))) == bits(bf16([1, 6]))
    assert combine_one([None, None], [-1, -1], (from_bits([0x8000, 0x8000]),)) == [0, 0]


def test_nan_and_opposite_infinities_give_nan() -> None:
    nan, inf, minus_inf = NAN_BITS, 0x7F80, 0xFF80
    got = from_bits(combine_one([from_bits([nan, inf]), from_bits([0, minus_inf])], [0, 2]))
    assert np.isnan(got).all()


def test_subnormals_are_added_and_not_flushed() -> None:
    tiny = from_bits([0x0001, 0x0001])
    assert combine_one([tiny, tiny], [0, 2]) == [0x0002, 0x0002]


def test_the_callers_rank_sum_starts_at_plus_zero_and_keeps_the_order() -> None:
    assert bits(reference.rank_sum([from_bits([0x8000, 0x8000])])) == [0, 0]
    terms = [bf16([2.0**24, 1]), bf16([1, 1]), bf16([-(2.0**24), 1])]
    assert bits(reference.rank_sum(terms)) == bits(bf16([0, 3]))
    assert bits(reference.rank_sum([terms[0], terms[2], terms[1]])) == bits(bf16([1, 3]))


def test_combine_end_to_end_with_every_kind_of_token() -> None:
    ys = [bf16([[10, 11], [12, 13], [14, 15]]), bf16([[100, 101], [102, 103]])]
    combined, weights = reference.combine(ys, TOPK_IDX, 4, WEIGHTS_BACK)
    # Token 0 of rank 0 has rows on both ranks, token 1 on rank 1 only, token 2 on rank 0 only.
    assert combined[0].tolist() == [[110, 112], [102, 103], [12, 13]]
    assert combined[1].tolist() == [[14, 15], [0, 0]]
    assert weights is not None


WEIGHTS_BACK = [
    np.array([[1, -99], [-99, 2], [3, 4]], np.float32),  # rank 0: rows of global ids 0, 2, 3
    np.array([[-99, 5], [6, 7]], np.float32),  # rank 1: rows of global ids 0, 1
]


def test_carried_weights_come_from_the_owner_of_each_selection_and_are_zero_without_one() -> None:
    ys = [bf16(np.zeros((3, 2))), bf16(np.zeros((2, 2)))]
    _, weights = reference.combine(ys, TOPK_IDX, 4, WEIGHTS_BACK)
    assert weights is not None
    assert weights[0].tolist() == [[1, 5], [6, 7], [0, 2]]
    assert weights[1].tolist() == [[3, 4], [0, 0]]


def test_carried_weights_keep_the_bits_of_nan_and_minus_zero() -> None:
    back = np.array([[0x7FC00123, 0x80000000]], np.uint32).view(np.float32)
    _, weights = reference.combine([bf16([[0, 0]])], [np.array([[0, 1]])], 2, [back])
    assert weights is not None
    assert weights[0].view(np.uint32).tolist() == [[0x7FC00123, 0x80000000]]


# ------------------------------------------------------------------------------ the layer's own pieces


def test_exp_is_right_to_the_last_bits_and_exact_at_zero() -> None:
    values = np.linspace(-50, 50, 10001)
    assert reference.exp(np.zeros(1)).tolist() == [1.0]
    assert np.max(np.abs(reference.exp(values) / np.exp(values) - 1)) < 4e-16
    assert np.isfinite(reference.exp(np.array([-1e300, 1e300]))).all()


def test_routing_takes_the_largest_and_of_equals_the_lower_id() -> None:
    logits = np.array([[1, 3, 3, 2], [0, 0, 0, 0]], np.float32)
    idx, weights = reference.route(logits, 2)
    assert idx.tolist() == [[1, 2], [0, 1]]
    assert weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_weights_are_the_softmax_of_the_selected_logits() -> None:
    _, weights = reference.route(np.log(np.array([[1, 2, 5]], np.float32)), 2)
    assert np.allclose(weights, [[5 / 7, 2 / 7]], rtol=1e-6)


# ------------------------------------------------------------------------------ the oracle notices


def compare(damage: str = "", offset: int = 0) -> str | None:
    """Rank 0 compared with its own data in another order, after one bit was flipped in ``damage``."""
    want = received()[0]
    order = [1, 0, 2]  # both rows of source 0 exchanged, as an arrival order may do
    got: dict[str, Any] = {
        "rows": want.rows[order],
        "topk_idx": want.topk_idx[order],
        "topk_weights": want.topk_weights[order],  # type: ignore[index]
        "metadata": np.stack([want.global_id[order], want.master[order]], axis=1).astype(np.int32),
        "counts": want.counts.copy(),
    }
    if damage:
        got[damage] = flip(got[damage], offset)
    return reference.received_difference(want, **got)


def flip(array: Any, bit: int) -> Any:
    damaged = np.ascontiguousarray(array).copy()
    damaged.reshape(-1).view(np.uint8)[bit // 8] ^= np.uint8(1 << bit % 8)
    return damaged


def test_arrival_order_within_a_source_is_free() -> None:
    assert compare() is None


@pytest.mark.parametrize(
    ("damage", "size", "says"),
    [
        ("rows", 3 * 2 * 2, "row"),
        ("topk_weights", 3 * 2 * 4, "weight"),
        ("counts", 2 * 4, "count"),
        ("topk_idx", 3 * 2 * 8, "local expert"),
        ("metadata", 3 * 2 * 4, ""),
    ],
)
def test_every_single_damaged_bit_is_noticed(damage: str, size: int, says: str) -> None:
    for bit in range(8 * size):
        found = compare(damage, bit)
        assert found is not None, f"bit {bit} of {damage}"
        assert says in found


def test_the_sentence_names_the_place_and_both_values() -> None:
    want = bf16([[1, 2], [3, 4]])
    found = reference.difference(want, flip(want, 8 * 4), "rank 1: combined", "token element")
    assert found == (
        "rank 1: combined: token 1, element 0: 3.015625 (0x4041) instead of 3.0 (0x4040); 1 of 4 elements differ"
    )


def test_other_dtypes_shapes_and_missing_weights_are_differences() -> None:
    assert reference.difference(np.zeros(2, np.int32), np.zeros(2, np.int64), "a") is not None
    assert reference.difference(np.zeros((2, 1)), np.zeros(2), "a") is not None
    want = received()[0]
    metadata = np.stack([want.global_id, want.master], axis=1)
    assert "missing" in str(reference.received_difference(want, want.rows, want.topk_idx, None, metadata, want.counts))


def test_zeros_of_both_signs_differ_and_nan_may_differ_only_where_asked() -> None:
    assert reference.difference(np.float32([0.0]), np.float32([-0.0]), "a") is not None
    one, other = from_bits([0x7FC0]), from_bits([0x7FC1])
    assert reference.difference(one, other, "a") is not None
    assert reference.difference(one, other, "a", nan="position") is None
    assert reference.difference(one, bf16([1]), "a", nan="position") is not None


def test_the_oracle_imports_numpy_and_ml_dtypes_only() -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(reference))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).split(".")[0])
    assert names == {"__future__", "numpy", "ml_dtypes"}
    assert "__import__" not in inspect.getsource(reference)
    assert "import_module" not in inspect.getsource(reference)
