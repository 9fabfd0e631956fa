"""Random legal programs on 4 PEs against a sequential model: puts, gets, atomics, signals, collectives, allocations.

    python tests/soak.py [--minutes 1] [--seed S] [--steps N] [--plant NAME]

The seed is random and printed; the same seed draws the same program. `--plant` puts a fault in and exits with 0 when
it was found, with 1 when it was not. Without it: 0 all equal, 1 a difference.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a program of its own: `tests` is no installed package

from shmem import launch  # noqa: E402
from tests.soaking.plan import ADDS, ALONE, COLLECTIVES, READS, VALUES  # noqa: E402

N_PES = 4
KINDS = (*VALUES, *READS, *dict.fromkeys((*ALONE, *ADDS)), *COLLECTIVES, "alloc", "free", "barrier", "team")
PLANTS = ("dropped_put", "stale_get", "lost_add", "wrong_root", "overlapping_allocation")


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--steps", type=int, default=None, help="end after so many steps instead")
    parser.add_argument("--plant", choices=PLANTS, default=None)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def rank(options: argparse.Namespace) -> int:
    """One PE: steps until the time is over, which PE 0 says for all."""
    import numpy as np

    import shmem
    from tests.soaking import plants
    from tests.soaking.plan import Drawing
    from tests.soaking.play import Player

    player = Player()
    if options.plant:
        plants.PLANTS[options.plant]()
    go = shmem.ones(1, np.int64)
    end, count = time.monotonic() + 60 * options.minutes, 0
    for count, step in enumerate(Drawing(np.random.default_rng(options.seed), N_PES).steps(), 1):
        player.do(step)
        over = count >= options.steps if options.steps is not None else time.monotonic() > end
        if shmem.my_pe() == 0 and over:
            for pe in range(N_PES):
                shmem.atomic_set(go, 0, pe)
        shmem.barrier_all()
        if not go[0]:
            break
    if shmem.my_pe() == 0:
        print(histogram(count, player.done), flush=True)
    for array in (*player.arrays.values(), go):
        shmem.free(array)
    return 0


def histogram(steps: int, done: dict[str, int]) -> str:
    """How often each kind of operation was done, of all PEs together."""
    total = sum(done.values())
    lines = [f"{steps} steps, {total} operations, all as in the model"]
    lines += [f"  {kind:22} {done.get(kind, 0):9} {100 * done.get(kind, 0) / max(total, 1):6.2f} %" for kind in KINDS]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Starts the job; see the module."""
    options = arguments(argv)
    if options.rank:
        return rank(options)
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    chosen = ["--seed", str(seed), "--minutes", str(options.minutes)]
    chosen += ["--steps", str(options.steps)] if options.steps is not None else []
    chosen += ["--plant", options.plant] if options.plant else []
    print(f"seed {seed}", flush=True)
    job = launch.command(N_PES, [sys.executable, __file__, "--rank", *chosen])
    env = launch.environment(N_PES, env={"SHMEMU_HEAP_SIZE": "64M", "SHMEMU_TIMEOUT_S": "20"})
    done = subprocess.run(job, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(done.stdout, end="")
    if options.plant:
        found = done.returncode != 0 and "soaking.play.Wrong" in done.stderr
        print(f"{options.plant}: {'found' if found else 'NOT FOUND'}")
        return 0 if found else 1
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
        print(f"repeat: python tests/soak.py {' '.join(chosen)}", file=sys.stderr)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
