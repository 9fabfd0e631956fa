"""What do collectives cost against mpi4py over the same MPI: fcollect, alltoall, a sum reduction, broadcast?

    python benchmarks/collectives.py [--pes 2,4,8] [--rounds 9] [--out DIR]
    python benchmarks/collectives.py --quick       every case once, few repetitions and small sizes, no claims

A size is the bytes that one PE contributes: its whole source in fcollect, the reduction and broadcast, its block for
each PE in alltoall. Both take turns in one job, with buffers reused. Broadcasts have a barrier on both sides in every
repetition, each party its own: without it the root runs ahead. A round takes the slowest PE.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common
import numpy as np
from rma_shmem import SIZES, label

PEER = "mpi4py"
KINDS = {"fcollect": "fcollect", "alltoall": "alltoall", "sum reduction": "sum_reduce", "broadcast": "broadcast"}
SMALL, SMALL_TARGETS, ELSE_TARGET = 4096, {2: 2.0, 8: 1.5}, 0.95  # up to SMALL bytes at so many PEs; else
ROUND_S = 0.1  # what a party may take in a round
Case = tuple[Callable[[], Any], Any]  # the call, and the array that holds its result


def main() -> int:
    args = _arguments()
    if args.result:
        return run_rank(args)
    report = common.header("collectives")
    for pes in args.pes:
        if lacking := _short_of_memory(pes, args.sizes):
            print(f"{pes} PEs: skipped: {lacking}")
            report["peers_absent"][f"{pes} PEs"] = lacking
            continue
        if code := _run_job(pes, args, report):
            return code
    common.show(report)
    common.finish(report, args.out)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pes", type=_numbers, default=[2, 4, 8])
    parser.add_argument("--sizes", type=_numbers, default=list(SIZES), help="bytes, multiples of 8")
    parser.add_argument("--rounds", type=int, default=common.ROUNDS_MIN)
    parser.add_argument("--calls", type=int, default=1000, help="small calls in a round")
    parser.add_argument("--quick", action="store_true", help="every case once, small sizes, no claims")
    parser.add_argument("--out", default="out")
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.pes, args.sizes, args.rounds, args.calls = [2, 3], [8, 512, 65536], 1, 20
    return args


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def _heap(pes: int, sizes: list[int]) -> int:
    """Bytes of a PE's symmetric heap: a source and a target, both of one block for each PE."""
    return 2 * pes * max(sizes) + (4 << 20)


def _short_of_memory(pes: int, sizes: list[int]) -> str | None:
    needed, available = 2.5 * pes * _heap(pes, sizes) / (1 << 30), common.memory_gib("MemAvailable")
    if needed < 0.9 * available:
        return None
    return f"needs about {needed:.1f} GiB of memory, {available:.1f} GiB are available"


def _run_job(pes: int, args: argparse.Namespace, report: dict[str, Any]) -> int:
    from shmem import launch

    sizes = ",".join(map(str, args.sizes))
    with tempfile.TemporaryDirectory(prefix="shmemu-bench-") as folder:
        result = Path(folder) / "result.json"
        options = [f"--sizes={sizes}", f"--rounds={args.rounds}", f"--calls={args.calls}", f"--result={result}"]
        program = [str(Path(__file__).resolve()), *options]
        code = launch.run_job(pes, program, env={"SHMEMU_HEAP_SIZE": str(_heap(pes, args.sizes))})
        if code:
            print(f"{pes} PEs: the job ended with exit code {code}", file=sys.stderr)
            return code
        found = json.loads(result.read_text(encoding="utf-8"))
    report["mpi"] = found["mpi"]
    for name in found["lacking"]:
        report["peers_absent"][name] = f"skipped: shmem has no {KINDS[name]}"
    print(f"{pes} PEs: right results of both in {len(found['cases'])} cases")
    for case, size, parties in found["cases"]:
        for what, samples in parties.items():
            report["rows"].append(common.row("collectives", case, what, "us", [1e6 * s for s in samples]))
        target = SMALL_TARGETS.get(pes, ELSE_TARGET) if size <= SMALL else ELSE_TARGET
        report["ratios"].append(common.ratio(case, PEER, parties["ours"], parties[PEER], target, report["load_before"]))
    return 0


# ------------------------------------------------------------------------------------------ in a rank


