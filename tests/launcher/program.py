"""Running a whole program as a job, to its end, and what is left of it: for tests of starting and of failing.

A job's processes are those that have a word of ours in their environment, whatever session they are in; its files in
/dev/shm are those that one of them had mapped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from shmem import launch

from . import processes
from .job import REPOSITORY

HANG_S = 60.0


@dataclass
class Job:
    """How a job ended. `ended_s`: monotonic time when mpiexec had ended and no process of the job was left."""

    code: int
    text: str
    ended_s: float
    left: list[int]
    shm: set[str]


def run_job(n: int, launcher: str, folder: Path, *program: str, survive: bool = False, **variables: str) -> Job:
    """Runs a Python program on n PEs to the end. launcher: "run" (`shmemu run`), "mpiexec", or "none" (n is 1 then)."""
    if launcher == "run":
        options = ["--survive"] if survive else []
        shmemu = [sys.executable, "-c", "import sys; from shmem.cli import main; sys.exit(main())"]
        command = [*shmemu, "run", "-n", str(n), *options, *program]
    elif launcher == "none":
        command = [sys.executable, *program]
    else:
        command = [launch.find().mpiexec, "-n", str(n), sys.executable, *program]
    word = uuid.uuid4().hex
    ours = {"JOB_WORD": word, "JOB_SIZE": str(n), "SHMEMU_TIMEOUT_S": "20", "SHMEMU_HEAP_SIZE": "1M"}
    environment = {**launch.environment(n), "PYTHONPATH": str(REPOSITORY), **ours}
    del environment["SHMEMU_EXPECT_PES"]  # plain mpiexec knows nothing of it
    environment.update(variables)
    output = folder / "output"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        shm = _wait(process, output)
        left = _vanish(word)
        return Job(process.returncode, output.read_text(), time.monotonic(), left, shm)
    finally:
        processes.end(held for pid in processes.with_word(word) if (held := processes.hold(pid)))
        process.wait()


def _wait(process: subprocess.Popen[bytes], output: Path) -> set[str]:
    """Waits for the end; the files of /dev/shm that the job's processes had mapped meanwhile."""
    shm: set[str] = set()
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        try:
            process.wait(0.05)
            return shm
        except subprocess.TimeoutExpired:  # noqa: PERF203
            shm |= processes.shm_files(processes.below(process.pid))
    left = [path.name for path in output.parent.iterdir()]
    raise AssertionError(f"the job hangs for {HANG_S:.0f} s; files: {left}\n{output.read_text(errors='replace')}")


def _vanish(word: str) -> list[int]:
    """The processes of the job a second after its launcher ended: the kernel may still be about to remove some."""
    until = time.monotonic() + 1.0
    while (left := processes.with_word(word)) and time.monotonic() < until:
        pass
    return left


def left_in_shm(job: Job) -> list[str]:
    """The files of /dev/shm that the job left."""
    return sorted(name for name in job.shm if os.path.exists(name))
