"""Every verdict of the litmus files, the contract's and the classic shapes: `allowed` by a witness, `forbidden` by a
complete search."""

from __future__ import annotations

from pathlib import Path

import pytest

from shmem.check.litmus.language import read
from shmem.check.litmus.syntax import Test
from shmem.check.litmus.verdict import NOT_JUDGED, judge, profiles_of

FILES = sorted((Path(__file__).parents[1] / "litmus").glob("*/*.litmus"))
CASES = [(test, name) for path in FILES for test in read(path) for name in profiles_of(test)]
JUDGED = [(test, name) for test, name in CASES if test.verdicts[name] not in NOT_JUDGED]


def test_the_files_are_all_here() -> None:
    """As many tests and verdicts as a plain look at the text counts, so that none is lost in reading."""
    texts = [path.read_text().splitlines() for path in FILES]
    assert len(FILES) == 4 + 12
    assert len({test.name for test, _ in CASES}) == sum(line.startswith("test ") for text in texts for line in text)
    assert len(CASES) == sum(line.startswith("verdict ") for text in texts for line in text)


@pytest.mark.parametrize(("test", "name"), JUDGED, ids=[f"{test.name}-{name}" for test, name in JUDGED])
def test_what_the_file_says_is_what_the_search_finds(test: Test, name: str) -> None:
    found = judge(test, name)
    assert found.problem == ""
    assert (found.found, found.complete) == (test.verdicts[name], True)
    assert found.right


def test_a_wrong_verdict_is_seen() -> None:
    """The counterpart: with every verdict of the contract turned round, nothing is right."""
    turned = {"allowed": "forbidden", "forbidden": "allowed"}
    contract = {test.name for path in FILES if path.parent.name == "contract" for test in read(path)}
    for test, name in JUDGED:
        if test.name not in contract:
            continue
        wrong = Test(**{**vars(test), "verdicts": {name: turned[test.verdicts[name]]}})
        assert not judge(wrong, name).right, f"{test.name} {name}"
