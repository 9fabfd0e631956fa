"""Who finalizes MPI, and when: mpi4py's call at the end of Python waits for the exit handler, the program's does not.

The C code is shown with functions that stand for MPI's, called by modules that are linked in each way that makes
another kind of entry; then whole programs that started MPI, and end it in ways of their own, must end well.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.launcher.job import REPOSITORY
from tests.launcher.program import left_in_shm, run_job

PROGRAMS = REPOSITORY / "tests/programs"

MPI = """
#include <stdio.h>
static int ended;
static void say(const char *what) { printf("%s\\n", what); fflush(stdout); }
int MPI_Finalize(void) { say(ended++ ? "finalized twice" : "finalized"); return 0; }
int MPI_Finalized(int *flag) { *flag = ended; return 0; }
int MPI_Abort(void *comm, int status) { (void)comm; printf("aborted %d\\n", status); fflush(stdout); return 0; }
"""
MODULE = """
#include <stdio.h>
int MPI_Finalize(void);
void call(void) { printf(MPI_Finalize() ? "refused\\n" : "called\\n"); fflush(stdout); }
"""
LINKS = {
    "lazy": ["-fplt", "-Wl,-z,lazy"],
    "read-only": ["-fplt", "-Wl,-z,relro,-z,now"],
    "no jump table": ["-fno-plt", "-Wl,-z,norelro"],
    "no jump table, read-only": ["-fno-plt", "-Wl,-z,relro,-z,now"],
}


def build(folder: Path, name: str, source: str, *options: str) -> str:
    (folder / f"{name}.c").write_text(source)
    made = str(folder / f"{name}.so")
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    subprocess.run([*compiler, "-shared", "-fPIC", "-O1", str(folder / f"{name}.c"), "-o", made, *options], check=True)
    return made


def said(folder: Path, link: str, status: int, when: str) -> list[str]:
    library = build(folder, "mpi", MPI)
    module = build(folder, "module", MODULE, *LINKS[link], library)
    command = [sys.executable, str(PROGRAMS / "finalizes.py"), library, module, str(status), when]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("link", LINKS)
def test_a_call_after_python_waits_for_the_exit_handler(tmp_path: Path, link: str) -> None:
    assert said(tmp_path, link, 0, "at exit") == ["changed 1", "called", "finalized"]


def test_after_a_failure_the_job_is_aborted_and_not_finalized(tmp_path: Path) -> None:
    assert said(tmp_path, "lazy", 3, "at exit") == ["changed 1", "called", "aborted 3"]


@pytest.mark.parametrize("status", [0, 3])
def test_a_call_of_the_program_is_made_at_once_and_once(tmp_path: Path, status: int) -> None:
    assert said(tmp_path, "lazy", status, "before") == ["changed 1", "finalized", "called"]


@pytest.mark.parametrize(
    ("way", "runs"),  # whether MPI still runs at the end of the program's text
    [
        ("uses_mpi_after_shmem", True),
        ("finalizes_mpi", False),
        ("finalizes_both", False),
        ("finalizes_at_exit", True),
        ("finalizes_shmem_at_exit", True),
        ("starts_again", True),
        ("has_no_entry", True),
        ("rc_finalizes_mpi", False),
        ("rc_never_finalizes", True),
    ],
)
def test_programs_that_started_mpi_end_well(tmp_path: Path, way: str, runs: bool) -> None:
    job = run_job(2, "mpiexec", tmp_path, str(PROGRAMS / "ends.py"), way)
    assert (job.code, job.left, left_in_shm(job)) == (0, [], []), job.text
    assert sorted(job.text.splitlines()) == (["end of 0", "end of 1"] if runs else ["end of MPI"] * 2)


@pytest.mark.parametrize("launcher", ["run", "none"])
def test_such_a_program_ends_well_under_other_launchers(tmp_path: Path, launcher: str) -> None:
    n = 1 if launcher == "none" else 2
    job = run_job(n, launcher, tmp_path, str(PROGRAMS / "ends.py"), "uses_mpi_after_shmem")
    assert (job.code, job.left) == (0, []), job.text
    assert launcher == "none" or left_in_shm(job) == []  # Open MPI leaves a file of a lone process, with shmem or not


@pytest.mark.parametrize("fails", [False, True])
def test_mpi4py_as_the_main_program(tmp_path: Path, fails: bool) -> None:
    program = [REPOSITORY / "tests/failure_programs/fails.py", "wait", "SystemExit", tmp_path, "mpi4py-first"]
    if not fails:
        program = [PROGRAMS / "ends.py", "uses_mpi_after_shmem"]
    job = run_job(2, "mpiexec", tmp_path, "-m", "mpi4py", *map(str, program))
    assert (job.code, job.left, left_in_shm(job)) == (3 if fails else 0, [], []), job.text
