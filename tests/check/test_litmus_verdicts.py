"""Every verdict of the litmus files, the contract's, the classic shapes and the races: `allowed` by a witness,
`forbidden` by a complete search, what is said of races by a look at each execution of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from shmem.check.litmus.language import read
from shmem.check.litmus.syntax import Test
from shmem.check.litmus.verdict import RACES, judge

FILES = sorted((Path(__file__).parents[1] / "litmus").glob("*/*.litmus"))
CASES = [(test, name) for path in FILES for test in read(path) for name in test.verdicts]
JUDGED = [(test, name) for test, name in CASES if test.verdicts[name] not in RACES]
RACY = [(test, name) for test, name in CASES if test.verdicts[name] in RACES]


def test_the_files_are_all_here() -> None:
    """As many tests and verdicts as a plain look at the text counts, so that none is lost in reading."""
    texts = [path.read_text().splitlines() for path in FILES]
    assert len(FILES) == 4 + 12 + 1
    assert len({test.name for test, _ in CASES}) == sum(line.startswith("test ") for text in texts for line in text)
    assert len(CASES) == sum(line.startswith("verdict ") for text in texts for line in text)


@pytest.mark.parametrize(("test", "name"), JUDGED, ids=[f"{test.name}-{name}" for test, name in JUDGED])
def test_what_the_file_says_is_what_the_search_finds(test: Test, name: str) -> None:
    found = judge(test, name)
    assert found.problem == ""
    assert (found.found, found.complete) == (test.verdicts[name], True)
    assert found.right


@pytest.mark.parametrize(("test", "name"), RACY, ids=[f"{test.name}-{name}" for test, name in RACY])
def test_what_the_file_says_of_races_is_what_the_detector_finds(test: Test, name: str) -> None:
    found = judge(test, name)
    assert found.problem == ""
    assert found.races
    assert (found.found, found.races.complete) == (test.verdicts[name], True)
    assert found.right
    for other in set(RACES) - {test.verdicts[name]}:
        weaker = (test.verdicts[name], other) == ("race", "race_some")
        assert judge(Test(**{**vars(test), "verdicts": {name: other}}), name).right == weaker


def test_a_wrong_verdict_is_seen() -> None:
    """The counterpart: with every verdict of the contract turned round, nothing is right."""
    turned = {"allowed": "forbidden", "forbidden": "allowed"}
    contract = {test.name for path in FILES if path.parent.name == "contract" for test in read(path)}
    for test, name in JUDGED:
        if test.name not in contract:
            continue
        wrong = Test(**{**vars(test), "verdicts": {name: turned[test.verdicts[name]]}})
        assert not judge(wrong, name).right, f"{test.name} {name}"
