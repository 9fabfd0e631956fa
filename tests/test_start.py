"""Whole programs: how they start under each launcher and alone, what a heap costs, and what init refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shmem
from shmem import bootstrap, launch
from tests.launcher import processes
from tests.launcher.cells import FULL
from tests.launcher.job import REPOSITORY
from tests.launcher.program import Job, left_in_shm, run_job

KIND = launch.find().kind
PROGRAM = str(REPOSITORY / "tests/programs/starts.py")


def start(folder: Path, way: str, n: int = 2, launcher: str = "mpiexec", **variables: str) -> Job:
    job = run_job(n, launcher, folder, PROGRAM, way, **variables)
    if launcher == "none" and KIND == "openmpi":
        # Its own, which every program leaves that starts MPI without a launcher: shmem never had a say.
        processes.remove({name for name in job.shm if Path(name).name.startswith("sm_segment.")})
    assert (job.left, left_in_shm(job)) == ([], [])
    return job


def lines(job: Job) -> list[str]:
    assert job.code == 0, job.text
    return sorted(job.text.splitlines())


FEW = [(1, "run"), (1, "mpiexec"), (2, "mpiexec"), (5, "run")]
SIZES = [(n, launcher) for n in (1, 2, 5) for launcher in ("run", "mpiexec")] if FULL else FEW


@pytest.mark.parametrize(("n", "launcher"), SIZES)
def test_launchers_give_jobs_of_the_right_size(tmp_path: Path, n: int, launcher: str) -> None:
    assert lines(start(tmp_path, "sizes", n, launcher)) == [f"{pe} of {n}, heap {1 << 20}" for pe in range(n)]


def test_a_program_alone_is_a_job_of_one_pe(tmp_path: Path) -> None:
    assert lines(start(tmp_path, "sizes", 1, "none")) == [f"0 of 1, heap {1 << 20}"]


def test_a_program_that_started_mpi_itself(tmp_path: Path) -> None:
    assert lines(start(tmp_path, "mpi_first", 3)) == [f"{pe} of 3, heap {1 << 20}" for pe in range(3)]


@pytest.mark.parametrize("launcher", ["mpiexec", "none"])
def test_a_large_heap_costs_no_memory_until_it_is_used(tmp_path: Path, launcher: str) -> None:
    n = 2 if launcher == "mpiexec" else 1
    job = start(tmp_path, "untouched", n, launcher, SHMEMU_HEAP_SIZE="1G")
    assert [line for line in lines(job) if "cost" in line] == ["1000 MiB cost little"] * n


def test_init_after_finalize_takes_new_sizes(tmp_path: Path) -> None:
    job = start(tmp_path, "twice")
    assert [line for line in lines(job) if "then" in line] == [f"{2 << 20} then {3 << 20}"] * 2


@pytest.mark.parametrize(("launcher", "n"), [("mpiexec", 2), ("run", 2), ("none", 1)])
def test_arrays_outlive_finalize_and_the_end_and_are_listed_with_their_line(
    tmp_path: Path, launcher: str, n: int
) -> None:
    job = start(tmp_path, "outlives", n, launcher)
    assert [line for line in lines(job) if "sum" in line] == ["sum 5000"] * n
    made = next(i for i, text in enumerate(Path(PROGRAM).read_text().splitlines(), 1) if "late = Late(" in text)
    assert job.code == 0
    assert f"zeros((1000,), float64) at {PROGRAM}:{made}" in job.text


@pytest.mark.parametrize(("launcher", "n"), [("mpiexec", 2), ("run", 2), ("none", 1)])
def test_the_end_of_a_program_is_an_end_of_shmem(tmp_path: Path, launcher: str, n: int) -> None:
    """Without finalize: what was not freed is listed, what was launched runs to its end, and what failed is told."""
    made = next(i for i, text in enumerate(Path(PROGRAM).read_text().splitlines(), 1) if "zeros(2000)" in text)
    job = start(tmp_path, "forgets", n, launcher)
    assert job.code == 0
    assert f"zeros((2000,), float64) at {PROGRAM}:{made}" in job.text
    job = start(tmp_path, "pending", n, launcher, SHMEMU_HEAP_SIZE="16M")
    assert (job.code, job.text.count("over")) == (0, n)
    job = start(tmp_path, "fails_late", n, launcher)
    assert job.code != 0
    assert "ShmemTimeout" in job.text


def test_the_check_of_collective_calls_can_be_turned_off(tmp_path: Path) -> None:
    job = start(tmp_path, "unchecked", SHMEMU_CHECK_SYMMETRY="0")
    assert [line for line in lines(job) if "shape" in line] == ["shape (2, 5)", "shape (5, 2)"]
    checked = start(tmp_path, "unchecked")
    assert checked.code != 0
    assert "SymmetryError" in checked.text


def test_freed_memory_is_poisoned_on_request(tmp_path: Path) -> None:
    assert lines(start(tmp_path, "poison", SHMEMU_POISON="1")) == ["freed 0xdb"] * 2
    assert lines(start(tmp_path, "poison")) == ["freed 0x7"] * 2


def test_a_program_that_only_imports_shmem_ends_well(tmp_path: Path) -> None:
    assert lines(start(tmp_path, "no_use", 3)) == ["only imported"] * 3


def test_sizes_come_from_the_environment(tmp_path: Path) -> None:
    assert lines(start(tmp_path, "sizes", 1, "none", SHMEMU_HEAP_SIZE="2.5M")) == [f"0 of 1, heap {5 << 19}"]
    other = start(tmp_path, "sizes", 1, "none", SHMEMU_HEAP_SIZE="", SHMEM_SYMMETRIC_SIZE="20kk")
    assert lines(other) == [f"0 of 1, heap {20 << 10}"]


@pytest.mark.parametrize(("launcher", "n"), [("mpiexec", 3), ("run", 2), ("none", 1)])
def test_an_unknown_variable_is_told_once_a_job(tmp_path: Path, launcher: str, n: int) -> None:
    told = lines(start(tmp_path, "sizes", n, launcher, SHMEMU_XYZZY="1"))
    assert [line for line in told if "XYZZY" in line] == [
        "shmemu: warning: unknown environment variable SHMEMU_XYZZY has no effect"
    ]
    assert len(told) == n + 1


def test_a_heap_that_does_not_fit_is_refused_with_sizes_and_remedy(tmp_path: Path) -> None:
    job = start(tmp_path, "sizes", SHMEMU_HEAP_SIZE="100T")
    assert job.code != 0
    for word in ("HeapExhausted", "100T", "for each of 2 PEs", "/dev/shm", "--shm-size", "SHMEMU_HEAP_SIZE"):
        assert word in job.text


def test_a_job_of_another_size_than_was_launched_is_refused(tmp_path: Path) -> None:
    job = start(tmp_path, "sizes", SHMEMU_EXPECT_PES="4")
    assert job.code != 0
    assert "StateError: 4 PEs were launched, but this process finds 2" in job.text
    assert {"mpich": "MPICH", "openmpi": "Open MPI"}[KIND] in job.text


@pytest.mark.parametrize(("name", "value"), [("HEAP_SIZE", "much"), ("FABRIC", "pigeon"), ("TIMEOUT_S", "-1")])
def test_wrong_variables_are_refused(tmp_path: Path, name: str, value: str) -> None:
    job = start(tmp_path, "sizes", 1, "none", **{f"SHMEMU_{name}": value})
    assert job.code != 0
    assert f"ArgumentError: SHMEMU_{name}={value}" in job.text


def test_a_default_heap_is_halved_until_it_fits_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "shared_memory_free", lambda: 64 << 20)
    world = bootstrap.World(0, 8)
    assert bootstrap.fitting_heap(world, 1 << 30, False, 8192) == 4 << 20
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    for words in ("/dev/shm has only 64M free", "a heap of 4M", "--shm-size", "SHMEMU_HEAP_SIZE"):
        assert words in lines[0]
    with pytest.raises(shmem.HeapExhausted, match="does not fit /dev/shm, which has 64M free"):
        bootstrap.fitting_heap(world, 1 << 30, True, 8192)
    assert bootstrap.fitting_heap(world, 5000, True, 8192) == 8192  # whole pages


def test_importing_shmem_starts_nothing() -> None:
    code = "import sys, shmem; assert not shmem.initialized(); assert 'mpi4py.MPI' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})


@pytest.mark.parametrize("size", ["2**50", "2**64"])
def test_a_heap_that_no_memory_holds_is_refused(size: str) -> None:
    program = f"import shmem\ntry: shmem.init({size})\nexcept shmem.HeapExhausted as error: print(error.asked >= 2**50)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True\n", done.stderr
