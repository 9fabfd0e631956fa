"""What a lesson measures: jobs of two PEs on the fabric `nic`, and their tables.

The page of a lesson shows a table that was measured once, named with its machine and load; `shmemu lesson N --measure`
prints the same of the machine that it runs on.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import launch
from ..errors import ArgumentError, StateError
from .lesson import DATA, Lesson, Table

ROUNDS = 9
SECONDS_MAX = 120.0
_PLAIN = dict.fromkeys(("SHMEMU_SEED", "SHMEMU_TRACE", "SHMEMU_SANITIZE", "SHMEMU_PROFILE"), "")
Found = dict[str, list[list[float]]]  # of each row of a table a list for each round: seconds, for each column


def measured(lesson: Lesson, rounds: int = ROUNDS) -> str:
    """Measures, and returns the text for the page.

    Raises ArgumentError for a lesson that measures nothing, StateError if the job fails.
    """
    if not lesson.tables:
        raise ArgumentError(f"lesson {lesson.number} measures nothing")
    load = os.getloadavg()[0]
    tables = [_table(table, _run(lesson, table, rounds)) for table in lesson.tables]
    head = (
        f"By `shmemu lesson {lesson.number} --measure` on {_machine()}, at a load of {load:.1f}: two processes on "
        f"`nic` under `rc_strict`, without a seed. Medians of {rounds} rounds in microseconds, and in brackets the "
        "quickest and the slowest."
    )
    return "\n\n".join([_filled(head), *tables, _filled(lesson.remark)]) + "\n"


def _run(lesson: Lesson, table: Table, rounds: int) -> Found:
    with tempfile.TemporaryDirectory(prefix="shmemu-lesson-") as folder:
        file = Path(folder) / "found.json"
        program = [str(DATA / lesson.file("measure")), str(file), str(rounds), table.name]
        env = {**_PLAIN, "SHMEMU_PROGRESS": table.progress, "SHMEMU_FABRIC": "nic", "SHMEMU_HEAP_SIZE": "16M"}
        code = launch.run_job(2, program, timeout=SECONDS_MAX, env=env, progress=False)
        if code:
            raise StateError(f"the job that measures ended with exit code {code}")
        found: Found = json.loads(file.read_text(encoding="utf-8"))
    return found


def _table(table: Table, found: Found) -> str:
    """A table of a page."""
    lines = [table.columns, ("---",) * len(table.columns)]
    for name, label in table.rows:
        by_column = zip(*found[name], strict=True)
        lines.append((label, *(_cell([1e6 * each for each in samples]) for samples in by_column)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(samples: Sequence[float]) -> str:
    low, middle, high = min(samples), statistics.median(samples), max(samples)
    digits = 2 if middle < 10 else 1 if middle < 100 else 0
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _filled(text: str, width: int = 120) -> str:
    """The same words in lines of that width."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _machine() -> str:
    """The processor and how many cores this process may use."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{name or 'a machine'}, {len(os.sched_getaffinity(0))} cores"
