"""Dispatch, direct mode: a token goes once to each rank that owns one of its experts (contract, section 5).

`exchange` is one batch: entry barrier (all receive areas are free, all ranks make the same call), the counts
as -n-1 words, one record a (token, rank) into the slot that the sender chose, exit barrier, and the wait for
the counts of all ranks. `epilogue` copies the records, by source and slot, into arrays that the caller owns.
Python computes index arrays; all bytes are moved by the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import shmem

from . import traffic
from .arguments import BF16, F32, Array, DispatchCall
from .handle import I32, I64, EPHandle
from .layout import align

if TYPE_CHECKING:
    from .buffer import EPBuffer


@dataclass(frozen=True)
class Arrived:
    """What lies in the receive area: `counts [R]` records by source, `expert_counts [El]` selections."""

    call: DispatchCall
    counts: I64
    expert_counts: I64


def exchange(buffer: EPBuffer, call: DispatchCall) -> Arrived:
    """Sends this rank's tokens and waits until those of all ranks lie in the own receive area, visible.

    Raises SymmetryError if the ranks make different calls (nothing was written then), ShmemTimeout.
    """
    cached = call.handle is not None
    num_words = buffer.num_ranks + call.num_experts
    words = buffer.words[:num_words]
    batch = shmem.Batch()
    batch.barrier(call=call.text)
    if not cached:
        _notify(batch, buffer, call)
    _send_rows(batch, buffer, call)
    meta = _send_meta(batch, buffer, call)
    batch.barrier()
    if not cached:
        batch.wait(words, "!=", 0)
    batch.run(timeout=buffer.wait_timeout)
    del meta  # staged until here
    buffer.last_traffic = _traffic(buffer, call)
    if call.handle is not None:
        psum = call.handle.psum_num_recv_tokens_per_scaleup_rank
        experts = call.handle.num_unaligned_recv_tokens_per_expert
        return Arrived(call, np.diff(psum, prepend=0).astype(np.int64), experts.astype(np.int64))
    counts = -words - 1
    words[:] = 0
    per_source = counts[buffer.num_ranks :].reshape(buffer.num_ranks, -1)
    return Arrived(call, counts[: buffer.num_ranks], per_source.sum(axis=0))


def _notify(batch: shmem.Batch, buffer: EPBuffer, call: DispatchCall) -> None:
    """To each rank: how many records come from here, and how many selections for each of its experts.

    A put a word: eight bytes are placed whole. They are read behind the exit barrier, which completes them.
    """
    ranks, me = buffer.num_ranks, buffer.rank_idx
    local = call.num_experts // ranks
    values = np.empty((ranks, 1 + local), np.int64)
    values[:, 0] = -call.routing.rank_counts - 1
    values[:, 1:] = -call.routing.expert_counts.reshape(ranks, local) - 1
    places = np.arange(ranks + me * local - 1, ranks + (me + 1) * local) * 8
    places[0] = me * 8
    pes = np.repeat(np.array(buffer.neighbours), 1 + local)
    sources = (pes.reshape(ranks, -1) * (1 + local) + np.arange(1 + local)) * 8
    batch.put_many(buffer.words, np.tile(places, ranks), values, sources.reshape(-1), 8, pes)


def _send_rows(batch: shmem.Batch, buffer: EPBuffer, call: DispatchCall) -> None:
    """One block a pair, token by token: a row stays in the cache while it goes to all its ranks."""
    routing, record = call.routing, call.record
    targets = (routing.slot + buffer.rank_idx * call.num_max_tokens) * record.nbytes
    sources = routing.token * record.row_bytes
    batch.put_many(buffer.area, targets, call.x, sources, record.row_bytes, routing.rank)


def _send_meta(batch: shmem.Batch, buffer: EPBuffer, call: DispatchCall) -> I32:
    """Ids, weights and global ids, staged rank by rank in slot order; one strided put a rank."""
    record, routing, topk = call.record, call.routing, call.record.num_topk
    tokens = len(call.x)
    first = buffer.rank_idx * call.num_max_tokens
    by_token = np.empty((tokens, record.meta_words), np.int32)
    by_token[:, :topk] = call.topk_copy
    weights = by_token[:, topk : 2 * topk].view(np.float32)
    weights[:] = 0 if call.topk_weights is None else call.topk_weights
    by_token[:, 2 * topk] = np.arange(first, first + tokens)
    staged = by_token.take(routing.token_by_rank, axis=0)
    width = 4 * record.meta_words
    starts = np.cumsum(routing.rank_counts) - routing.rank_counts
    target = first * record.nbytes + record.meta_offset
    for pe in buffer.neighbours:
        n, source = int(routing.rank_counts[pe]), int(starts[pe]) * width
        if n:
            batch.put_strided(buffer.area, target, record.nbytes, staged, source, width, width, n, pe)
    return staged


def epilogue(buffer: EPBuffer, arrived: Arrived) -> tuple[Array, I64, F32 | None, EPHandle]:
    """Copies what arrived into `(recv_x [N,H], recv_topk_idx [N,K], recv_topk_weights [N,K] or None)`, and
    makes the handle, or returns the call's own. Rows in (source, slot) order. Local; the receive area is free
    after it."""
    call, record = arrived.call, arrived.call.record
    topk = record.num_topk
    rows = int(arrived.counts.sum())
    recv_x = buffer.outputs.empty((rows, call.x.shape[1]), BF16)
    meta = np.empty((rows, record.meta_words), np.int32)
    _copy_records(buffer, arrived, recv_x, meta)
    local = call.num_experts // buffer.num_ranks
    ids = meta[:, :topk] - np.int32(buffer.rank_idx * local)
    foreign = ids.view(np.uint32) >= local  # no selection and lower ranks' experts are negative, hence huge
    ids[foreign] = -1
    weights = None if call.topk_weights is None else meta[:, topk : 2 * topk].view(np.float32).copy()
    handle = call.handle or _make_handle(buffer, arrived, meta[:, 2 * topk], ids)
    if call.statistics is not None:
        np.add(call.statistics, arrived.expert_counts.astype(np.int32), out=call.statistics)
    return recv_x, ids.astype(np.int64), weights, handle


def _copy_records(buffer: EPBuffer, arrived: Arrived, recv_x: Array, meta: I32) -> None:
    record, tokens = arrived.call.record, arrived.call.num_max_tokens
    meta_bytes = 4 * record.meta_words
    batch = shmem.Batch()
    start = 0
    for source, n in enumerate(arrived.counts.tolist()):
        stop = start + n
        if n:
            region = buffer.area[source * tokens * record.nbytes :][: n * record.nbytes]
            row, beside = record.row_bytes, region[record.meta_offset :]
            batch.copy_rows(recv_x[start:stop], None, row, region, None, record.nbytes, row, n)
            batch.copy_rows(meta[start:stop], None, meta_bytes, beside, None, record.nbytes, meta_bytes, n)
        start = stop
    batch.run()


def _make_handle(buffer: EPBuffer, arrived: Arrived, global_ids: I32, ids: I32) -> EPHandle:
    call, topk = arrived.call, arrived.call.record.num_topk
    metadata = np.full((len(ids), topk + 2), -1, np.int32)
    metadata[:, 0] = global_ids
    master = metadata[:, 1]
    for k in range(topk):
        np.copyto(master, k, where=ids[:, k] >= 0)
    master += np.repeat(np.arange(buffer.num_ranks, dtype=np.int32) * topk, arrived.counts)
    aligned = [align(n, call.alignment) for n in arrived.expert_counts.tolist()]
    buffer.dispatches += 1
    return EPHandle(
        num_experts=call.num_experts,
        expert_alignment=call.alignment,
        num_max_tokens_per_rank=call.num_max_tokens,
        num_sms=call.num_sms,
        topk_idx=call.topk_idx,
        num_recv_tokens=len(ids),
        num_recv_tokens_per_expert_list=aligned,
        psum_num_recv_tokens_per_scaleup_rank=np.cumsum(arrived.counts).astype(np.int32),
        psum_num_recv_tokens_per_expert=np.cumsum(aligned).astype(np.int32),
        num_unaligned_recv_tokens_per_expert=arrived.expert_counts.astype(np.int32),
        recv_src_metadata=metadata,
        dst_buffer_slot_idx=call.routing.slots,
        _buffer=buffer,
        _serial=buffer.dispatches,
        _routing=call.routing,
        _topk_copy=call.topk_copy,
    )


def _traffic(buffer: EPBuffer, call: DispatchCall) -> traffic.Traffic:
    counts = call.routing.rank_counts
    crossing = call.routing.num_pairs - int(counts[buffer.rank_idx])
    local = call.num_experts // buffer.num_ranks
    peers = buffer.num_ranks - 1
    words = peers * (2 if call.handle is not None else 2 + 1 + local)
    weights = 0 if call.topk_weights is None else 4 * call.record.num_topk
    return traffic.count(
        "dispatch",
        int(call.routing.expert_counts.sum()),
        call.routing.num_pairs,
        crossing,
        row_bytes=call.record.row_bytes,
        beside_bytes=8 * call.record.num_topk + weights,
        record_bytes=call.record.nbytes,
        words=words,
    )
