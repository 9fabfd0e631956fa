"""The demo's report: what rank 0 measured and found, as plain data that JSON carries.

Bytes are kept in separate ledgers: *logical* counts every selection, own rank included, as if no copy
were shared; *physical* counts the deduplicated payload that crossed to another rank; *deepep* is the
figure that DeepEP's own tests print, deduplicated with the own rank included. None of them is the wire.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCHEMA = "shmemu-demo/1"
PHASES = ("embed", "gate", "dispatch", "experts", "combine")
WEIGHT_BYTES, ROW_ITEM_BYTES, ID_BYTES = 4, 2, 8


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least ``share`` of all samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def count_copies(topk_idxs: Sequence[NDArray[np.int64]], experts: int) -> dict[str, int]:
    """How often tokens travel in all; rank ``r`` routes its tokens by ``topk_idxs[r] [T,K]``.

    ``selections``: per (token, expert); ``records``: per (token, rank); ``crossing``: those to another rank.
    """
    ranks = len(topk_idxs)
    total = {"selections": 0, "records": 0, "crossing": 0}
    for source, idx in enumerate(topk_idxs):
        owner = np.where(idx >= 0, idx // (experts // ranks), -1)
        reached = np.stack([(owner == rank).any(axis=1) for rank in range(ranks)], axis=1)
        total["selections"] += int((idx >= 0).sum())
        total["records"] += int(reached.sum())
        total["crossing"] += int(reached.sum() - reached[:, source].sum())
    return total


def count_bytes(
    topk_idxs: Sequence[NDArray[np.int64]], experts: int, hidden: int
) -> dict[str, dict[str, int]]:
    """Bytes of dispatch and combine: a bf16 row with ids and weights, and a bf16 row with weights."""
    copies = count_copies(topk_idxs, experts)
    topk = topk_idxs[0].shape[1]
    record = {
        "dispatch": hidden * ROW_ITEM_BYTES + topk * (ID_BYTES + WEIGHT_BYTES),
        "combine": hidden * ROW_ITEM_BYTES + topk * WEIGHT_BYTES,
    }
    return {
        phase: {
            "logical": copies["selections"] * size,
            "physical": copies["crossing"] * size,
            "deepep": copies["records"] * size,
        }
        for phase, size in record.items()
    }


def phase_rows(times_us: dict[str, list[float]], ledger: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    """One row a phase: p50, p99 and max in us over all ranks and repetitions, and its bytes if any."""
    return [
        {
            "phase": phase,
            "unit": "us",
            "samples": len(samples),
            "p50": percentile(samples, 0.50),
            "p99": percentile(samples, 0.99),
            "max": max(samples),
            "bytes": ledger.get(phase),
        }
        for phase, samples in times_us.items()
    ]


def load_of(tokens_per_expert: NDArray[np.int32]) -> dict[str, float]:
    """The load of the experts: fewest, mean and most tokens."""
    return {
        "min": int(tokens_per_expert.min()),
        "mean": float(tokens_per_expert.mean()),
        "max": int(tokens_per_expert.max()),
    }
