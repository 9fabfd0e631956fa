"""Jobs whose accesses are recorded, and what `shmemu race` makes of them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from shmem.cli import main
from tests.launcher.cells import FULL

SHMEMU = [sys.executable, "-m", "shmem.cli"]
PROGRAMS = Path(__file__).parent.parent / "programs"
DEADLINE_S = 300
# Each delivery that the profile leaves open is drawn on `nic`.
FABRICS: dict[str, dict[str, str]] = {
    "direct": {},
    "nic": {"SHMEMU_FABRIC": "nic", "SHMEMU_PROFILE": "rc_strict", "SHMEMU_SEED": "1"},
}
on_each = pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
on_each_in_full = on_each if FULL else pytest.mark.parametrize("fabric", [FABRICS["direct"]], ids=["direct"])


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


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def race(folder: Path, *options: str) -> Ended:
    """Judges the streams in a folder, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["race", str(folder), *options])
    return Ended(code, out.getvalue(), err.getvalue())


def pairs(text: str, program: str) -> set[tuple[int, ...]]:
    """The lines of each race that a report tells."""
    races = [line for line in text.splitlines() if line.startswith("race")]
    return {tuple(sorted(int(at) for at in re.findall(rf"{re.escape(program)}:(\d+)\)", line))) for line in races}


def without(text: str, line: str) -> str:
    """A program without its checks, and without the barrier behind a line: that is an empty line now."""
    lines = ["" if each.lstrip().startswith("assert") else each for each in text.split("\n")]
    at = next(i for i, each in enumerate(lines) if line in each)
    barrier = next(i for i in range(at, len(lines)) if "shmem.barrier_all()" in lines[i])
    lines[barrier] = ""
    return "\n".join(lines)
