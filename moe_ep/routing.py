"""Who sends what where: everything that the top-k routing of a rank's own tokens determines, in vectorised
NumPy.

A token travels once to each distinct rank that owns one of its experts; the selection with the highest
position among that rank's (the master) stands for the pair. Slots at the receiver are given out in token
order, so that the rows of a source arrive in the order of its tokens and two runs place them alike
(docs/expert-parallel.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shmem.errors import RoutingError

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Routing:
    """T tokens of one rank; a record for each of their pairs (token, rank), n of them with another rank.

    owner [T,K]            rank of each selection, -1 for none
    master [T,R+1]         highest position of a token's selections on a rank, -1 for none; last column: waste
    expert_counts [E]      selections of each expert
    rank_counts [R]        records to each rank
    slots [T,K]            `rank * Tm + slot` of the record at its master position, -1 elsewhere
    token, rank, slot [n]  the pairs with other ranks, token by token, beginning with the rank after the own
    own_token              the tokens of the own rank's records, in slot order
    """

    owner: I64
    master: NDArray[np.int8]
    expert_counts: I64
    rank_counts: I64
    slots: I32
    token: I64
    rank: I64
    slot: I64
    own_token: I64

    @property
    def num_pairs(self) -> int:
        """Records to all ranks."""
        return len(self.token) + len(self.own_token)


def route(topk_idx: I64, num_experts: int, num_ranks: int, rank: int, num_max_tokens: int) -> Routing:
    """The routing of `topk_idx` [T,K] (global ids, -1 = none), sent by `rank`.

    Raises RoutingError for an id outside -1 .. E-1, and for an expert that a token selects twice.
    """
    expert_counts = _count_experts(topk_idx, num_experts)
    tokens, topk = topk_idx.shape
    owner = topk_idx // (num_experts // num_ranks)
    master = _masters(owner, num_ranks)
    sent = master[:, :-1] >= 0
    slots = np.cumsum(sent, axis=0, dtype=np.int64)
    rank_counts = slots[-1].copy() if tokens else np.zeros(num_ranks, np.int64)
    slots -= 1
    # Each rank begins with its neighbour, so that not all write to PE 0 first.
    peers = (np.arange(num_ranks - 1) + rank + 1) % num_ranks
    pairs = np.flatnonzero(sent[:, peers])
    token = pairs // max(len(peers), 1)
    to = peers[pairs - token * len(peers)]
    slot = slots.reshape(-1)[token * num_ranks + to]
    own_token = np.flatnonzero(sent[:, rank])
    slot_idx = np.full((tokens, topk), -1, np.int32)
    flat, first = slot_idx.reshape(-1), rank * num_max_tokens
    flat[token * topk + master.reshape(-1)[token * (num_ranks + 1) + to]] = first + slot
    flat[own_token * topk + master[own_token, rank]] = np.arange(first, first + len(own_token))
    return Routing(owner, master, expert_counts, rank_counts, slot_idx, token, to, slot, own_token)


def _count_experts(topk_idx: I64, num_experts: int) -> I64:
    """Selections of each expert, after the two checks that need every id."""
    if topk_idx.size and (topk_idx.min() < -1 or topk_idx.max() >= num_experts):
        token, k = np.argwhere((topk_idx < -1) | (topk_idx >= num_experts))[0]
        raise RoutingError(
            f"topk_idx[{token}, {k}] is {topk_idx[token, k]}: an expert id lies in 0..{num_experts - 1}, "
            "or is -1 for no selection"
        )
    shifted = topk_idx + 1
    counts = np.bincount(shifted.reshape(-1), minlength=num_experts + 1)
    # One byte a (token, expert): fewer bytes set than selections made means that some expert came twice.
    hits = np.zeros((len(topk_idx), num_experts + 1), np.bool_)
    shifted += (np.arange(len(topk_idx)) * (num_experts + 1))[:, None]
    hits.reshape(-1)[shifted] = True
    distinct = np.count_nonzero(hits) - np.count_nonzero(hits[:, 0])
    if distinct != topk_idx.size - counts[0]:
        raise RoutingError(_twice(topk_idx))
    return counts[1:]


def _twice(topk_idx: I64) -> str:
    ordered = np.sort(topk_idx, axis=1)
    token, k = np.argwhere((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0))[0]
    return f"topk_idx[{token}] selects expert {ordered[token, k]} twice: {topk_idx[token].tolist()}"


def _masters(owner: I64, num_ranks: int) -> NDArray[np.int8]:
    # One assignment a position, in increasing order: inside one no place is written twice, so the last to write
    # a place is the highest position, whatever order NumPy takes. No selection (-1) falls into the last column.
    master = np.full((len(owner), num_ranks + 1), -1, np.int8)
    flat = master.reshape(-1)
    place = owner.T + np.arange(len(owner)) * (num_ranks + 1)
    for k in range(owner.shape[1]):
        flat[place[k]] = k
    return master
