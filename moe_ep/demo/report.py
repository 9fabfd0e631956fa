"""The demo's report: what rank 0 measured and found, as plain data that JSON carries.

Bytes stay in the ledgers that the buffer keeps, summed over the ranks and never mixed: *logical* is what
was asked for, per selection, own rank included; *physical* the deduplicated payload that crossed to another
rank; *wire* the records as laid out that crossed, with words and barriers; *upstream* the figure that
DeepEP's own tests print, deduplicated with the own rank included.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_ep.demo.inputs import Job

Array = NDArray[Any]
Results = dict[str, Array]  # what one rank leaves, by name: see `job.result_layout`
SCHEMA = "shmemu-demo/1"
PHASES = ("embed", "gate", "dispatch", "experts", "combine")
EXCHANGES = ("dispatch", "combine")  # the phases with a ledger
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


def report_of(job: Job, gathered: list[Results], difference: str | None) -> dict[str, Any]:
    """What the launcher shows and saves."""
    ledgers = np.sum([results["bytes"] for results in gathered], axis=0)
    shape = job.shape
    return {
        "schema": SCHEMA,
        "source": job.source,
        "pes": job.pes,
        "tokens": job.tokens,
        "repeat": job.repeat,
        "shape": {name: getattr(shape, name) for name in ("experts", "topk", "hidden", "inner", "seed")},
        "versions": {"python": sys.version.split()[0], "numpy": np.__version__},
        "phases": phase_rows(
            np.concatenate([results["times_us"].reshape(-1, len(PHASES)) for results in gathered]),
            dict(zip(EXCHANGES, ledgers, strict=True)),
        ),
        "tokens_per_expert": load_of(np.concatenate([results["counts"] for results in gathered])),
        "equal": difference is None,
        "difference": difference,
    }
