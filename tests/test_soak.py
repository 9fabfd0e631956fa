"""The soak: the model stands on its own, a short run is clean, a seed repeats, and planted faults are found."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.soaking import plan

TESTS = Path(__file__).parent


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TESTS / "soak.py"), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["model", "plan"])
def test_the_model_shares_no_code_with_shmem(name: str) -> None:
    tree = ast.parse((TESTS / "soaking" / f"{name}.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"__future__", "collections.abc", "dataclasses", "typing", "numpy", "plan"}


def test_a_seed_draws_the_same_steps() -> None:
    def drawn(seed: int) -> list[str]:
        steps = plan.Drawing(np.random.default_rng(seed), 4).steps()
        return [repr(next(steps)) for _ in range(200)]

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


def test_no_two_acts_of_a_round_touch_the_same_cells() -> None:
    """The programs are legal: only additions share a word."""
    drawing = plan.Drawing(np.random.default_rng(9), 4)
    rounds = 0
    for step, _ in zip(drawing.steps(), range(600), strict=False):
        if not isinstance(step, plan.Round):
            continue
        rounds += 1
        owner: dict[tuple[int, int, int], plan.Act] = {}
        for act in step.acts:
            cells = [(act.key, act.on, act.start + i * act.step) for i in range(act.n)]
            cells += [(act.signal, act.on, act.cond)] if act.signal >= 0 else []
            for cell in cells:
                before = owner.setdefault(cell, act)
                assert before is act or (before.shared and act.shared)
    assert rounds > 50


def test_a_short_run_is_clean_and_repeats() -> None:
    first, again = soak("--seed", "11", "--steps", "300"), soak("--seed", "11", "--steps", "300")
    assert first.returncode == 0, first.stderr
    assert "300 steps" in first.stdout
    assert first.stdout == again.stdout


@pytest.mark.parametrize(
    "fault", ["dropped_put", "stale_get", "lost_add", "wrong_root", "overlapping_allocation"]
)  # fmt: skip
def test_a_planted_fault_is_found(fault: str) -> None:
    done = soak("--seed", "3", "--minutes", "1", "--plant", fault)
    assert done.stdout.endswith(f"{fault}: found\n"), done.stdout + done.stderr
    assert done.returncode == 0


def test_wrong_use_is_refused() -> None:
    done = soak("--plant", "nothing")
    assert done.returncode == 2
    assert "invalid choice" in done.stderr
