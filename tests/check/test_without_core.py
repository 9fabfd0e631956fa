"""The checker needs neither the native core nor MPI: with both out of reach its tests pass as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.launcher.cells import FULL

HERE = Path(__file__).parent
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("shmem._native._") or name.split(".")[0] == "mpi4py":
            raise ImportError(f"{name} is out of reach")

sys.meta_path.insert(0, Blocked())
import pytest

code = pytest.main(sys.argv[1:])
assert not any(name.startswith("shmem._native._") or name.split(".")[0] == "mpi4py" for name in sys.modules)
sys.exit(code)
"""
TESTS = ["test_workers_on_sim.py", "test_planted.py", "test_sim.py"]
# Each program once: more strategies and profiles take the same ways through the fabric.
OFTEN = " and not pct and not delay and not random and not (test_sim and not rc_strict)"
ONCE = "" if FULL else OFTEN


def test_the_tests_of_the_fabric_pass_without_core_and_mpi() -> None:
    options = ["-q", "-p", "no:cacheprovider", "-k", f"not slow_oracle{ONCE}", *(str(HERE / name) for name in TESTS)]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *options], capture_output=True, text=True, cwd=HERE.parents[1]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
