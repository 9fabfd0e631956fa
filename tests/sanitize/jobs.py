"""Jobs whose accesses are recorded, and what `shmemu race` makes of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SHMEMU = [sys.executable, "-m", "shmem.cli"]
PROGRAMS = Path(__file__).parent.parent / "programs"
DEADLINE_S = 120


@dataclass
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str


def command(*words: object, **environ: str) -> Ended:
    """Runs a command; environ: variables besides those of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHMEMU_")}
    kept |= {"SHMEMU_TIMEOUT_S": "20", "SHMEMU_HEAP_SIZE": "16M", "SHMEMU_LOG": "error", **environ}
    done = subprocess.run(
        list(map(str, words)), env=kept, capture_output=True, text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def recorded(folder: Path, n: int, program: Path, *arguments: object, **environ: str) -> Ended:
    """Runs a program by `shmemu run` with streams in a folder."""
    return command(*SHMEMU, "run", "-n", n, program, *arguments, SHMEMU_SANITIZE=str(folder), **environ)


def race(folder: Path, *options: str) -> Ended:
    """Judges the streams in a folder."""
    return command(*SHMEMU, "race", folder, *options)


def pairs(text: str, program: str) -> set[tuple[int, ...]]:
    """The lines of each race that a report tells."""
    races = [line for line in text.splitlines() if line.startswith("race")]
    return {tuple(sorted(int(at) for at in re.findall(rf"{re.escape(program)}:(\d+)\)", line))) for line in races}
