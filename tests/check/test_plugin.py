"""The pytest plugin: tests that are explored, tests that explore, what they say and what a replay does."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shmem.check.plugin  # noqa: F401 (once, instead of by every pytest that is run here)

pytest_plugins = ["pytester"]

QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # the last takes a second to say nothing

HEAD = """\
import numpy as np
import pytest
import shmem

def put(fenced):
    data, flag = shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        shmem.p(data, 7, 1)
        if fenced:
            shmem.fence()
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert shmem.g(data, 1) == 7, "too early"

"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Any:
    """Runs pytest on a file of this text, here."""

    def run(body: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=HEAD + body)
        return pytester.runpytest_inprocess(*QUICK, *options)

    return run


def saved() -> list[dict[str, Any]]:
    folder = Path("out/failures")
    return [json.loads(file.read_text()) for file in sorted(folder.iterdir())] if folder.exists() else []


def replayed(pytester: pytest.Pytester, command: str) -> pytest.RunResult:
    program, *words = shlex.split(command)
    assert program == "pytest"
    return pytester.runpytest_inprocess(*QUICK, *words)


MARKED = """
@pytest.mark.shmem_check(pes=2, profile="srd")
@pytest.mark.parametrize("fenced", [True, False])
def test_put(fenced):
    print("one more")
    put(fenced)
"""


def test_a_marked_test_is_explored(run: Any) -> None:
    found = run(MARKED)
    found.assert_outcomes(passed=1, failed=1)
    [failure] = saved()
    assert failure["program"] == "test_it.py::test_put[False]"
    assert (failure["kind"], failure["pe"], failure["n_pes"], failure["profile"]) == ("assertion", 1, 2, "srd")
    assert failure["command"] == f"pytest 'test_it.py::test_put[False]' --shmem-replay {failure['token']}"
    text = found.stdout.str()
    assert failure["story"] in text
    assert f"replay: {failure['command']}" in text
    assert "test_it.py::test_put[False], 2 PEs, profile srd, exhaustive" in text
    for elsewhere in ("one more", "Traceback", "shmem/check", "During handling"):
        assert elsewhere not in text


def test_its_command_runs_that_execution_again(run: Any, pytester: pytest.Pytester) -> None:
    run(MARKED)
    [failure] = saved()
    again = replayed(pytester, failure["command"])
    again.assert_outcomes(failed=1)
    assert "profile srd, replay" in again.stdout.str()
    assert failure["story"] in again.stdout.str()
    [file] = Path("out/failures").iterdir()
    by_file = replayed(pytester, failure["command"].replace(failure["token"], str(file)))
    assert failure["story"] in by_file.stdout.str()
    assert saved() == [failure]


def test_a_token_of_another_test_is_refused(run: Any, pytester: pytest.Pytester) -> None:
    run(MARKED)
    [failure] = saved()
    other = replayed(pytester, failure["command"].replace("False", "True"))
    other.assert_outcomes(failed=1)
    other.stdout.fnmatch_lines(["ReplayMismatch: the token is of the program *"])


def test_the_arguments_of_the_marker_count(run: Any) -> None:
    found = run("""
@pytest.mark.shmem_check
def test_default():
    assert shmem.n_pes() == 2
@pytest.mark.shmem_check(pes=3, budget=1)
def test_pes():
    assert shmem.n_pes() == 3
@pytest.mark.shmem_check(profile="tso")
def test_profile():
    put(False)
@pytest.mark.shmem_check(profile="srd", strategy="random", budget=30, seed=1, complete=False)
def test_strategy():
    put(False)
@pytest.mark.shmem_check(profile="srd", strategy="random", budget=3, complete=True)
def test_complete():
    put(True)
@pytest.mark.shmem_check(profile="srd", complete=True)
def test_all_of_it():
    put(True)
""")
    found.assert_outcomes(passed=4, failed=2)
    text = found.stdout.str()
    assert "test_it.py::test_strategy, 2 PEs, profile srd, random, seed 1" in text
    assert "the search was not complete\ntest_it.py::test_complete, 2 PEs, profile srd, random, seed 0" in text


def test_methods_and_fixtures_around_a_test(run: Any) -> None:
    found = run("""
seen = []
@pytest.fixture(autouse=True)
def around():
    seen.append("before")
    yield
class TestIt:
    @pytest.mark.shmem_check(profile="srd")
    def test_put(self):
        put(False)
def test_once():
    assert seen == ["before"] * 2
""")
    found.assert_outcomes(passed=1, failed=1)
    [failure] = saved()
    assert failure["program"] == "test_it.py::TestIt::test_put"
    assert failure["command"] == f"pytest test_it.py::TestIt::test_put --shmem-replay {failure['token']}"


