"""Dispatch, direct mode: a token goes once to each rank that owns one of its experts.

`exchange` is one batch: entry barrier (all receive areas are free, all ranks make the same call), the counts
as -n-1 words, one record a (token, rank) into the slot that the sender chose, exit barrier, and the wait for
the counts of all ranks. `epilogue` copies the records, by source and slot, into arrays that the caller owns.
Python computes index arrays; all bytes are moved by the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import shmem

from . import traffic
from .arguments import BF16, F32, Array, DispatchCall
from .handle import I32, I64, EPHandle
from .layout import align

if TYPE_CHECKING:
    from .buffer import EPBuffer


@dataclass(frozen=True)
class Arrived:
    """What lies in the receive area: `counts [R]` records by source, `expert_counts [El]` selections.

    `beside [T,2K+1]` is what travelled with each own token: ids, weights, global id.
    """

    call: DispatchCall
    counts: I64
    expert_counts: I64
    beside: I32


def exchange(buffer: EPBuffer, call: DispatchCall) -> Arrived:
    """Sends this rank's tokens and waits until those of all ranks lie in the own receive area, visible.

    Raises SymmetryError if the ranks make different calls (nothing was written then), ShmemTimeout.
    """
    cached = call.handle is not None
    words = buffer.words[: buffer.num_ranks + call.num_experts]
    beside = _beside(buffer, call)
    batch = shmem.Batch()
    batch.barrier(call=call.text)
    if not cached:
        _notify(batch, buffer, call)
    _send(batch, buffer, call, beside)
    batch.barrier()
    if not cached:
        batch.wait(words, "!=", 0)
    batch.run(timeout=buffer.wait_timeout)
    buffer.last_traffic = _traffic(buffer, call)
    if call.handle is not None:
        psum = call.handle.psum_num_recv_tokens_per_scaleup_rank.astype(np.int64)
        experts = call.handle.num_unaligned_recv_tokens_per_expert.astype(np.int64)
        return Arrived(call, np.diff(psum, prepend=0), experts, beside)
    counts = -words - 1
    words[:] = 0
    per_source = counts[buffer.num_ranks :].reshape(buffer.num_ranks, -1)
    return Arrived(call, counts[: buffer.num_ranks], per_source.sum(axis=0), beside)


def _notify(batch: shmem.Batch, buffer: EPBuffer, call: DispatchCall) -> None:
    """To each rank: how many records come from here, and how many selections for each of its experts.

    A put a word. They are read behind the exit barrier, which completes them.
    """
    ranks, local = buffer.num_ranks, call.num_experts // buffer.num_ranks
    values = np.empty((ranks, 1 + local), np.int64)
    np.subtract(-1, call.routing.rank_counts, out=values[:, 0])
    np.subtract(-1, call.routing.expert_counts.reshape(ranks, local), out=values[:, 1:])
    targets, sources, pes = _places_of_counts(ranks, buffer.rank_idx, local)
    batch.put_many(buffer.words, targets, values, sources, 8, pes)


@lru_cache(maxsize=8)
def _places_of_counts(ranks: int, me: int, local: int) -> tuple[I64, I64, I64]:
    """Byte offsets of the words at the target, of the values [R,1+El] here, and the PEs: the own one last."""
    targets = np.arange(ranks + me * local - 1, ranks + (me + 1) * local)
    targets[0] = me
    pes = np.repeat((np.arange(ranks) + me + 1) % ranks, 1 + local)
    sources = pes * (1 + local) + np.tile(np.arange(1 + local), ranks)
    return np.tile(targets * 8, ranks), sources * 8, pes


def _beside(buffer: EPBuffer, call: DispatchCall) -> I32:
    """What travels with each token, [T,2K+1]: global expert ids, weights (0 where none were given), global id."""
    tokens, topk = call.topk_copy.shape
    first = buffer.rank_idx * call.num_max_tokens
    words = np.empty((tokens, call.record.meta_words), np.int32)
    words[:, :topk] = call.topk_copy
    words[:, topk : 2 * topk] = 0 if call.topk_weights is None else call.topk_weights.view(np.int32)
    words[:, 2 * topk] = np.arange(first, first + tokens)
    return words


def _send(batch: shmem.Batch, buffer: EPBuffer, call: DispatchCall, beside: I32) -> None:
    """One record a pair, token by token: a row stays in the cache while it goes to all its ranks."""
    routing = call.routing
    slot, token, rank = routing.slot, routing.token, routing.rank
    if not call.keep_own:
        own = len(routing.own_token)
        token = np.concatenate([token, routing.own_token])
        order = np.argsort(token, kind="stable")
        token = token[order]
        slot = np.concatenate([slot, np.arange(own)])[order]
        rank = np.concatenate([rank, np.full(own, buffer.rank_idx)])[order]
    targets = (slot + buffer.rank_idx * call.num_max_tokens) * call.record.nbytes
    _put(batch, buffer, call, beside, targets, token, rank)


def _put(
    batch: shmem.Batch, buffer: EPBuffer, call: DispatchCall, beside: I32, targets: I64, token: I64, pes: I64
) -> None:
    """The two parts of a record: the row straight from x, and what travels beside it."""
    record, width = call.record, 4 * call.record.meta_words
    batch.put_many(buffer.area, targets, call.x, token * record.row_bytes, record.row_bytes, pes)
    batch.put_many(buffer.area, targets + record.meta_offset, beside, token * width, width, pes)


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
    np.copyto(ids, -1, where=foreign)
    weights = None if call.topk_weights is None else meta[:, topk : 2 * topk].view(np.float32).copy()
    handle = call.handle or _make_handle(buffer, arrived, meta[:, 2 * topk], foreign)
    if call.statistics is not None:
        np.add(call.statistics, arrived.expert_counts.astype(np.int32), out=call.statistics)
    return recv_x, ids.astype(np.int64), weights, handle


def _copy_records(buffer: EPBuffer, arrived: Arrived, recv_x: Array, meta: I32) -> None:
    """Records of other ranks from the receive area; the own ones from there too, or straight from x."""
    call, record, width = arrived.call, arrived.call.record, 4 * arrived.call.record.meta_words
    ends = np.cumsum(arrived.counts)
    starts = ends - arrived.counts
    places = np.arange(len(meta)) + np.repeat(
        np.arange(buffer.num_ranks) * call.num_max_tokens - starts, arrived.counts
    )
    own = slice(int(starts[buffer.rank_idx]), int(ends[buffer.rank_idx]))
    batch = shmem.Batch()
    for part in (slice(0, own.start), slice(own.stop, None)) if call.keep_own else (slice(None),):
        chosen, row = places[part], record.row_bytes
        batch.copy_rows(recv_x[part], None, row, buffer.area, chosen, record.nbytes, row)
        beside = buffer.area[record.meta_offset :]
        batch.copy_rows(meta[part], None, width, beside, chosen, record.nbytes, width)
    if call.keep_own:
        token, row = call.routing.own_token, record.row_bytes
        batch.copy_rows(recv_x[own], None, row, call.x, token, row, row)
        np.take(arrived.beside, token, axis=0, out=meta[own], mode="clip")
    batch.run()


def _make_handle(buffer: EPBuffer, arrived: Arrived, global_ids: I32, foreign: NDArray[np.bool_]) -> EPHandle:
    call, topk = arrived.call, arrived.call.record.num_topk
    rows = len(global_ids)
    # As in routing: one assignment a position, in increasing order, leaves the highest.
    master = np.zeros(rows, np.int32)
    for k, own in enumerate(~np.ascontiguousarray(foreign.T)):
        np.copyto(master, k, where=own)
    metadata = np.full((rows, topk + 2), -1, np.int32)
    metadata[:, 0] = global_ids
    metadata[:, 1] = master + np.repeat(np.arange(buffer.num_ranks) * topk, arrived.counts)
    aligned = [align(n, call.alignment) for n in arrived.expert_counts.tolist()]
    buffer.dispatches += 1
    return EPHandle(
        num_experts=call.num_experts,
        expert_alignment=call.alignment,
        num_max_tokens_per_rank=call.num_max_tokens,
        num_sms=call.num_sms,
        topk_idx=call.topk_idx,
        num_recv_tokens=rows,
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
