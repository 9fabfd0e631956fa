"""What the tests of the copies of modules share: calls on each PE, and other Python processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shmem.check.modules import Copies

Write = Callable[..., Any]  # the fixture `write`
N = 3


def call(copies: Copies, pe: int, *args: Any) -> Any:
    """What the function gives on a PE."""
    before = copies.enter(pe)
    try:
        return copies.function(pe)(*args)
    finally:
        copies.enter(before)


def calls(copies: Copies, n: int = N, times: int = 2) -> list[list[Any]]:
    """What each of n PEs gives, called in turn."""
    return [[call(copies, pe) for pe in range(n)] for _ in range(times)]


def python(*args: str, cwd: Path, stdin: str | None = None) -> list[str]:
    """What a Python process says."""
    done = subprocess.run([sys.executable, *args], cwd=cwd, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]
