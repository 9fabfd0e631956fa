"""The peer of dispatch: mpi4py's Alltoallv and NumPy, with the same deduplication, tuned, all buffers reused.

What a careful user writes without symmetric memory: rows gathered by destination with one `np.take`, record counts
by Alltoall, rows and what travels with them (ids, weights, global id) by one Alltoallv each. Rows arrive where the
caller reads them, so that there is no second pass over them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

Array = np.ndarray[Any, Any]


class AlltoallvDispatch:
    """Dispatch of up to `tokens` bf16 rows of `hidden` elements to `experts` experts on all ranks."""

    def __init__(self, comm: MPI.Comm, tokens: int, hidden: int, topk: int, experts: int) -> None:
        self.comm, self.ranks, self.me = comm, comm.size, comm.rank
        self.tokens, self.topk, self.local = tokens, topk, experts // comm.size
        self.words = hidden // 4  # a row as 64-bit words: NumPy moves them faster than bf16 elements
        copies = min(comm.size, topk)
        self.send = np.empty((tokens * copies, self.words), np.uint64)
        self.recv = np.empty((tokens * comm.size, self.words), np.uint64)
        self.send_meta = np.empty((tokens * copies, 2 * topk + 1), np.int32)
        self.recv_meta = np.empty((tokens * comm.size, 2 * topk + 1), np.int32)
        self.meta = np.empty((tokens, 2 * topk + 1), np.int32)
        self.mask = np.empty((comm.size + 1, tokens), np.bool_)
        self.row = MPI.UINT64_T.Create_contiguous(self.words).Commit()
        self.meta_row = MPI.INT32_T.Create_contiguous(2 * topk + 1).Commit()
        self.counts = np.empty(comm.size, np.int32)
        self.arriving = np.empty(comm.size, np.int32)

    def exchange(self, x: Array, topk_idx: Array, topk_weights: Array) -> int:
        """Sends; returns the number of rows that arrived in `recv` and `recv_meta`, by source and token."""
        tokens = len(x)
        mask = self.mask[:, :tokens]
        mask[:] = False
        owner = topk_idx // self.local
        every = np.arange(tokens)
        for k in range(self.topk):
            mask[owner[:, k], every] = True  # no selection (-1) falls into the last row
        chosen = np.flatnonzero(mask[: self.ranks]) % max(tokens, 1)
        np.sum(mask[: self.ranks], axis=1, out=self.counts)
        sent = len(chosen)
        np.take(x.view(np.uint64), chosen, axis=0, out=self.send[:sent], mode="clip")
        meta = self.meta[:tokens]
        meta[:, : self.topk] = topk_idx
        meta[:, self.topk : -1] = topk_weights.view(np.int32)
        meta[:, -1] = self.me * self.tokens + every
        np.take(meta, chosen, axis=0, out=self.send_meta[:sent], mode="clip")
        self.comm.Alltoall(self.counts, self.arriving)
        starts, places = np.cumsum(self.counts) - self.counts, np.cumsum(self.arriving) - self.arriving
        for source, target, kind in (
            (self.send, self.recv, self.row),
            (self.send_meta, self.recv_meta, self.meta_row),
        ):
            self.comm.Alltoallv([source, self.counts, starts, kind], [target, self.arriving, places, kind])
        return int(self.arriving.sum())

    def finish(self, rows: int) -> tuple[Array, Array, Array, Array]:
        """(rows [N,H] as bf16 bits, local ids [N,K], weights [N,K], tokens of each own expert)."""
        meta = self.recv_meta[:rows]
        ids = meta[:, : self.topk] - np.int32(self.me * self.local)
        foreign = ids.view(np.uint32) >= self.local
        ids[foreign] = -1
        counts = np.bincount((ids + 1).reshape(-1), minlength=self.local + 1)[1:]
        weights = meta[:, self.topk : -1].view(np.float32).copy()
        return self.recv[:rows].view(np.uint16), ids.astype(np.int64), weights, counts
