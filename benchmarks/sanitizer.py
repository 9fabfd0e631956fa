"""What it costs to record a run for `shmemu race`: the same job plain and with SHMEMU_SANITIZE, in turn.

`heat` and `sort` are those of examples/, `loop` loads elements one by one, `puts` puts one element after the other;
each is timed inside its job, from a barrier to a barrier. `demo` is the layer of `shmemu demo`: the medians of its
phases, as often as they ran, added. Results are checked by the programs themselves, and with --quick the streams by
`shmemu race`: none of them races.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "examples")]
import common  # noqa: E402

SHMEMU = [sys.executable, "-m", "shmem.cli"]
MOST = {"demo": 20.0, "heat": 20.0, "sort": 20.0}  # recorded to plain


def loop(times: int) -> None:
    """Loads of single elements, each of another value, so that each is written."""
    import numpy as np

    import shmem

    x = shmem.zeros(times, np.int64)
    x[:] = np.arange(times)
    shmem.barrier_all()
    assert sum(int(x[i]) for i in range(times)) == times * (times - 1) // 2


def puts(times: int) -> None:
    """Puts of single elements to the next PE."""
    import numpy as np

    import shmem

    me, n = shmem.my_pe(), shmem.n_pes()
    x, y = shmem.zeros(times, np.int64), np.arange(times)
    for i in range(times):
        shmem.put(x[i : i + 1], y[i : i + 1], (me + 1) % n)
    shmem.barrier_all()
    assert np.array_equal(x[:], y)


def rank(case: str, quick: bool) -> None:
    """One PE of a timed job."""
    import heat
    import sort

    import shmem

    sizes = {"heat": (8, 64, 5) if quick else (256, 1024, 50), "sort": (1000,) if quick else (200_000,)}
    sizes |= dict.fromkeys(("loop", "puts"), (100,) if quick else (20_000,))
    program = {"heat": heat.main, "sort": sort.main, "loop": loop, "puts": puts}[case]
    shmem.barrier_all()
    start = perf_counter()
    program(*sizes[case])
    shmem.barrier_all()
    if shmem.my_pe() == 0:
        print(f"seconds {perf_counter() - start}", flush=True)


def seconds(case: str, n: int, quick: bool, streams: Path | None) -> float:
    """Of one job; streams: where it is recorded."""
    environ = {**os.environ, "SHMEMU_LOG": "error"}
    if streams is not None:
        environ["SHMEMU_SANITIZE"] = str(streams)
    with tempfile.TemporaryDirectory() as out:
        if case == "demo":
            command = [*SHMEMU, "demo", "-n", str(n), "--out", out, *(["--tokens", "64"] if quick else [])]
        else:
            command = [*SHMEMU, "run", "-n", str(n), __file__, "--rank", case, *(["--quick"] if quick else [])]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise SystemExit(f"{case}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        if case == "demo":
            phases = json.loads((Path(out) / "demo.json").read_text())["phases"]
            return float(sum(phase["p50"] * phase["samples"] for phase in phases) * 1e-6)
    return next(float(line.split()[-1]) for line in done.stdout.splitlines() if "seconds" in line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, small sizes")
    parser.add_argument("--pes", type=int, default=4)
    parser.add_argument("--cases", default="demo,heat,sort,loop,puts")
    parser.add_argument("--rounds", type=int, default=common.ROUNDS_MIN)
    parser.add_argument("--out", help="folder for sanitizer.json")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(options.rank, options.quick)
        return
    report = common.header("sanitizer")
    rounds = 1 if options.quick else options.rounds
    for case in options.cases.split(","):
        measured: dict[str, list[float]] = {"plain": [], "recorded": []}
        with tempfile.TemporaryDirectory() as folder:
            streams = Path(folder)
            for turn in range(rounds):
                for what in ("plain", "recorded")[:: 1 if turn % 2 == 0 else -1]:
                    where = streams if what == "recorded" else None
                    measured[what].append(seconds(case, options.pes, options.quick, where))
            if options.quick:
                done = subprocess.run([*SHMEMU, "race", str(streams)], capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr
        for what, samples in measured.items():
            report["rows"].append(common.row("sanitizer", case, what, "s", samples))
        most = MOST.get(case)  # the claim is that plain / recorded is at least its inverse
        least = None if most is None else 1 / most
        claim = common.ratio(case, "plain", measured["recorded"], measured["plain"], least, report["load_before"])
        report["ratios"].append(claim)
        print(f"{case}: recorded takes {1 / claim['median']:.1f} times as long", flush=True)
    print("all results are right")
    common.show(report)
    common.finish(report, options.out)


if __name__ == "__main__":
    main()
