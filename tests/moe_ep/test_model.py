"""The model's functions of rows are functions of one row: no bit depends on the company a row is in.

And the model equals the oracle's independent statement of the same specification, for a text in
one process: a difference in the distributed run is then a difference of the transport.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from importlib import resources
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from moe_ep import reference
from moe_ep.demo import model

BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPE = model.Shape(experts=16, topk=3, hidden=256, inner=24, seed=5)
TEXT = "Zwölf Boten trugen Papier; a note is complete only once every sheet of it is there.".encode()


def rows(n: int) -> Any:
    return np.random.default_rng(1).standard_normal((n, SHAPE.hidden), np.float32).astype(BF16)


def bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint8).tobytes()


def expert(x: Any) -> Any:
    return model.Expert(SHAPE, 3)(x)


def gate(x: Any) -> Any:
    return model.gate(x, model.gate_table(SHAPE))


def routed(x: Any) -> Any:
    return model.route(gate(x), SHAPE.topk)[1]


FUNCTIONS = [gate, routed, expert]


# ------------------------------------------------------------------------------ rows


@pytest.mark.parametrize("function", FUNCTIONS)
def test_permuting_the_batch_changes_no_bit(function: Callable[[Any], Any]) -> None:
    x = rows(301)
    order = np.random.default_rng(2).permutation(len(x))
    assert bits(function(x)[order]) == bits(function(x[order]))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 100])
def test_splitting_the_batch_changes_no_bit(function: Callable[[Any], Any], size: int) -> None:
    x = rows(101)
    parts = [function(x[start : start + size]) for start in range(0, len(x), size)]
    assert bits(np.concatenate(parts)) == bits(function(x))


def test_rows_across_the_blocks_of_the_cache_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bits(expert(rows(100)))
    monkeypatch.setattr(model, "_BLOCK_ELEMENTS", 1)
    assert bits(expert(rows(100))) == whole


def test_the_order_of_additions_shows_in_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two tests above can fail: a product that adds in another order in odd places is noticed."""
    straight = model.contract

    def by_place(x: Any, table: Any) -> Any:
        odd = np.arange(len(x))[:, None] % 2 == 1
        return np.where(odd, straight(x[:, ::-1], table[::-1]), straight(x, table))

    x = rows(8)
    before = [bits(f(x[::-1])) == bits(f(x)[::-1]) for f in FUNCTIONS]
    monkeypatch.setattr(model, "contract", by_place)
    after = [bits(f(x[::-1])) == bits(f(x)[::-1]) for f in FUNCTIONS]
    assert (before, after) == ([True] * 3, [False] * 3)


def test_contract_is_a_matrix_product_added_in_increasing_order() -> None:
    x, table = np.float32([[2**24, 1, -(2**24)], [1, 2, 3]]), np.float32([[1, 0], [1, 1], [1, 1]])
    assert model.contract(x, table).tolist() == [[0, 1 - 2.0**24], [6, 5]]


def test_exp_does_not_depend_on_place_stride_or_length() -> None:
    values = np.random.default_rng(3).uniform(-30, 30, 1001)
    whole = model.exp(values)
    assert bits(np.array([model.exp(values[i : i + 1])[0] for i in range(len(values))])) == bits(whole)
    assert bits(model.exp(values[::-3])) == bits(whole[::-3])
    assert bits(model.exp(np.asfortranarray(values.reshape(7, 143)))) == bits(whole.reshape(7, 143))


def test_exp_leaves_its_argument_alone_and_survives_any_number() -> None:
    values = np.array([-1e308, -750.0, 0.0, 750.0, 1e308])
    before = values.copy()
    assert np.isfinite(model.exp(values)).all()
    assert bits(values) == bits(before)


def routing(n: int, local_experts: int) -> tuple[Any, Any]:
    """Selections of ``n`` rows on a rank of ``local_experts``: every number of own selections occurs."""
    generator = np.random.default_rng(4)
    idx = np.stack([generator.permutation(local_experts * 2)[: SHAPE.topk] for _ in range(n)])
    idx[idx >= local_experts] = -1
    return idx, generator.random((n, SHAPE.topk), np.float32)


