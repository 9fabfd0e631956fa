"""Private buffers of pending operations: with the instrumented import races are found between the very lines."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from shmem.check.exploration import explore
from shmem.check.instrument.asked import instrumented
from shmem.check.loading import load
from shmem.check.report import Report

from .race_private import CASES, Private
from .race_programs import text_of
from .test_races import pairs

IDS = [case.name for case in CASES]


def explored(case: Private, quiet: bool, folder: Path, instrument: bool = True) -> tuple[Report, list[int]]:
    """What is said of a program, and the lines that are marked in it."""
    text, marked = text_of(case.lines(quiet), 2)
    (folder / "program.py").write_text(text)
    program = load(f"{folder}/program.py::program")
    with instrumented() if instrument else contextlib.nullcontext():
        return explore(program, 2, "rc_strict", races="lenient", budget=5, keep_going=True), marked


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_race_is_found_between_its_lines_and_nowhere_else(case: Private, tmp_path: Path) -> None:
    report, marked = explored(case, False, tmp_path)
    assert pairs(report) == {(marked[0], line) for line in marked[1:]}, report
    assert bool(report.failures) == case.race
    assert {failure.kind for failure in report.failures} <= {"race"}, report
    for failure in report.failures:
        assert "no quiet between" in failure.text or "different context" in failure.text
        assert " before this line" not in failure.text
        assert " private bytes of PE 0: " in failure.text


COUNTING = """
import numpy as np
import shmem


def program():
    class Index:
        asked = 0

        def __index__(self):
            Index.asked += 1
            return 0

    x, b = shmem.zeros(1, np.int64), np.ones(1, np.int64)
    shmem.get_nbi(b, x, 0)
    b[Index()], b[Index() :], b[Index() :].sum()
    b[Index()] = 1
    shmem.quiet()
    return Index.asked
"""


@pytest.mark.parametrize("instrument", [False, True])
def test_no_code_of_the_program_runs_twice(instrument: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COUNTING)
    with instrumented() if instrument else contextlib.nullcontext():
        report = explore(load(f"{tmp_path}/program.py::program"), 1, "rc_strict", races="lenient")
    assert set(report.outcomes) == {(4,)}


@pytest.mark.parametrize("case", CASES[::4], ids=IDS[::4])
def test_with_a_quiet_between_there_is_none(case: Private, tmp_path: Path) -> None:
    report, marked = explored(case, True, tmp_path)
    assert report.ok, report
    assert not marked


@pytest.mark.parametrize("case", CASES[:16], ids=IDS[:16])
def test_without_it_stores_are_found_later_and_loads_not_at_all(case: Private, tmp_path: Path) -> None:
    report, marked = explored(case, False, tmp_path, instrument=False)
    first, *second = marked or [0]
    if not case.race or case.reads:
        assert report.ok, report
    elif case.call:
        assert pairs(report) == {(first, *second)}
    else:
        assert pairs(report) == {(first, second[0] + 1)}
        assert " and store before this line (PE 0, program.py:" in report.failures[0].text
