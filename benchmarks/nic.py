"""What does the emulated adapter cost? Puts on `nic` against the same on `direct`, and work requests posted one by one
against many at once.

    python benchmarks/nic.py [--rounds 9] [--out DIR]
    python benchmarks/nic.py --quick          every case once, few repetitions, no claims

Ours is `nic` with the profile openshmem, no seed, and progress inline; a round starts and ends each fabric in turn in
one job. With a seed every put goes through the delivery engine and is drawn: shown without a claim.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import common
import numpy as np

LARGE = 16 << 20
MANY = 256
TARGETS = {"put 8 B and quiet": 1 / 8, "put 16 MiB": 0.8, "a WQE of 256": 10.0}


def main() -> int:
    args = _arguments()
    if args.result:
        return run_rank(args)
    report = common.header("nic")
    with tempfile.TemporaryDirectory(prefix="shmemu-bench-") as folder:
        found = {pes: _run_job(pes, args, folder) for pes in (2, 8)}
    if None in found.values():
        return 1
    _add(report, found[2], found[8])
    common.show(report)
    common.finish(report, args.out)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=common.ROUNDS_MIN)
    parser.add_argument("--calls", type=int, default=5000, help="small puts in a round")
    parser.add_argument("--quick", action="store_true", help="every case once, few repetitions, no claims")
    parser.add_argument("--out", default="out")
    parser.add_argument("--result", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.calls = 1, 100
    return args


def _run_job(pes: int, args: argparse.Namespace, folder: str) -> Any:
    from shmem import launch

    result = Path(folder) / f"result{pes}.json"
    options = [f"--rounds={args.rounds}", f"--calls={args.calls}", f"--result={result}"]
    code = launch.run_job(
        pes, [str(Path(__file__).resolve()), *options], env={"SHMEMU_HEAP_SIZE": str(LARGE + (1 << 20))}
    )
    if code:
        print(f"{pes} PEs: the job ended with exit code {code}", file=sys.stderr)
        return None
    return json.loads(result.read_text(encoding="utf-8"))


def _add(report: dict[str, Any], two: Any, eight: Any) -> None:
    report["mpi"] = two["mpi"]
    for case, parties in two["cases"].items():
        for what, samples in parties.items():
            report["rows"].append(common.row("nic", f"{case}, 2 PEs", what, "us", [1e6 * s for s in samples]))
        for peer in [name for name in parties if name != "ours"]:
            target = None if "seed" in peer or "doorbell" in peer else TARGETS[case]
            load = report["load_before"]
            report["ratios"].append(common.ratio(f"{case}, 2 PEs", peer, parties["ours"], parties[peer], target, load))
    for pes, found in ((2, two), (8, eight)):
        report["rows"].append(common.row("nic", f"puts a second, {pes} PEs", "ours", "1/s", found["rates"]))
    cores = report["cores"]
    per_core = {pes: [rate / min(pes, cores) for rate in found["rates"]] for pes, found in ((2, two), (8, eight))}
    claim = common.ratio("rate a core, 8 PEs", "2 PEs", per_core[2], per_core[8], 0.25, report["load_before"])
    report["ratios"].append(claim)


# ------------------------------------------------------------------------------------------ in a rank


@contextmanager
def _on(fabric: str, seed: int | None = None) -> Iterator[None]:
    import shmem

    shmem.init(fabric=fabric, profile="openshmem", seed=seed)
    try:
        yield
    finally:
        shmem.finalize()


def run_rank(args: argparse.Namespace) -> int:
    """One PE: each party in interleaved rounds; PE 0 writes the seconds a call, as it saw them."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    cases = {} if world.size > 2 else {**_puts(args, world), **_requests(args, world)}
    rates = [_rate(args) for _ in range(args.rounds)]
    if world.rank == 0:
        found = {"mpi": MPI.Get_library_version().split("\n")[0], "cases": cases, "rates": rates}
        Path(args.result).write_text(json.dumps(found), encoding="utf-8")
    return 0


def _timed(call: Callable[[], Any], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def _puts(args: argparse.Namespace, world: Any) -> dict[str, Any]:
    """PE 0 puts, PE 1 waits in a barrier."""
    import shmem

    def small(fabric: str, seed: int | None = None) -> dict[str, float]:
        with _on(fabric, seed):
            word, large = shmem.zeros(1, np.int64), shmem.zeros(LARGE // 8, np.int64)
            source, much = np.ones(1, np.int64), np.ones(LARGE // 8, np.int64)
            shmem.put(large, much, 1 - world.rank)
            shmem.barrier_all()
            taken = {"put 8 B and quiet": 0.0, "put 16 MiB": 0.0}
            if world.rank == 0:
                taken["put 8 B and quiet"] = _timed(lambda: (shmem.put(word, source, 1), shmem.quiet()), args.calls)
                taken["put 16 MiB"] = _timed(lambda: (shmem.put(large, much, 1), shmem.quiet()), 5)
            shmem.barrier_all()
            shmem.free(large)
            shmem.free(word)
        return taken

    parties = {"ours": lambda: small("nic"), "direct": lambda: small("direct"), "with a seed": lambda: small("nic", 1)}
    found = common.interleaved(args.rounds, parties, world.Barrier)
    names = ("put 8 B and quiet", "put 16 MiB")
    return {case: {party: phases[case] for party, phases in found.items()} for case in names}


def _requests(args: argparse.Namespace, world: Any) -> dict[str, Any]:
    """WRITEs of 8 bytes, posted; nothing else is measured."""
    import shmem
    from shmem import nic

    samples: dict[str, list[float]] = {"ours": [], "one by one": [], "one doorbell each": []}
    with _on("nic"):
        target, source = shmem.zeros(MANY, np.int64), shmem.zeros((MANY, 1), np.int64)
        own = nic.register(target)
        there = nic.import_segment(own, 1 - world.rank)
        cq = nic.CompletionQueue(4 * MANY)
        qp = nic.QueuePair(1 - world.rank, cq, depth=MANY)
        many = nic.WorkRequests(nic.WRITE, source, there, offset=8 * np.arange(MANY), signaled=False)
        one = nic.WorkRequest(nic.WRITE, local=source[0], remote=there, signaled=False)
        for _ in range(args.rounds):
            for name, post in (
                ("ours", lambda: qp.post_many(many)),
                ("one by one", lambda: [qp.post(one) for _ in range(MANY)]),
                ("one doorbell each", lambda: qp.post_many(many, doorbell="each")),
            ):
                shmem.barrier_all()
                samples[name].append(_timed(post, 1) / MANY)
                qp.quiet()
        shmem.barrier_all()
        qp.close()
        shmem.free(source)
        shmem.free(target)
    return {"a WQE of 256": samples}


def _rate(args: argparse.Namespace) -> float:
    """Puts and quiets of all PEs to their neighbours, a second."""
    import shmem

    with _on("nic"):
        word, source = shmem.zeros(1, np.int64), np.ones(1, np.int64)
        right = (shmem.my_pe() + 1) % shmem.n_pes()
        shmem.barrier_all()
        started = time.perf_counter()
        for _ in range(args.calls):
            shmem.put(word, source, right)
            shmem.quiet()
        shmem.barrier_all()
        rate = shmem.n_pes() * args.calls / (time.perf_counter() - started)
        shmem.free(word)
    return rate


if __name__ == "__main__":
    sys.exit(main())
