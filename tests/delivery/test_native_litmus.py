"""Every litmus file over the native machine: the verdicts of the files, and the executions of the Python one."""

from __future__ import annotations

from pathlib import Path

import pytest

from shmem.check import eager
from shmem.check.bounds import Bounds
from shmem.check.litmus.language import parse, read
from shmem.check.litmus.run import Run
from shmem.check.litmus.verdict import RACES, judge
from shmem.delivery.native import NativeMachine
from shmem.delivery.profiles import NAMED
from tests.launcher.cells import FULL

FILES = sorted((Path(__file__).parents[1] / "litmus").glob("*/*.litmus"))
TESTS = {path: [test for test in read(path) if not set(test.verdicts.values()) & set(RACES)] for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}-{path.stem}" for path in FILES])
def test_what_the_file_says_is_what_the_native_machine_does(path: Path) -> None:
    """Of races nothing is said here: the detector looks at programs on `sim`."""
    n = 0
    for test in TESTS[path]:
        for name in test.verdicts:
            found = judge(test, name, engine="native")
            assert (found.problem, found.found, found.complete) == ("", test.verdicts[name], True), test.name
            n += 1
            if FULL:
                other = judge(test, name)
                assert (found.outcomes, found.states) == (other.outcomes, other.states), test.name
    assert n or path.stem == "races"


def test_there_are_as_many_verdicts_as_the_files_have() -> None:
    lines = [line.split()[2] for path in FILES for line in path.read_text().splitlines() if line.startswith("verdict ")]
    judged = sum(len(test.verdicts) for tests in TESTS.values() for test in tests)
    assert judged == sum(verdict not in RACES for verdict in lines) == 588


@pytest.mark.parametrize("name", ["rc_strict", "udma", "tso"])
def test_states_are_told_apart_as_in_python(name: str) -> None:
    """A search that remembers where it was meets as many states: copies and digests say the same."""
    [test] = parse(
        'test A "a"\ninit x = 0, y = 0\nlocal b = 3\n'
        "P0: put_nbi x@1 <- b; fetch_add_nbi b <- y@1 2; fence; put y@1 = 1\n"
        f"P1: x = 2; r = y\noutcome 1:r == 1\nverdict {name} allowed\n"
    )
    profile = NAMED[name]
    both = [
        eager.search(lambda engine=engine: Run(test, profile, engine), digest=Run.digest, bounds=Bounds(states=3_000))  # type: ignore[misc]
        for engine in ("python", "native")
    ]
    assert both[0].complete
    assert (both[0].outcomes, both[0].states) == (both[1].outcomes, both[1].states)
    assert isinstance(Run(test, profile, "native").machine, NativeMachine)
