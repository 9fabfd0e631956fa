"""Who moves what is in flight on `nic`, in each mode of progress."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from .test_launch import shmemu

PROGRAM = Path(__file__).parent / "programs" / "adapters.py"
EACH = [
    (case, progress, seed)
    for case, progress, seed in product(["taken over", "by threads"], ["inline", "thread"], ["", "1"])
]


@pytest.mark.parametrize(("case", "progress", "seed"), [*EACH, ("by hand", "manual", ""), ("by hand", "manual", "2")])
def test_what_is_posted_arrives(case: str, progress: str, seed: str) -> None:
    env = {"SHMEMU_PROGRESS": progress, "SHMEMU_SEED": seed, "SHMEMU_TIMEOUT_S": "20", "SHMEMU_LOG": "error"}
    command = ["run", "-n", 2, "--timeout", 40, "--fabric", "nic", "--profile", "rc_strict", PROGRAM, case]
    ended = shmemu(*command, env=env)
    assert (ended.code, ended.out.split()) == (0, ["right", "right"]), ended.err
