"""The record of what ran with two or more PEs, and the end of a run that names what never did.

Small suites run in jobs of their own, as in `test_launcher`; the folder they are in stands for tests/mpi.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import shmem
from tests.launcher import calls
from tests.launcher.cells import FULL
from tests.launcher.coverage import Coverage

from .test_launcher import Run, run

CONFTEST = """
import pathlib
import shmem
from tests.launcher import cells, coverage
pytest_plugins = ["tests.launcher.plugin"]
cells.TABLES["openmpi"] = cells.TABLES["mpich"]
coverage.FOLDER = pathlib.Path(__file__).parent
"""

SUITE = """
import inspect

import numpy as np
import pytest

import shmem

pytestmark = pytest.mark.mpi
bound_early = shmem.n_pes


def test_of_calls():
    word = shmem.zeros(1, np.int64)
    shmem.put(word, np.ones(1, np.int64), shmem.my_pe())
    assert bound_early() == shmem.TEAM_WORLD.n_pes()
    shmem.free(word)


def test_of_a_refused_call():
    with pytest.raises(shmem.NotSymmetric):
        shmem.g(np.zeros(1), 0)


def test_of_what_ours_call():
    shmem.sync(shmem.TEAM_WORLD)  # asks for Team.my_pe


def test_the_functions_look_as_always():
    assert str(inspect.signature(shmem.put)) == "(target, source, pe, size=None, ctx=None)"
    assert shmem.put.__name__ == "put" and "OpenSHMEM" in shmem.put.__doc__
    assert list(inspect.signature(shmem.Team.n_pes).parameters) == ["self"]
    with pytest.raises(TypeError):
        shmem.my_pe(1)


def test_the_line_that_allocates_is_that_of_the_test():
    line = inspect.currentframe().f_lineno + 1
    block = shmem.zeros(3, np.int32)
    assert shmem.runtime.current().heap.allocations()[-1].where == f"{__file__}:{line}"
    shmem.free(block)


def test_skips():
    shmem.info_get_name()
    pytest.skip("after a call")
"""
FAILS = "\n\ndef test_fails():\n    raise ValueError\n"
RAN = {"my_pe", "n_pes", "put", "zeros", "free", "sync", "Team.n_pes"}
NEVER = {"g", "get", "barrier_all", "Team.my_pe", "Batch.run", "info_get_name"}


def named(ended: Run) -> set[str]:
    """The functions that the run says never ran."""
    found = re.search(r"never ran with two or more PEs: (.*)", ended.text)
    return set(found[1].split(", ")) if found else set()


def test_a_whole_run_names_what_never_ran_and_fails(tmp_path: Path) -> None:
    whole = run(tmp_path, cells="direct-2", conftest=CONFTEST, test_some=SUITE)
    assert set(whole.outcomes.values()) == {"passed", "skipped"}, whole.text
    assert named(whole) >= NEVER
    assert not named(whole) & RAN
    assert "global_exit" not in named(whole)
    assert whole.code == 1


def test_workers_of_xdist_put_their_parts_together(tmp_path: Path) -> None:
    """Two cells, so that each worker has one; `info_get_version` ran in one of the two only."""
    more = """
def test_in_one_cell():
    if shmem.n_pes() == 3:
        shmem.info_get_version()
"""
    whole = run(tmp_path, "-n", "2", cells="direct-2,direct-3", conftest=CONFTEST, test_some=SUITE + more)
    assert set(whole.outcomes.values()) == {"passed", "skipped"}, whole.text
    assert named(whole) >= NEVER
    assert not named(whole) & (RAN | {"info_get_version"})
    assert whole.code == 1


PARTS = [
    (["-k", "not refused"], "direct-2", 0),
    (["test_other.py", "test_some.py::test_of_calls"], "direct-2", 0),
    (["test_some.py"], "direct-2", 0),
    (["--collect-only"], "direct-2", 0),
    ([], "direct-1", 0),
    ([], "direct-2", 1),
    (["-n", "2", "-k", "not refused"], "direct-2,direct-3", 0),
]
FAILED = [(["-n", "2"], "direct-2,direct-3", 1)]  # a failure is known to who starts the workers, as without them


@pytest.mark.parametrize(("arguments", "cells", "code"), PARTS + FAILED if FULL else PARTS)
def test_a_part_of_the_suite_and_one_that_failed_are_not_judged(
    tmp_path: Path, arguments: list[str], cells: str, code: int
) -> None:
    other = SUITE.partition("def test_of_calls")[0] + (FAILS if code else "\n\ndef test_other():\n    shmem.my_pe()\n")
    part = run(tmp_path, *arguments, cells=cells, conftest=CONFTEST, test_some=SUITE, test_other=other)
    assert part.code == code, part.text
    assert "coverage of the API" not in part.text


def test_public_functions_are_those_of_the_module_and_of_its_classes() -> None:
    names = [name for name, _, _ in calls.public(shmem)]
    assert {"put", "zeros", "Team.my_pe", "Batch.run"} <= set(names)
    assert not {"CMP", "ShmemError", "Team", "TEAM_WORLD", "Team.__repr__", "Team.pes", "HeapStats"} & set(names)
    for name, owner, attribute in calls.public(shmem):
        assert callable(getattr(owner, attribute)), name


class Things:
    """A module with every kind of member."""

    class Thing:
        value = 1
        made = functools.cached_property(lambda self: 2)
        asked = property(lambda self: 3)

        def method(self) -> str:
            return "method"

        @staticmethod
        def static(word: str) -> str:
            return word

        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

        def _inner(self) -> None: ...

    settings = functools.partial(int)
    FACTOR = 3
    __all__ = ("FACTOR", "Thing", "settings")
    __file__ = shmem.__file__


def test_only_functions_are_wrapped_and_each_kind_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shmem", Things)
    before = dict(vars(Things.Thing))
    ran = calls.Calls()
    ran.install()
    changed = {name for name, member in vars(Things.Thing).items() if member is not before.get(name)}
    assert changed == {"method", "static", "of_class"}
    thing = Things.Thing()
    assert (thing.value, thing.made, thing.asked) == (1, 2, 3)
    assert (thing.method(), Things.Thing.static("word"), thing.static("word")) == ("method", "word", "word")
    assert ran.fresh() == ["Thing.method", "Thing.static"]
    assert (thing.of_class(), Things.Thing.of_class()) == ("Thing", "Thing")
    assert (ran.fresh(), ran.fresh()) == (["Thing.of_class"], [])


def test_a_reason_for_what_did_run_is_out_of_date() -> None:
    coverage, item = Coverage(), SimpleNamespace(nodeid="t")
    assert "lists what did run" not in coverage.problem()
    coverage.ran(item, SimpleNamespace(pes=1), "passed", ["global_exit"])
    coverage.ran(item, SimpleNamespace(pes=2), "failed", ["global_exit"])
    assert "global_exit" not in coverage.problem()
    coverage.ran(item, SimpleNamespace(pes=2), "passed", ["global_exit"])
    assert coverage.problem().endswith("[[unrecorded]] lists what did run: global_exit")
