"""The program of docs/nic.md does what the page says: it fails with a seed, and only because of the missing fence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.launcher.cells import FULL

from .test_launch import shmemu

PAGE = Path(__file__).parents[1] / "docs" / "nic.md"
LATER = "# shmem.fence() belongs here"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = re.search(r"```python\n# flags.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    assert LATER in found[1]
    path = tmp_path / "flags.py"
    path.write_text(found[1])
    return path


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_with_a_seed_it_fails(program: Path, seed: str) -> None:
    ended = shmemu("run", "-n", 2, "--fabric", "nic", "--seed", seed, program)
    assert ended.code == 1
    assert "AssertionError" in ended.err


@pytest.mark.parametrize("how", [["--fabric", "nic"], ["--fabric", "direct"], ["--fabric", "nic", "--profile", "tso"]])
def test_without_one_it_does_not(program: Path, how: list[str]) -> None:
    assert shmemu("run", "-n", 2, *how, program).code == 0


PROFILES = ("openshmem", "rc_relaxed", "srd")
SEEDED = [(profile, seed) for profile in PROFILES for seed in "123"]


@pytest.mark.parametrize(("profile", "seed"), SEEDED if FULL else list(zip(PROFILES, "123", strict=True)))
def test_with_the_fence_it_is_right(program: Path, profile: str, seed: str) -> None:
    program.write_text(program.read_text().replace(LATER, "shmem.fence()"))
    ended = shmemu("run", "-n", 2, "--fabric", "nic", "--profile", profile, "--seed", seed, program)
    assert ended.code == 0, ended.err
