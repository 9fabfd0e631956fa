"""The layout of records and the size hint: the contract's formulas on paper against the table it prints."""

from __future__ import annotations

import pytest

import shmem.errors as errors
from moe_ep.layout import (
    SIZE_STEP,
    CombineRecord,
    DispatchRecord,
    Domain,
    align,
    buffer_size_hint,
    combine_bytes,
    combine_slots,
    dispatch_bytes,
    uses_rank_slots,
)

ONE_NODE_OF_8 = Domain(1, 8)
TWO_NODES_OF_8 = Domain(2, 8, hybrid=True)


@pytest.mark.parametrize(
    ("tokens", "hidden", "topk", "domain", "options", "hint"),
    [
        (4096, 7168, 8, TWO_NODES_OF_8, {}, 1_218_445_312),
        (4096, 7168, 8, ONE_NODE_OF_8, {}, 473_956_352),
        (4096, 7168, 0, ONE_NODE_OF_8, {}, 484_442_112),
        (4096, 7168, 6, ONE_NODE_OF_8, {"use_fp8_dispatch": True}, 354_418_688),
        (128, 7168, 8, ONE_NODE_OF_8, {}, 16_777_216),
        (128, 7168, 8, Domain(1, 16, reachable=False), {}, 46_137_344),
        (64, 512, 4, Domain(1, 4), {}, 2_097_152),
        (64, 512, 4, Domain(2, 2, hybrid=True), {}, 4_194_304),
        (64, 512, 4, Domain(2, 2, hybrid=True), {"multiple_reduction": False}, 12_582_912),
    ],
)
def test_size_hint_equals_the_table_of_the_contract(tokens, hidden, topk, domain, options, hint):
    assert buffer_size_hint(domain, tokens, hidden, topk, **options) == hint


def test_dispatch_record_of_a_production_shape():
    record = DispatchRecord(2 * 7168, 0, 8)
    assert (record.scales_offset, record.meta_offset, record.nbytes) == (14336, 14336, 14464)


def test_scales_lie_between_the_row_and_the_ids():
    record = DispatchRecord(7168, 56, 6)
    assert (record.scales_offset, record.meta_offset) == (7168, 7168 + 224)
    assert record.nbytes == align(7168 + 224 + align(8 * 6 + 4 * 7, 32), 64)


def test_combine_record_holds_ids_and_weights_behind_the_row():
    assert CombineRecord(2 * 7168, 8).nbytes == 14400
    assert CombineRecord(2 * 256, 1).nbytes == align(512 + 32, 64)


@pytest.mark.parametrize("row_bytes", [32, 96, 512, 1056])
@pytest.mark.parametrize("topk", [1, 7, 8, 32])
def test_parts_begin_on_32_bytes_and_do_not_overlap(row_bytes, topk):
    record = DispatchRecord(row_bytes, 5, topk)
    assert record.scales_offset >= row_bytes
    assert record.meta_offset >= record.scales_offset + 20
    assert record.meta_offset + 4 * record.meta_words <= record.nbytes
    assert record.scales_offset % 32 == record.meta_offset % 32 == record.nbytes % 64 == 0


def test_combine_has_a_slot_a_rank_or_a_position_whichever_is_fewer():
    assert uses_rank_slots(4, 8, True)
    assert combine_slots(4, 8, True) == 4
    assert uses_rank_slots(8, 8, True)
    assert not uses_rank_slots(9, 8, True)
    assert combine_slots(9, 8, True) == 8
    assert not uses_rank_slots(4, 8, False)
    assert combine_slots(4, 8, False) == 8


def test_the_hint_covers_both_operations_of_its_shape():
    for ranks in (1, 2, 3, 8):
        for topk in (1, 6, 32):
            hint = buffer_size_hint(Domain(1, ranks), 100, 512, topk)
            assert hint % SIZE_STEP == 0
            assert hint >= dispatch_bytes(DispatchRecord(1024, 0, topk), ranks, 100)
            assert hint >= combine_bytes(CombineRecord(1024, topk), ranks, 100, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_max_tokens": 0},
        {"hidden": 0},
        {"num_topk": 33},
        {"num_topk": -1},
        {"hidden": 3, "use_fp8_dispatch": True},
    ],
)
def test_a_size_out_of_range_is_an_argument_error(wrong):
    shape = {"num_max_tokens": 64, "hidden": 512, "num_topk": 4, **wrong}
    with pytest.raises(errors.ArgumentError):
        buffer_size_hint(ONE_NODE_OF_8, **shape)