@pytest.mark.parametrize(
    ("marker", "rest", "says"),
    [
        ("", "def test_it(tmp_path): ...", "test_it asks for tmp_path: *can have no fixtures*"),
        ("", "def test_it(shmem_explore): ...", "test_it asks for shmem_explore: *"),
        ("", "def test_it(self): ...", "test_it asks for self: *"),
        ("(3)", "def test_it(): ...", "shmem_check takes its arguments by name: *"),
        ("(pe=3)", "def test_it(): ...", "shmem_check has no pe: it has budget, complete, *"),
        ("(args=3)", "def test_it(): ...", "shmem_check has no args: *"),
        ("(profile='nfs')", "def test_it(): ...", "ArgumentError: there is no profile 'nfs'*"),
        ("", "async def test_it(): ...", "ArgumentError: test_it is asynchronous or a generator*"),
    ],
)
def test_what_is_refused_is_a_sentence(run: Any, marker: str, rest: str, says: str) -> None:
    found = run(f"@pytest.mark.shmem_check{marker}\n{rest}\n")
    assert found.ret == 1
    assert found.parseoutcomes().keys() <= {"failed", "errors"}
    found.stdout.fnmatch_lines([says])
    assert "Traceback" not in found.stdout.str()
    assert "During handling" not in found.stdout.str()


def test_parameters_that_go_to_fixtures_and_test_cases_are_refused(run: Any) -> None:
    found = run("""
import unittest
@pytest.fixture
def value(request):
    return request.param
@pytest.mark.shmem_check
@pytest.mark.parametrize("value", [1], indirect=True)
def test_indirect(value): ...
class TestCase(unittest.TestCase):
    @pytest.mark.shmem_check
    def test_case(self): ...
""")
    found.assert_outcomes(errors=2)
    found.stdout.fnmatch_lines(["test_indirect asks for value: *", "shmem_check is for functions, *"])


# ---- the fixture ----


EXPLORES = """
def test_it(shmem_explore):
    def unfenced():
        put(False)
    def fenced():
        put(True)
    assert shmem_explore(fenced, 2, "srd").ok
    report = shmem_explore(unfenced, n_pes=2, profile="srd")
    assert report.executions
    assert report.ok
"""


def test_what_was_found_stands_in_the_assertion(run: Any) -> None:
    found = run(EXPLORES)
    found.assert_outcomes(failed=1)
    [failure] = saved()
    assert failure["program"] == "test_it.py::test_it: test_it.unfenced"
    shown = [line[1:].strip() for line in found.stdout.lines if line.startswith("E ")]
    assert "AssertionError: assert False" in shown
    assert f"replay: {failure['command']}" in shown
    assert [line.strip() for line in failure["story"].splitlines()] == shown[-1 - failure["story"].count("\n") - 1 : -1]


def test_a_replay_is_of_the_program_that_failed(run: Any, pytester: pytest.Pytester) -> None:
    run(EXPLORES)
    [failure] = saved()
    assert failure["command"] == f"pytest test_it.py::test_it --shmem-replay {failure['token']}"
    again = replayed(pytester, failure["command"])
    again.assert_outcomes(failed=1)
    assert "test_it.py::test_it: test_it.unfenced, 2 PEs, profile srd, replay" in again.stdout.str()
    assert saved() == [failure]


def test_a_failure_that_was_looked_for_is_no_failed_test(run: Any) -> None:
    run("""
def test_it(shmem_explore):
    report = shmem_explore(lambda: put(False), 2, "srd")
    assert [failure.kind for failure in report.failures] == ["assertion"]
""").assert_outcomes(passed=1)


# ---- when it is not used ----


def test_without_either_nothing_of_shmem_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_other(request):\n"
        "    assert 'shmemu_pytest' in sys.modules\n"
        "    assert request.config.pluginmanager.hasplugin('shmemu')\n"
        "    assert not {'shmem', 'numpy', 'greenlet'} & set(sys.modules)\n"
    )
    line = [sys.executable, "-m", "pytest", "-q", *QUICK, "--strict-markers", "test_other.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_marker_and_the_option_are_known(pytester: pytest.Pytester) -> None:
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.shmem_check(pes=2, *"])
    pytester.runpytest_inprocess("--help").stdout.fnmatch_lines(["*--shmem-replay=TOKEN*"])
