"""The fuzzing of the suite: what fails under some seeds only is found, and the printed command runs it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import cells
from tests.launcher.job import REPOSITORY

CONFTEST = 'pytest_plugins = ["tests.launcher.plugin"]\n'
# The adapter is stepped by hand and fresh, so the seed alone says when the flag comes.
SUITE = """
import numpy as np
import pytest
import shmem
from shmem import nic
from shmem.runtime import current

pytestmark = pytest.mark.mpi

def test_right():
    shmem.barrier_all()

def test_flag_without_fence():
    if shmem.initialized():
        shmem.finalize()
    shmem.init()
    fabric = current().fabric
    fabric.lib.sm_nic_stand(fabric.adapter, 1)
    x, flag = shmem.zeros(8, np.int64), shmem.zeros(1, np.int64)
    shmem.barrier_all()
    early = False
    if shmem.my_pe() == 0:
        data, word = shmem.ptr(x, 1), shmem.ptr(flag, 1)
        shmem.put_nbi(x, np.ones(8, np.int64), 1)
        shmem.atomic_set(flag, 1, 1)
        while not word[0]:
            assert nic.step()
        early = not data.all()
        shmem.quiet()
    shmem.barrier_all()
    shmem.free(flag)
    shmem.free(x)
    shmem.finalize()
    shmem.init()
    assert not early

def test_right_as_well():
    shmem.barrier_all()
"""
LATE, EARLY = 3, 4  # seeds under which the flag comes after all data, and before some


def run(folder: Path, command: list[str], **files: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder with these files."""
    for name, content in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(content)
    env = {name: text for name, text in os.environ.items() if name not in (cells.CHOICE, cells.SEED)}
    env |= {"PYTHONPATH": str(REPOSITORY), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"}
    return subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def fuzz(folder: Path, *arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(REPOSITORY / "tests" / "fuzz_suite.py")]
    return run(folder, [*program, "--cells", "nic-udma-2", *arguments, "."], **files)


def test_what_fails_under_some_seeds_is_found_and_repeated(tmp_path: Path) -> None:
    found = fuzz(tmp_path, "--minutes", "1", "--seed", str(LATE), test_suite=SUITE)
    assert found.returncode == 1, found.stdout + found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == f"seed {LATE}"
    first, second = lines[1:3]
    assert (first.split()[:6], first.split()[6]) == (["nic-udma-2", "seed", str(LATE), "3", "tests,", "0"], "failed,")
    assert second.split()[:8] == ["nic-udma-2", "seed", str(EARLY), "2", "of", "3", "tests,", "1"]
    assert "assert not early" in found.stdout
    assert lines[-3] == "found: test_suite.py::test_flag_without_fence[nic-udma-2]"
    command = f"SHMEMU_TEST_CELLS=nic-udma-2 python -m pytest '{lines[-3].removeprefix('found: ')}'"
    assert lines[-2] == f"repeat: SHMEMU_TEST_SEED={EARLY} {command}"
    assert lines[-1].startswith(f"1 failure: 5 tests in 2 rounds, seeds {LATE} to {EARLY}, ")
    again = run(tmp_path, ["sh", "-c", lines[-2].removeprefix("repeat: ")])
    assert (again.returncode, "1 failed" in again.stdout) == (1, True), again.stdout
    assert "assert not early" in again.stdout


def test_it_ends_in_the_middle_of_a_round(tmp_path: Path) -> None:
    found = fuzz(tmp_path, "--minutes", "0", "--seed", str(EARLY), test_suite=SUITE)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.splitlines()[1].split()[3:8] == ["1", "of", "3", "tests,", "0"]
    assert f"nothing found: 1 tests in 1 rounds, seeds {EARLY} to {EARLY}" in found.stdout


def test_tests_that_cannot_run_are_a_failure(tmp_path: Path) -> None:
    found = fuzz(tmp_path, "--minutes", "1", "--seed", "4", test_suite="import nothing_of_the_kind")
    assert found.returncode == 1
    assert "No module named 'nothing_of_the_kind'" in found.stdout
    assert "repeat: SHMEMU_TEST_CELLS=nic-udma-2 SHMEMU_TEST_SEED=4 python -m pytest .\n" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cells", "nic-udma-5"], "no cell is called so; there are nic-openshmem-2, nic-rc_strict-3, "),
        (["--seed", "-1"], "must be a whole number from 0 up"),
    ],
)
def test_wrong_use_is_refused(tmp_path: Path, arguments: list[str], words: str) -> None:
    refused = fuzz(tmp_path, *arguments)
    assert refused.returncode == 2
    assert words in refused.stderr


def test_the_cells_of_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cells.SEED, "77")
    table = cells.chosen("")
    assert len(table) == len({cell.name for cell in table}) == 9
    for profile in ("openshmem", "rc_strict", "udma"):
        assert {cell.pes for cell in table if cell.environment()["SHMEMU_PROFILE"] == profile} == {2, 3, 4}
    assert {(cell.tests, cell.environment()["SHMEMU_SEED"]) for cell in table} == {("all", "77")}
    assert [cell.name for cell in cells.chosen("nic-udma-3")] == ["nic-udma-3"]
    monkeypatch.setenv(cells.SEED, "one")
    with pytest.raises(ValueError, match="SHMEMU_TEST_SEED=one: must be a whole number"):
        cells.chosen("")
