"""The demo's report: what rank 0 measured and found, as plain data that JSON carries.

Bytes stay in the ledgers that the buffer keeps, summed over the ranks and never mixed: *logical* is what
was asked for, per selection, own rank included; *physical* the deduplicated payload that crossed to another
rank; *wire* the records as laid out that crossed, with words and barriers; *upstream* the figure that
DeepEP's own tests print, deduplicated with the own rank included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCHEMA = "shmemu-demo/1"
PHASES = ("embed", "gate", "dispatch", "experts", "combine")
LEDGERS = ("logical", "physical", "wire", "upstream")


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least ``share`` of all samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def phase_rows(times_us: NDArray[np.float64], ledger: Mapping[str, NDArray[np.int64]]) -> list[dict[str, Any]]:
    """One row a phase: ``times_us [n, phases]`` of all ranks, NaN = none; ``ledger[phase] [4]`` in bytes."""
    rows = []
    for phase, column in zip(PHASES, times_us.T, strict=True):
        samples = column[~np.isnan(column)].tolist()
        counted = ledger.get(phase)
        rows.append(
            {
                "phase": phase,
                "unit": "us",
                "samples": len(samples),
                "p50": percentile(samples, 0.50),
                "p99": percentile(samples, 0.99),
                "max": max(samples),
                "bytes": None if counted is None else dict(zip(LEDGERS, counted.tolist(), strict=True)),
            }
        )
    return rows


def load_of(tokens_per_expert: NDArray[np.int32]) -> dict[str, float]:
    """The load of the experts: fewest, mean and most tokens."""
    return {
        "min": int(tokens_per_expert.min()),
        "mean": float(tokens_per_expert.mean()),
        "max": int(tokens_per_expert.max()),
    }
