"""SHMEMU_LOG: what is told at which level, by whom, and that nothing is where nobody asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.launcher.job import REPOSITORY
from tests.launcher.program import run_job

PROGRAM = str(REPOSITORY / "tests/programs/logs.py")
INFO = (
    r"info: PE {pe} of {n} on \S+, .*MPI.*",
    r"info: started with {n} PEs, fabric direct, a heap of 1M for each, waits end after 20 s",
)
DEBUG = (
    r"debug: starts MPI and waits for all PEs in it",
    r"debug: zeros\(\(8,\), int64\): 64 bytes at heap offset 0x0",
    r"debug: freed 64 bytes at heap offset 0x0",
    r"debug: team_split_strided\(.*\): Team 2 of PEs {pes}",
    r"debug: context 1 of TEAM_WORLD, options 0",
    r"debug: stream opened, 1 open now",
    r"debug: stream closed, 0 open now",
    r"debug: context 1 destroyed",
    r"debug: team_destroy: team 2 of PEs {pes}",
)
ENDS = {
    "finalize": r"info: finalized: at most 64 bytes of the heap in use, 0 blocks not freed",
    "the end": r"info: the program ends without finalize, which waits for the other PEs now",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("launcher", ["run", "mpiexec"])
@pytest.mark.parametrize("level", ["debug", "info"])
def test_each_pe_tells_its_steps(tmp_path: Path, level: str, launcher: str, end: str) -> None:
    n = 2
    job = run_job(n, launcher, tmp_path, PROGRAM, "logs", *([end] if end == "the end" else []), SHMEMU_LOG=level)
    assert job.code == 0, job.text
    wanted = [*INFO, *(DEBUG if level == "debug" else ()), ENDS[end]]
    lines = job.text.splitlines()
    assert len(lines) == n * len(wanted), job.text
    for pe in range(n):
        told = [line.removeprefix(f"PE {pe}: ") for line in lines if line.startswith(f"PE {pe}: ")]
        for pattern in wanted:
            filled = pattern.format(pe=pe, n=n, pes=", ".join(map(str, range(n))))
            assert [line for line in told if re.fullmatch(filled, line)], (pattern, told)


@pytest.mark.parametrize("level", ["warning", "error", ""])
def test_nothing_is_told_and_logging_not_imported_by_default(tmp_path: Path, level: str) -> None:
    job = run_job(2, "mpiexec", tmp_path, PROGRAM, "silent", SHMEMU_LOG=level)
    assert (job.code, job.text) == (0, "")


def test_a_program_alone_tells_of_itself_as_pe_0(tmp_path: Path) -> None:
    job = run_job(1, "none", tmp_path, PROGRAM, "logs", SHMEMU_LOG="info")
    assert job.code == 0
    assert all(line.startswith("PE 0: info: ") for line in job.text.splitlines()), job.text