def run_rank(args: argparse.Namespace) -> int:
    """One PE: every case checked and measured; PE 0 writes the seconds a call of the slowest PE."""
    from mpi4py import MPI

    import shmem

    world, pes = MPI.COMM_WORLD, shmem.n_pes()
    n = max(args.sizes) // 8 * pes
    ours = (shmem.zeros(n, np.int64), shmem.zeros(n, np.int64))
    theirs = (np.zeros(n, np.int64), np.zeros(n, np.int64))
    lacking = [kind for kind, name in KINDS.items() if not hasattr(shmem, name)]
    cases = []
    for kind in KINDS:
        for size in args.sizes if kind not in lacking else []:
            parties = {"ours": _ours(kind, size // 8, *ours), PEER: _theirs(kind, size // 8, world, *theirs)}
            case = f"{kind}, {label(size)}, {pes} PEs"
            _check(case, kind, size // 8, parties, (*ours, *theirs))
            cases.append((case, size, _seconds(parties, args, world)))
    for array in ours:
        shmem.free(array)
    if shmem.my_pe() == 0:
        found = {"mpi": MPI.Get_library_version().split("\n")[0].strip("\0 "), "cases": cases, "lacking": lacking}
        args.result.write_text(json.dumps(found), encoding="utf-8")
    shmem.finalize()
    return 0


def _ours(kind: str, n: int, source: Any, target: Any) -> Case:
    import shmem

    pes, barrier = shmem.n_pes(), shmem.barrier_all
    one, all_ = source[:n], target[: n * pes]
    if kind == "fcollect":
        return (lambda: shmem.fcollect(all_, one)), all_
    if kind == "alltoall":
        blocks = source[: n * pes]
        return (lambda: shmem.alltoall(all_, blocks, n)), all_
    result = target[:n]
    if kind == "sum reduction":
        return (lambda: shmem.sum_reduce(result, one)), result

    def broadcast() -> None:
        barrier()
        shmem.broadcast(result, one, 0)
        barrier()

    return broadcast, result


def _theirs(kind: str, n: int, world: Any, source: Any, target: Any) -> Case:
    from mpi4py import MPI

    pes, int64, barrier = world.size, MPI.INT64_T, world.Barrier
    one, all_ = [source[:n], n, int64], [target[: n * pes], n, int64]
    if kind == "fcollect":
        return (lambda: world.Allgather(one, all_)), all_[0]
    if kind == "alltoall":
        blocks = [source[: n * pes], n, int64]
        return (lambda: world.Alltoall(blocks, all_)), all_[0]
    result = [target[:n], n, int64]
    if kind == "sum reduction":
        return (lambda: world.Allreduce(one, result, MPI.SUM)), result[0]
    given = one if world.rank == 0 else result  # MPI broadcasts in place

    def broadcast() -> None:
        barrier()
        world.Bcast(given, 0)
        barrier()

    return broadcast, given[0]


def _check(case: str, kind: str, n: int, parties: dict[str, Case], buffers: tuple[Any, ...]) -> None:
    """Each party's result equals a plain statement of the collective."""
    import shmem

    me, pes = shmem.my_pe(), shmem.n_pes()
    for i in (0, 2):
        buffers[i][:] = _given(me, len(buffers[i]))
        buffers[i + 1][:] = -1
    wanted = np.concatenate(list(_wanted(kind, n, me, pes)))
    shmem.barrier_all()
    for name, (call, result) in parties.items():
        call()
        assert np.array_equal(result, wanted), f"{case}: {name} gives {result[:8]} ..., not {wanted[:8]} ..."
    shmem.barrier_all()


def _given(pe: int, n: int) -> Any:
    return 1_000_003 * (pe + 1) + np.arange(n)


def _wanted(kind: str, n: int, me: int, pes: int) -> Iterator[Any]:
    if kind == "fcollect":
        yield from (_given(pe, n) for pe in range(pes))
    elif kind == "alltoall":
        yield from (_given(pe, n * pes)[me * n : (me + 1) * n] for pe in range(pes))
    elif kind == "sum reduction":
        yield sum(_given(pe, n) for pe in range(pes))
    else:
        yield _given(0, n)


def _seconds(parties: dict[str, Case], args: argparse.Namespace, world: Any) -> dict[str, list[float]]:
    """Seconds a call of the slowest PE, one number a round."""
    import shmem

    def timed(call: Callable[[], Any], times: int) -> Callable[[], dict[str, float]]:
        def run() -> dict[str, float]:
            started = time.perf_counter()
            for _ in range(times):
                call()
            return {"call": (time.perf_counter() - started) / times}

        return run

    def slowest(rounds: int, times: dict[str, int]) -> dict[str, list[float]]:
        runs = {name: timed(call, times[name]) for name, (call, _) in parties.items()}
        seconds = common.interleaved(rounds, runs, shmem.barrier_all)
        return {name: np.max(world.allgather(phases["call"]), axis=0).tolist() for name, phases in seconds.items()}

    pilot = slowest(2, dict.fromkeys(parties, 3))
    calls = {name: max(3, min(args.calls, int(ROUND_S / min(seconds)))) for name, seconds in pilot.items()}
    return slowest(args.rounds, calls)


if __name__ == "__main__":
    sys.exit(main())
