"""Memory that is not freed as a failure: `leaks=True`, `--leaks`; and how kinds of failure are saved and replayed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import shmem
import shmem.check.plugin  # (once, instead of by every pytest that is run here)
from shmem.check.exploration import explore, replay
from shmem.cli import main

pytest_plugins = ["pytester"]

PROGRAM = """\
import numpy as np
import pytest
import shmem


def keeps(free=False):
    first = shmem.zeros(4, np.int64)
    second = shmem.zeros(1, np.int64)
    shmem.free(second)
    if free:
        shmem.free(first)


def fails():
    keeps()
    assert False, "this first"


def stale():
    box = shmem.zeros(1, np.int64)
    shmem.check.accept(box, (0, 1))


@pytest.mark.shmem_check(leaks=True)
@pytest.mark.parametrize("free", [True, False])
def test_it(free):
    keeps(free)
"""


def keeps(free: bool) -> None:
    array = shmem.zeros(4, np.int64)
    if free:
        shmem.free(array)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM)


@pytest.mark.parametrize("log", ["error", "warning"])
def test_it_is_a_failure_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    monkeypatch.setenv("SHMEMU_LOG", log)
    assert explore(keeps, args=(False,)).ok
    assert explore(keeps, args=(True,), leaks=True).ok
    report = explore(keeps, args=(False,), leaks=True)
    [failure] = report.failures
    assert (failure.kind, failure.pe) == ("leak", None)
    assert "1 symmetric allocation was not freed" in failure.text
    assert "zeros((4,), int64)" in failure.story
    assert [one.kind for one in replay(keeps, failure.token, args=(False,), leaks=True).failures] == ["leak"]
    assert replay(keeps, failure.token, args=(False,)).ok


def saved() -> dict[str, str]:
    [file] = Path("out/failures").iterdir()
    found: dict[str, str] = json.loads(file.read_text())
    return found


def test_the_command_tells_and_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py::keeps"]) == 0
    assert not Path("out").exists()
    assert main(["check", "prog.py::keeps", "--leaks"]) == 1
    out = capsys.readouterr().out
    assert "leak: PE 0: 1 symmetric allocation was not freed" in out
    assert saved()["kind"] == "leak"
    assert saved()["command"].endswith("--leaks")
    for words in (
        shlex.split(saved()["command"])[1:],
        ["check", "--replay", str(next(Path("out/failures").iterdir()))],
    ):
        assert main(words) == 1
        assert "leak: PE 0" in capsys.readouterr().out


def test_another_failure_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py::fails", "--leaks"]) == 1
    assert saved()["kind"] == "assertion"
    assert "--leaks" not in saved()["command"]


def test_a_stale_message_is_told_and_saved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py::stale", "-n", "1"]) == 1
    assert "stale of PE 0: AcceptError: message 1 of PE 0 is not there: " in capsys.readouterr().out
    assert (saved()["kind"], saved()["pe"]) == ("stale", 0)
    assert main(shlex.split(saved()["command"])[1:]) == 1
    assert "stale of PE 0" in capsys.readouterr().out


def test_a_marked_test_may_ask_for_it(pytester: pytest.Pytester) -> None:
    quick = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    pytester.makepyfile(test_prog=PROGRAM)
    pytester.runpytest_inprocess(*quick).assert_outcomes(passed=1, failed=1)
    assert saved()["kind"] == "leak"
    again = pytester.runpytest_inprocess(*quick, *shlex.split(saved()["command"])[1:])
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*leak: PE 0: 1 symmetric allocation was not freed*"])
