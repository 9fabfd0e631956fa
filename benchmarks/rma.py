"""What do put, get and atomics cost against mpi4py's one-sided calls and shmem4py, many small puts against a C loop?

    python benchmarks/rma.py [--rounds 9] [--shmem4py PYTHON] [--out DIR]
    python benchmarks/rma.py --quick               every case once, few repetitions, no claims

Two PEs: PE 0 acts, PE 1 waits in a barrier. A latency is of a call that is complete (put and quiet, Put and Flush), a
rate is a message of up to 64 under way. mpi4py takes turns with us in one job. shmem4py needs an MPI and a NumPy of its
own, so it runs in jobs of its own, each right after one of ours: `--shmem4py` names a Python that has it, or a whole
command with {n} for the number of PEs; once for each backend.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bare
import common
import numpy as np
import rma_shmem

HERE = Path(__file__).resolve()
FASTER_UP_TO = 256 << 10
LARGE_TARGET, LOOP_TARGET = 0.95, 1 / 5
MANY = 256
MANY_CASE, LOOP = f"put_many, {MANY} x 8 B", "C loop"
OSHRUN = "oshrun --oversubscribe -n {n}"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PEER_S = 300


def main() -> int:
    args = _arguments()
    if args.result:
        return run_rank(args)
    report = common.header("rma")
    with tempfile.TemporaryDirectory(prefix="shmemu-bench-") as folder:
        bare.build(folder)
        args.folder = folder
        code, found = _ours(args, args.rounds, "--peers")
        if code:
            return code
        _note(report, found["cases"])
        report["mpi"] = found["mpi"]
        report["peers_absent"].update(found["absent"])
        for given in args.shmem4py:
            if code := _with_shmem4py(given, args, report):
                return code
    if not args.shmem4py:
        report["peers_absent"]["shmem4py"] = "no --shmem4py PYTHON: it needs another MPI and numpy<2"
    common.show(report)
    common.finish(report, args.out)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=common.ROUNDS_MIN)
    parser.add_argument("--calls", type=int, default=4000, help="small messages in a round")
    parser.add_argument("--shmem4py", action="append", default=[], help="a Python with shmem4py, or a command with {n}")
    parser.add_argument("--quick", action="store_true", help="every case once, few repetitions, no claims")
    parser.add_argument("--out", default="out")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--peers", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.calls = 1, 100
    return args


def _ours(args: argparse.Namespace, rounds: int, *more: str) -> tuple[int, dict[str, Any]]:
    """A job of ours: its exit code and what PE 0 wrote."""
    from shmem import launch

    result = Path(args.folder) / "ours.json"
    options = [f"--rounds={rounds}", f"--calls={args.calls}", f"--folder={args.folder}", f"--result={result}", *more]
    code = launch.run_job(2, [str(HERE), *options], env={"SHMEMU_HEAP_SIZE": str(16 << 20)})
    if code:
        print(f"the job ended with exit code {code}", file=sys.stderr)
        return code, {}
    return 0, json.loads(result.read_text(encoding="utf-8"))


def _with_shmem4py(given: str, args: argparse.Namespace, report: dict[str, Any]) -> int:
    """Rounds of one job of ours and one of the peer; a peer that does not run is absent, and the report says why."""
    cases: dict[str, dict[str, list[float]]] = {}
    for turn in range(args.rounds):
        code, found = _ours(args, 1)
        if code:
            return code
        theirs = _shmem4py(given, args)
        if isinstance(theirs, str):
            report["peers_absent"][f"shmem4py ({given})"] = theirs
            return 0
        name = f"shmem4py, {theirs['name'].removeprefix('http://www.').rstrip('/')}"
        for case, seconds in theirs["cases"].items():
            parties = cases.setdefault(case, {"ours": [], name: []})
            parties["ours"] += found["cases"][case]["ours"]
            parties[name] += seconds["shmem4py"]
        print(f"{name}: round {turn + 1} of {args.rounds}: right results", flush=True)
    _note(report, cases)
    return 0


def _shmem4py(given: str, args: argparse.Namespace) -> dict[str, Any] | str:
    """What the peer's job wrote, or why it did not."""
    command = shlex.split((given if "{n}" in given else f"{OSHRUN} {shlex.quote(given)}").replace("{n}", "2"))
    result = Path(args.folder) / "shmem4py.json"
    result.unlink(missing_ok=True)
    program = [str(HERE.with_name("rma_shmem.py")), f"--calls={args.calls}", f"--result={result}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    try:
        done = subprocess.run(
            [*command, *program], env={**ROOT, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PEER_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not result.exists():  # how it ends does not matter: some backends crash after their last barrier
        return f"exit code {done.returncode}: {(done.stderr.strip() or 'no output').splitlines()[-1]}"
    return json.loads(result.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _note(report: dict[str, Any], cases: dict[str, dict[str, list[float]]]) -> None:
    """Rows and ratios of the cases `[case][party]`, in seconds a call."""
    sizes = rma_shmem.case_names()
    for case, parties in cases.items():
        target = LOOP_TARGET if case == MANY_CASE else 1.0 if sizes[case] <= FASTER_UP_TO else LARGE_TARGET
        for what, samples in parties.items():
            report["rows"].append(common.row("rma", case, what, "us", [1e6 * s for s in samples]))
            if what != "ours":
                claim = common.ratio(case, what, parties["ours"], samples, target, report["load_before"])
                report["ratios"].append(claim)


# ------------------------------------------------------------------------------------------ in a rank


def run_rank(args: argparse.Namespace) -> int:
    """One PE: the parties, the check of each, the rounds; PE 0 writes the seconds a call."""
    from mpi4py import MPI

    import shmem

    parties: dict[str, Any] = {"ours": rma_shmem.ShmemCalls(shmem)}
    if args.peers:
        from rma_mpi import MpiCalls

        parties["mpi4py"] = MpiCalls(MPI.COMM_WORLD)
    for party in parties.values():
        rma_shmem.check(party)
    cases = rma_shmem.measure(parties, args.rounds, args.calls, shmem.barrier_all)
    absent = {}
    if args.peers:
        if hasattr(shmem, "put_many"):
            cases[MANY_CASE] = _many(args)
        else:
            absent[MANY_CASE] = "skipped: shmem has no put_many"
    for party in parties.values():
        party.free()
    if shmem.my_pe() == 0:
        found = {"mpi": MPI.Get_library_version().split("\n")[0].strip("\0 "), "cases": cases, "absent": absent}
        args.result.write_text(json.dumps(found), encoding="utf-8")
        print("right results: " + ", ".join(parties), flush=True)
    shmem.finalize()
    return 0


def _many(args: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of 256 puts of one word each, and of the C loop that stores the same."""
    import shmem

    lib, me = bare.load(args.folder), shmem.my_pe()
    words = shmem.zeros(2 * MANY, np.int64)
    targets, sources = words[:MANY], np.arange(1, MANY + 1)
    pes = np.full(MANY, rma_shmem.OTHER)
    there = shmem.ptr(words, rma_shmem.OTHER)
    addresses = there.ctypes.data + 8 * np.arange(MANY, dtype=np.uint64)

    def ours() -> None:
        shmem.put_many(targets, sources, pes)
        shmem.quiet()

    at, values = addresses.ctypes.data, sources.ctypes.data
    parties: dict[str, Callable[[], None]] = {"ours": ours, LOOP: lambda: lib.store_many(at, values, MANY)}
    for name, call in parties.items():
        words[:] = 0
        shmem.barrier_all()
        if me == 0:
            call()
        shmem.barrier_all()
        if me == rma_shmem.OTHER:
            right = targets.tolist() == list(range(1, MANY + 1)) and not words[MANY:].any()
            assert right, f"{name}: wrong words"
        shmem.barrier_all()
    timed = {name: _each(call, me, args.calls) for name, call in parties.items()}
    found = common.interleaved(args.rounds, timed, shmem.barrier_all)
    shmem.free(words)
    return {name: phases["call"] for name, phases in found.items()}


def _each(call: Callable[[], None], me: int, times: int) -> Callable[[], dict[str, float]]:
    def run() -> dict[str, float]:
        started = time.perf_counter()
        for _ in range(times if me == 0 else 0):
            call()
        return {"call": (time.perf_counter() - started) / times}

    return run


if __name__ == "__main__":
    sys.exit(main())
