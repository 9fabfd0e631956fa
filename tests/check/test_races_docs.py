"""docs/races.md: its command prints what it says, and its tables are those of the programs that are tested."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from shmem.check.races.rules import MODES
from shmem.cli import main

from .race_page import PAGE, START, tables
from .race_programs import CASES, ORIGIN, TARGET
from .test_check_docs import blocks, lasting


def test_the_commands_print_what_the_page_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    *found, _ = blocks("docs/races.md")  # the last is a real run: tests/sanitize
    assert len(found) == 4
    for (_, code), (_, session) in zip(found[::2], found[1::2], strict=True):
        Path(code.split()[1]).write_text(code)
        [command] = re.findall(r"^\$ shmemu (.*)$", session, re.MULTILINE)
        assert main(shlex.split(command)) == 1
        assert lasting(capsys.readouterr().out) == lasting(session.partition("\n")[2])


def test_the_tables_are_those_of_the_programs() -> None:
    """Write them anew with `python -m tests.check.race_page`."""
    assert PAGE.read_text(encoding="utf-8").partition(START)[2] == "\n" + tables()


def test_every_rule_has_both() -> None:
    """A program that races and one that does not, but for what never races and what nothing but luck orders."""
    lack = {case.rule for case in CASES if not (case.racy and case.clean)}
    assert lack == {
        "two atomics", "put_signal and wait_until", "wait_until_all", "what a lock happens to order", "two WRITEs, tso",
    }  # fmt: skip
    assert {case.section for case in CASES if not case.modes} == {TARGET, ORIGIN}  # cells that are no race
    assert {case.modes for case in CASES} == {MODES, ("strict",), ()}
    assert len({case.name for case in CASES}) == len(CASES) > 150
