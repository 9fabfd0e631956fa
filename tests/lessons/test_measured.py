"""`shmemu lesson N --measure`: every cell is filled by a real job, and the page's table has the same rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shmem.errors import ArgumentError, StateError
from shmem.lessons.catalogue import LESSONS
from shmem.lessons.measured import measured

CELL = re.compile(r"^(\d+\.\d+|\d+) \((\d+\.\d+|\d+) to (\d+\.\d+|\d+)\)$")
COMMITTED = {n: each.text("measured", ".md") for n, each in LESSONS.items() if each.tables}


def rows(text: str) -> dict[str, list[tuple[float, float, float]]]:
    """The tables of a text: of each row its cells, median, quickest and slowest."""
    found = {}
    for line in text.splitlines():
        name, *cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("|") and any(map(CELL.match, cells)):
            found[name] = [(float(m[1]), float(m[2]), float(m[3])) for m in map(CELL.match, cells) if m]
            assert len(found[name]) == len(cells), line
    return found


@pytest.mark.parametrize("number", COMMITTED)
def test_measuring_fills_every_cell_of_the_tables(number: int) -> None:
    text = measured(LESSONS[number], rounds=2)
    new, old = rows(text), rows(COMMITTED[number])
    wanted = {label: len(table.columns) - 1 for table in LESSONS[number].tables for _, label in table.rows}
    assert {label: len(cells) for label, cells in new.items()} == wanted
    assert list(new) == list(old) == list(wanted)
    assert all(0 < low <= middle <= high for each in new.values() for middle, low, high in each)
    assert "Medians of 2 rounds" in " ".join(text.split())


def test_what_the_page_of_lesson_9_was_measured_to_show() -> None:
    """The claims, in the numbers that stand on the page."""
    text = COMMITTED[9]
    assert re.match(r"By `shmemu lesson 9 --measure` on .+, \d+ cores, at a load of \d+\.\d: ", text)
    assert "Medians of 9 rounds" in " ".join(text.split())
    first = [cells[0][0] for cells in rows(text).values()]
    single, each, batch, completion, behind, lines = first
    assert single > 10 * max(each, batch)
    assert completion > behind > lines
    moving = [cells[1][0] for cells in rows(text).values()][:3]
    assert max(moving) < 1.5 * min(moving)  # however they were posted


def test_a_lesson_without_tables_measures_nothing() -> None:
    with pytest.raises(ArgumentError, match="lesson 1 measures nothing"):
        measured(LESSONS[1])


def test_a_job_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "measure9.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr("shmem.lessons.measured.DATA", tmp_path)
    with pytest.raises(StateError, match="the job that measures ended with exit code 3"):
        measured(LESSONS[9], rounds=1)
