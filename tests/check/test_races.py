"""Each rule of the race detector by its programs: a race is found between the marked lines, and none in the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shmem.check.exploration import explore
from shmem.check.loading import load
from shmem.check.races.rules import MODES
from shmem.check.report import Report
from shmem.delivery.profiles import varied

from . import race_edges as race_edges
from . import race_no_edges as race_no_edges
from . import race_queue_pairs as race_queue_pairs
from .race_programs import CASES, Case, Lines, text_of

BUDGET = 300  # executions


def explored(case: Case, lines: Lines, mode: str, folder: Path) -> tuple[Report, list[int]]:
    """What `explore` says of a program, and the lines that are marked in it."""
    text, marked = text_of(lines, case.pes)
    path = folder / "program.py"
    path.write_text(text)
    profile = varied(case.profile, unit=case.unit)
    report = explore(load(f"{path}::program"), case.pes, profile, races=mode, budget=BUDGET, keep_going=True)
    return report, marked


def pairs(report: Report) -> set[tuple[int, ...]]:
    """The lines of each race."""
    found = [re.findall(r"program\.py:(\d+)\)", failure.text) for failure in report.failures]
    return {tuple(sorted(map(int, each))) for each in found}


RACY = [(case, mode) for case in CASES if case.racy for mode in MODES]


@pytest.mark.parametrize(("case", "mode"), RACY, ids=[f"{case.name}-{mode}" for case, mode in RACY])
def test_a_race_is_found_between_its_lines(case: Case, mode: str, tmp_path: Path) -> None:
    assert case.racy
    report, marked = explored(case, case.racy, mode, tmp_path)
    if mode not in case.modes:
        assert report.ok, report
        return
    assert {failure.kind for failure in report.failures} == {"race"}, report
    assert pairs(report) == {(marked[0], other) for other in marked[1:]}, report
    assert any(case.why in failure.text for failure in report.failures), report
    for failure in report.failures:
        shown = re.search(r"shows in (\d+) of (\d+) executions", failure.text)
        assert shown
        k, n = map(int, shown.groups())
        assert n == report.executions
        assert (k == n) if case.always else (0 < k < n), failure.text


CLEAN = [(case, mode) for case in CASES if case.clean for mode in case.clean_in]


@pytest.mark.parametrize(("case", "mode"), CLEAN, ids=[f"{case.name}-{mode}" for case, mode in CLEAN])
def test_its_repaired_twin_has_none(case: Case, mode: str, tmp_path: Path) -> None:
    assert case.clean
    report, marked = explored(case, case.clean, mode, tmp_path)
    assert not marked
    assert report.ok, report
    assert sum(report.outcomes.values()) == report.executions > 0
