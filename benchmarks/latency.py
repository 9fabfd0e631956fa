"""What does a call cost? Small puts, put_signal, a large put, barriers, start and stop, each against its barest peer.

    python benchmarks/latency.py [--pes 2,4,8,16] [--rounds 9] [--out DIR]
    python benchmarks/latency.py --quick          every case once, few repetitions, no claims

Peers: a cffi call that stores 8 bytes (put, p), the same loop of put_signal ping-pong through a bare cffi flag, NumPy's
copy into the same shared window (16 MiB), MPI_Barrier of the MPI that launched, and a program that only starts MPI.
The calls are made from Python. A round runs ours and the peer back to back in one job.
"""

from __future__ import annotations

import argparse
import json
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

LARGE = 16 << 20
TARGETS = {"put 8 B": 1 / 3, "p 8 B": 1 / 3, "put_signal half round trip": 1 / 2, "put 16 MiB": 0.95}
BARRIER_TARGETS = {2: 1.0, 4: 1.0, 8: 2.0, 16: 2.0}
START_ADDS_S = 0.3
START = {  # the same imports, so that the difference is what init and finalize add to MPI's own start
    "ours": "import shmem; shmem.init(); shmem.finalize()",
    "MPI alone": "import shmem; from mpi4py import MPI; MPI.COMM_WORLD.Barrier()",
}


def main() -> int:
    args = _arguments()
    if args.result:
        return run_rank(args)
    report = common.header("latency")
    with tempfile.TemporaryDirectory(prefix="shmemu-bench-") as folder:
        bare.build(folder)
        for pes in args.pes:
            if code := _run_job(pes, args, folder, report):
                return code
    code = _start_and_stop(args, report)
    common.show(report)
    common.finish(report, args.out)
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pes", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=common.ROUNDS_MIN)
    parser.add_argument("--calls", type=int, default=20000, help="small puts in a round")
    parser.add_argument("--quick", action="store_true", help="every case once, few repetitions, no claims")
    parser.add_argument("--out", default="out")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.pes, args.rounds, args.calls = [2, 4], 1, 200
    return args


def _run_job(pes: int, args: argparse.Namespace, folder: str, report: dict[str, Any]) -> int:
    from shmem import launch

    result = Path(folder) / f"result{pes}.json"
    options = [f"--rounds={args.rounds}", f"--calls={args.calls}", f"--folder={folder}", f"--result={result}"]
    code = launch.run_job(
        pes, [str(Path(__file__).resolve()), *options], env={"SHMEMU_HEAP_SIZE": str(LARGE + (1 << 20))}
    )
    if code:
        print(f"{pes} PEs: the job ended with exit code {code}", file=sys.stderr)
        return code
    found = json.loads(result.read_text(encoding="utf-8"))
    report["mpi"] = found["mpi"]
    for case, parties in found["cases"].items():
        for what, samples in parties.items():
            report["rows"].append(common.row("latency", f"{case}, {pes} PEs", what, "us", [1e6 * s for s in samples]))
        peer = next(name for name in parties if name != "ours")
        target = BARRIER_TARGETS.get(pes) if case == "barrier_all" else TARGETS[case] if pes == 2 else None
        claim = common.ratio(f"{case}, {pes} PEs", peer, parties["ours"], parties[peer], target, report["load_before"])
        report["ratios"].append(claim)
    print(f"{pes} PEs: wake-ups of a sleeping PE in a barrier: {found['woken']:.2f} (at most 1)")
    return 0


