"""How often the rare planted bugs fail in random runs: `python -m tests.check.planted_rates` runs each 2000 times.

The i-th random run is the same each time, so what is saved are the runs that failed. Tests make a few of them again,
`make test-full` all. They have to be made anew when a program is changed, as its token has, and without the file all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shmem.check.executions import Possible, run, silenced
from shmem.check.exploration import prepare
from shmem.check.strategies.random import drawn
from shmem.check.surroundings import live
from shmem.delivery.profiles import varied
from shmem.fabric.sim import Job, Program

from .planted_all import PLANTED
from .planted_tokens import read

FILE = Path(__file__).parents[1] / "data" / "planted_rates.toml"
RENEW = "python -m tests.check.planted_rates"
RUNS = 2000
# If 1 % of all runs fail, no more than 12 do in 3.8 % of such samples: so it is less.
FAILURES_MAX = 12
HEAD = f"""\
# Which of the random runs (seed 0) of each rare planted bug (tests/check/planted.py) fail. Written by
#     {RENEW}
"""


def saved() -> dict[str, Any]:
    """For each rare bug: program, runs, failed."""
    return read(FILE)


def prepared(name: str) -> Program:
    """The program with the bug."""
    bug = PLANTED[name]
    return prepare(bug.program, bug.pes, varied(bug.profile, **bug.changes), (False,), **bug.options)


def failing(program: Program, runs: Iterable[int]) -> list[int]:
    """Those of the random runs that fail."""
    with silenced(), live(program):
        return [i for i in runs if _fails(program, i)]


def _fails(program: Program, i: int) -> bool:
    job = Job(program)
    run(job, drawn(0, i), order=Possible())
    kind = job.end().kind
    job.close()
    return bool(kind)


def write() -> None:
    """Makes the runs of the rare bugs that have changed and writes the file; without a file, those of all."""
    known, parts = saved() if FILE.exists() else {}, [HEAD]
    for name in (name for name, bug in PLANTED.items() if bug.rare):
        program, entry = prepared(name), known.get(name)
        if entry is None or (entry["program"], entry["runs"]) != (program.identity, RUNS):
            entry = {"failed": failing(program, range(RUNS))}
            print(f"{name}: {len(entry['failed'])} of {RUNS}", flush=True)
        parts.append(f'\n[{name}]\nprogram = "{program.identity}"\nruns = {RUNS}\nfailed = {entry["failed"]}\n')
    FILE.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    write()
