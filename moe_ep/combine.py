"""Combine, direct mode: the rows that a dispatch delivered go back to their sources and are added there.

`exchange` is one batch: entry barrier, each row and its weights into the source's `recv[slot][token]` (slot =
the sending rank, or the master position where ranks outnumber positions), exit barrier. `epilogue` adds, in
fp32 and in a fixed order, the biases and then the rows by increasing position, and rounds once
(docs/expert-parallel.md); weights are gathered from each expert's owner, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import shmem

from . import traffic
from .arguments import BF16, F32, Array, CombineCall
from .handle import I64
from .layout import uses_rank_slots

if TYPE_CHECKING:
    from .buffer import EPBuffer


def exchange(buffer: EPBuffer, call: CombineCall) -> None:
    """Returns this rank's rows; on return those of all ranks lie in the own receive area, visible.

    Raises SymmetryError if the ranks make different calls (nothing was written then), ShmemTimeout.
    """
    batch = shmem.Batch()
    batch.barrier(call=call.text)
    _send(batch, buffer, call)
    batch.barrier()
    batch.run(timeout=buffer.wait_timeout)
    buffer.last_traffic = _traffic(buffer, call)


def _send(batch: shmem.Batch, buffer: EPBuffer, call: CombineCall) -> None:
    handle, record, topk = call.handle, call.record, call.handle.num_topk
    # Begin with the rows of the rank after the own one, so that not all write to PE 0 first.
    psum = handle.psum_num_recv_tokens_per_scaleup_rank
    rows = np.roll(np.arange(handle.num_recv_tokens), -int(psum[buffer.rank_idx]))
    metadata = handle.recv_src_metadata
    source, token = np.divmod(metadata[rows, 0].astype(np.int64), handle.num_max_tokens_per_rank)
    if _by_rank(buffer, call):
        slot: I64 | int = buffer.rank_idx
    else:
        slot = metadata[rows, 1].astype(np.int64) - source * topk
    targets = (slot * handle.num_max_tokens_per_rank + token) * record.nbytes
    batch.put_many(buffer.area, targets, call.x, rows * record.row_bytes, record.row_bytes, source)
    if call.topk_weights is not None:
        beside = targets + record.weights_offset
        batch.put_many(buffer.area, beside, call.topk_weights, rows * (4 * topk), 4 * topk, source)


def epilogue(buffer: EPBuffer, call: CombineCall) -> tuple[Array, F32 | None]:
    """`(combined_x [T,H], combined_topk_weights [T,K] or None)`. Local; the receive area is free after it."""
    handle, record = call.handle, call.record
    tokens, topk = handle.topk_idx.shape
    token = np.arange(tokens)[:, None]
    owner = handle._routing.owner
    if _by_rank(buffer, call):
        slot = owner
    else:
        # The master of a selection's rank; no selection reads the waste column and is masked below.
        slot = handle._routing.master[token, owner].astype(np.int64)
    places = (slot * handle.num_max_tokens_per_rank + token) * record.nbytes
    combined = buffer.outputs.empty((tokens, call.x.shape[1]), BF16)
    # A row's place in the sum is its master position; the other positions add nothing.
    terms = np.where(handle.dst_buffer_slot_idx >= 0, places, -1)
    batch = shmem.Batch()
    bias = call.biases or None
    batch.reduce_rows(combined, record.row_bytes, terms, buffer.area, call.x.shape[1], bias)
    batch.run()
    if call.topk_weights is None:
        return combined, None
    places += record.weights_offset + 4 * np.arange(topk)
    selected = owner >= 0
    weights = np.zeros((tokens, topk), np.float32)
    weights[selected] = buffer.area.view(np.float32)[places[selected] // 4]
    return combined, weights


def _by_rank(buffer: EPBuffer, call: CombineCall) -> bool:
    return uses_rank_slots(buffer.num_ranks, call.handle.num_topk, buffer.allow_multiple_reduction)


def _traffic(buffer: EPBuffer, call: CombineCall) -> traffic.Traffic:
    handle = call.handle
    rows = handle.num_recv_tokens
    own = int(np.diff(handle.psum_num_recv_tokens_per_scaleup_rank, prepend=0)[buffer.rank_idx])
    return traffic.count(
        "combine",
        int(handle.num_unaligned_recv_tokens_per_expert.sum()),
        rows,
        rows - own,
        row_bytes=call.record.row_bytes,
        beside_bytes=0 if call.topk_weights is None else 4 * handle.num_topk,
        record_bytes=call.record.nbytes,
        words=2 * (buffer.num_ranks - 1),
    )
