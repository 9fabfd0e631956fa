"""Every test that asks more than OpenSHMEM promises says so, and the checker agrees: for each marker `needs("tso")` and
`needs("words")` in tests/mpi there is a program here that fails under `openshmem`, but not with what the marker says.

The markers are read off the test functions of the modules themselves, so a new one without a program fails.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shmem.check import explore
from shmem.delivery.profiles import Profile, varied

from .needs import WITNESSES, Witness

FOLDER = Path(__file__).parents[1] / "mpi"
# What a marker asks for, by the profile that gives it and nothing more.
GIVES: dict[str, str | Profile] = {"tso": "tso", "words": varied("openshmem", unit=8)}
WEAKER: dict[str, list[str | Profile]] = {"words": ["openshmem"], "tso": ["openshmem", GIVES["words"]]}
WRITTEN = re.compile(r"""needs\(\s*["'](tso|words)["']""")


def marks_of(owner: Any) -> list[pytest.Mark]:
    """The marks of a function or a module."""
    found = getattr(owner, "pytestmark", [])
    found = found if isinstance(found, list) else [found]
    return [getattr(each, "mark", each) for each in found]


def asked(marks: list[pytest.Mark]) -> set[tuple[str, str]]:
    """What of `tso` and `words` marks ask for, and why."""
    return {(mark.args[0], mark.args[1]) for mark in marks if mark.name == "needs" and mark.args[0] in GIVES}


def named(value: Any) -> str:
    """A parameter as a table has it."""
    return value if isinstance(value, str) else value.__name__


def markers(module: Any) -> Iterator[tuple[str, str, str, str]]:
    """Of each marker in a module: the test, the parameter that has it ("" for the whole test), what for, and why."""
    file = Path(module.__file__).name
    for name, test in vars(module).items():
        if not name.startswith("test") or not callable(test):
            continue
        marks = [*marks_of(module), *marks_of(test)]
        for what, why in asked(marks):
            yield f"{file}::{name}", "", what, why
        for mark in marks:
            for each in mark.args[1] if mark.name == "parametrize" else ():
                for what, why in asked([getattr(m, "mark", m) for m in getattr(each, "marks", ())]):
                    yield f"{file}::{name}", named(each.values[0]), what, why


def written() -> dict[str, int]:
    """How many markers are written in each file that has some."""
    counts = {path.name: len(WRITTEN.findall(path.read_text(encoding="utf-8"))) for path in FOLDER.glob("*.py")}
    return {name: count for name, count in counts.items() if count}


FOUND = [each for name in sorted(written()) for each in markers(importlib.import_module(f"tests.mpi.{name[:-3]}"))]


def test_each_marker_has_a_program_and_each_program_a_marker() -> None:
    assert {(test, parameter, what) for test, parameter, what, _ in FOUND} == set(WITNESSES)


def test_no_marker_is_overlooked_and_each_has_a_reason() -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for test, _, what, why in FOUND:
        found.setdefault(test.partition("::")[0], set()).add((what, why))
        assert len(why.split()) > 3
    assert {name: len(each) for name, each in found.items()} == written()


@pytest.mark.parametrize(
    "key", WITNESSES, ids=lambda key: "-".join(filter(None, (key[0].partition("::")[2], *key[1:])))
)
def test_the_checker_agrees(key: tuple[str, str, str]) -> None:
    """A failure under all that is weaker, and none, after a complete search, with what is needed."""
    witness: Witness = WITNESSES[key]
    large = [varied("openshmem", unit=witness.unit)] if witness.unit else None
    for weaker in large or WEAKER[key[2]]:
        report = explore(witness.program, 2, weaker, "random", args=witness.args, shrink=False)
        assert [each.kind for each in report.failures] == [witness.kind], weaker
    report = explore(witness.program, 2, GIVES[key[2]], args=witness.args)
    assert (report.ok, report.complete) == (True, True), report.failures