def _start_and_stop(args: argparse.Namespace, report: dict[str, Any]) -> int:
    """Seconds of a whole job of 4 PEs that only starts and stops; heaps of 1 GiB."""
    from shmem import launch

    mpi = launch.find()
    seconds: dict[str, list[float]] = {name: [] for name in START}
    for turn in range(args.rounds):
        for name in START if turn % 2 == 0 else reversed(START):
            command = launch.command(4, [sys.executable, "-c", START[name]], mpi)
            started = time.perf_counter()
            done = subprocess.run(command, env=launch.environment(4, mpi), stdin=subprocess.DEVNULL, check=False)
            seconds[name].append(time.perf_counter() - started)
            if done.returncode:
                return done.returncode
    case = "start and stop, 4 PEs, 1 GiB heaps"
    for name, samples in seconds.items():
        report["rows"].append(common.row("latency", case, name, "s", samples))
    added = sorted(a - b for a, b in zip(seconds["ours"], seconds["MPI alone"], strict=True))[args.rounds // 2]
    print(f"{case}: {added:+.3f} s against MPI alone (target: at most +{START_ADDS_S})")
    return 0


# ------------------------------------------------------------------------------------------ in a rank


def run_rank(args: argparse.Namespace) -> int:
    """One PE: each case in interleaved rounds; PE 0 writes the seconds a call, as it saw them."""
    from mpi4py import MPI

    import shmem

    lib = bare.load(args.folder)
    pes, me = shmem.n_pes(), shmem.my_pe()
    cases: dict[str, Any] = {}
    if pes == 2:
        cases.update(_small_puts(args, lib, me))
        cases.update(_ping_pong(args, lib, me))
        cases.update(_large_put(args, me))
    cases.update(_barriers(args, pes, MPI.COMM_WORLD))
    woken = _wake_ups(pes)
    if me == 0:
        found = {"mpi": MPI.Get_library_version().split("\n")[0], "cases": cases, "woken": woken}
        Path(args.result).write_text(json.dumps(found), encoding="utf-8")
    shmem.finalize()
    return 0


def _timed(call: Callable[[], Any], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def _rounds(args: argparse.Namespace, parties: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    import shmem

    def party(measure: Callable[[], float]) -> Callable[[], dict[str, float]]:
        return lambda: {"call": measure()}

    named = {name: party(measure) for name, measure in parties.items()}
    return {name: phases["call"] for name, phases in common.interleaved(args.rounds, named, shmem.barrier_all).items()}


def _small_puts(args: argparse.Namespace, lib: Any, me: int) -> dict[str, Any]:
    """PE 0 puts, PE 1 waits in a barrier."""
    import shmem

    word = shmem.zeros(1, np.int64)
    source = np.ones(1, np.int64)
    address = shmem.ptr(word, 1).ctypes.data

    def only_first(call: Callable[[], Any]) -> Callable[[], float]:
        return lambda: _timed(call, args.calls) if me == 0 else 0.0

    bare_store = only_first(lambda: lib.store(address, 1))
    cases = {
        "put 8 B": _rounds(args, {"ours": only_first(lambda: shmem.put(word, source, 1)), "cffi store": bare_store}),
        "p 8 B": _rounds(args, {"ours": only_first(lambda: shmem.p(word, 1, 1)), "cffi store": bare_store}),
    }
    shmem.free(word)
    return cases


def _ping_pong(args: argparse.Namespace, lib: Any, me: int) -> dict[str, Any]:
    import shmem

    data, signal = shmem.zeros(1, np.int64), shmem.zeros(1, np.uint64)
    other = 1 - me
    own, theirs = signal.ctypes.data, shmem.ptr(signal, other).ctypes.data
    payload = np.ones(1, np.int64)
    times = max(10, args.calls // 4)

    def with_signals() -> float:
        signal[0] = 0
        shmem.barrier_all()
        started = time.perf_counter()
        for i in range(1, times + 1):
            if me == 0:
                shmem.put_signal(data, payload, 1, signal, i, shmem.SIGNAL_SET)
                shmem.signal_wait_until(signal, shmem.CMP_EQ, i)
            else:
                shmem.signal_wait_until(signal, shmem.CMP_EQ, i)
                shmem.put_signal(data, payload, 0, signal, i, shmem.SIGNAL_SET)
        return (time.perf_counter() - started) / times / 2

    def with_flag() -> float:
        signal[0] = 0
        shmem.barrier_all()
        started = time.perf_counter()
        for i in range(1, times + 1):
            if me == 0:
                lib.store(theirs, i)
                lib.await_value(own, i)
            else:
                lib.await_value(own, i)
                lib.store(theirs, i)
        return (time.perf_counter() - started) / times / 2

    cases = {"put_signal half round trip": _rounds(args, {"ours": with_signals, "cffi flag": with_flag})}
    shmem.free(signal)
    shmem.free(data)
    return cases


def _large_put(args: argparse.Namespace, me: int) -> dict[str, Any]:
    import shmem

    target = shmem.zeros(LARGE, np.uint8)
    view = shmem.ptr(target, 1)
    source = np.ones(LARGE, np.uint8)

    def only_first(call: Callable[[], Any]) -> Callable[[], float]:
        return lambda: _timed(call, 10) if me == 0 else 0.0

    ours, peer = only_first(lambda: shmem.put(target, source, 1)), only_first(lambda: np.copyto(view, source))
    cases = {"put 16 MiB": _rounds(args, {"ours": ours, "NumPy copy": peer})}
    shmem.free(target)
    return cases


def _barriers(args: argparse.Namespace, pes: int, comm: Any) -> dict[str, Any]:
    import shmem

    times = max(10, args.calls // (20 if pes <= 4 else 100))
    parties = {
        "ours": lambda: _timed(shmem.barrier_all, times),
        "MPI_Barrier": lambda: _timed(comm.Barrier, times),
    }
    return {"barrier_all": _rounds(args, parties)}


def _wake_ups(pes: int, times: int = 200) -> float:
    """Waiters woken in `times` barriers, per barrier and per PE that waits."""
    import shmem
    from shmem.runtime import current

    total = shmem.zeros(1, np.int64)
    before = current().fabric.counts()["woken"]
    for _ in range(times):
        shmem.barrier_all()
    woken = current().fabric.counts()["woken"] - before
    shmem.atomic_add(total, woken, 0)
    shmem.barrier_all()
    found = int(shmem.g(total, 0))
    shmem.free(total)
    return found / times / (pes - 1)


if __name__ == "__main__":
    sys.exit(main())