@pytest.mark.parametrize("term_bytes", [1, 5000, 32 << 20])
def test_the_rows_a_rank_supplies_do_not_depend_on_order_or_blocks(
    term_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    experts = [model.Expert(SHAPE, e) for e in range(4)]
    x, (idx, weights) = rows(60), routing(60, 4)
    whole = model.rank_rows(x, idx, weights, experts)
    order = np.random.default_rng(6).permutation(60)
    monkeypatch.setattr(model, "_TERM_BYTES", term_bytes)
    assert bits(model.rank_rows(x[order], idx[order], weights[order], experts)) == bits(whole[order])


def test_no_rows_give_no_rows() -> None:
    empty = rows(0)
    assert gate(empty).shape == (0, SHAPE.experts)
    assert expert(empty).shape == (0, SHAPE.hidden)
    assert model.rank_rows(empty, *routing_of_nothing(), [model.Expert(SHAPE, 0)]).shape == (0, SHAPE.hidden)
    assert model.embed(b"", SHAPE).shape == (0, SHAPE.hidden)


def routing_of_nothing() -> tuple[Any, Any]:
    return np.zeros((0, SHAPE.topk), np.int64), np.zeros((0, SHAPE.topk), np.float32)


# ------------------------------------------------------------------------------ the layer


def test_a_block_of_the_text_has_the_rows_it_has_in_the_whole_text() -> None:
    whole = model.embed(TEXT * 9, SHAPE)
    assert bits(model.embed((TEXT * 9)[300:], SHAPE, 300)) == bits(whole[300:])


def test_no_two_tokens_have_the_same_row() -> None:
    x = model.embed(bytes(1000), SHAPE)
    assert len({row.tobytes() for row in x}) == 1000


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_blocks_of_tokens_cover_the_text_without_overlap(ranks: int) -> None:
    for tokens in (1, 2, 7, 8, 301):
        blocks = [model.own_tokens(tokens, r, ranks) for r in range(ranks)]
        assert [i for b in blocks for i in range(b.start, b.stop)] == list(range(tokens))


def test_routing_takes_the_largest_and_of_equals_the_lower_id() -> None:
    logits = np.array([[1, 3, 3, 2], [0, -0.0, 0, 0]], np.float32)
    idx, weights = model.route(logits, 2)
    assert idx.tolist() == [[1, 2], [0, 1]]
    assert weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_the_load_of_the_experts_is_uneven_for_the_text_that_ships() -> None:
    text = resources.files("moe_ep.demo").joinpath("data/default.txt").read_bytes()
    shape = model.Shape(experts=64, topk=6, hidden=256, inner=8)
    idx, _ = model.route(model.gate(model.embed(text, shape), model.gate_table(shape)), shape.topk)
    load = np.bincount(idx.ravel(), minlength=shape.experts)
    assert load.max() > 2 * load.mean()


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("text", [TEXT * 4, TEXT[:3]])
def test_the_model_equals_the_oracle_bit_for_bit(ranks: int, text: bytes) -> None:
    want = reference.moe_layer(text, SHAPE.seed, ranks, SHAPE.experts, SHAPE.topk, SHAPE.hidden, SHAPE.inner)
    per_rank = SHAPE.experts // ranks
    supplied = []
    for rank, received in enumerate(want.received):
        mine = model.own_tokens(len(text), rank, ranks)
        x = model.embed(text[mine], SHAPE, mine.start)
        idx, weights = model.route(gate(x), SHAPE.topk)
        assert reference.difference(want.xs[rank], x, "x") is None
        assert reference.difference(want.topk_idxs[rank], idx, "topk_idx") is None
        assert reference.difference(want.topk_weights[rank], weights, "topk_weights") is None
        assert received.topk_weights is not None
        experts = [model.Expert(SHAPE, rank * per_rank + e) for e in range(per_rank)]
        supplied.append(model.rank_rows(received.rows, received.topk_idx, received.topk_weights, experts))
    outputs, _ = reference.combine(supplied, want.topk_idxs, SHAPE.experts)
    for rank in range(ranks):
        assert reference.difference(want.outputs[rank], outputs[rank], f"rank {rank}") is None


def test_the_number_of_ranks_changes_only_where_sums_are_rounded() -> None:
    """A sanity check of the oracle: the layer means the same at 1 and 4 ranks, up to bf16 rounding."""
    size = (SHAPE.experts, SHAPE.topk, SHAPE.hidden, SHAPE.inner)
    one = np.concatenate(reference.moe_layer(TEXT, 5, 1, *size).outputs).astype(np.float32)
    four = np.concatenate(reference.moe_layer(TEXT, 5, 4, *size).outputs).astype(np.float32)
    assert np.abs(one - four).max() < 0.02 * np.abs(one).max()
    assert np.abs(one).max() > 0.1


def test_a_recorded_trace_replaces_gate_and_embedding() -> None:
    idx, weights = np.array([[0, -1, 7], [-1, -1, -1], [3, 2, 15]]), np.ones((3, 3), np.float32)
    x = rows(3)
    got = reference.moe_layer(bytes(3), 5, 2, 16, 3, SHAPE.hidden, 24, trace=(idx, weights, x))
    assert bits(np.concatenate(got.xs)) == bits(x)
    assert bits(np.concatenate(got.topk_idxs)) == bits(idx)
    assert not np.concatenate(got.outputs)[1].astype(np.float32).any()
    assert got.tokens_per_expert.tolist() == [1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_model_and_oracle_do_not_know_each_other() -> None:
    def imported(module: Any) -> str:
        found = [
            n for n in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        return " ".join(ast.unparse(n) for n in found)

    assert "reference" not in imported(model)
    assert "demo" not in imported(reference)


def test_the_written_specification_is_the_same_in_both() -> None:
    def steps(module: Any) -> list[str]:
        text = str(module.__doc__)
        return text[text.index(" 1. A token") :].split()

    assert len(steps(model)) > 200
    assert steps(model) == steps(reference)
