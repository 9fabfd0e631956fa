"""Who imports a program instrumented: `shmemu check` and the pytest plugin, with races on, on top of its rewriting."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

import shmem.check.plugin  # noqa: F401 (once, instead of by every pytest that is run here)
from shmem.check.exploration import explore
from shmem.check.instrument.asked import instrumented
from shmem.check.loading import load
from shmem.check.report import Report
from shmem.cli import main

pytest_plugins = ["pytester"]
QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")

PROGRAM = """\
import numpy as np
import pytest
import shmem


def early():
    x, b = shmem.zeros(1, np.int64), np.ones(1, np.int64)
    shmem.get_nbi(b, x, 0)
    b[0]
    shmem.quiet()


def wrong():
    x, b = shmem.zeros(1, np.int64), np.ones(1, np.int64)
    shmem.get(b, x, 0)
    assert [b.item(), shmem.n_pes()] == [
        b[0], 3], "no three"


def own():
    spec = own.__globals__["__spec__"]
    return any("@" in name for name in own.__code__.co_names), type(spec.loader).__name__, spec.loader is __loader__
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM)


def outcome(report: Report) -> Any:
    """What each PE returned, where all are the same."""
    [ends] = report.outcomes
    [one] = set(ends)
    return one


def test_the_command_finds_and_replays_an_early_load(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py::early", "--races", "lenient"]) == 1
    text = (
        "get writes its result (PE 0, prog.py:8) and load (PE 0, prog.py:9): 8 private bytes of PE 0: no quiet between"
    )
    out = capsys.readouterr().out
    assert text in out
    [command] = re.findall(r"^replay: shmemu (.*)$", out, re.MULTILINE)
    assert main(shlex.split(command)) == 1
    assert text in capsys.readouterr().out
    [path] = Path("out/failures").iterdir()
    assert main(["check", "--replay", str(path)]) == 1
    assert text in capsys.readouterr().out


def test_nothing_is_changed_unless_races_and_this_are_asked_for() -> None:
    program = load("prog.py::own")
    assert outcome(explore(program, 2, races="lenient"))[0] is False
    with instrumented():
        assert outcome(explore(program, 2)) == (False, "SourceFileLoader", True)
        assert outcome(explore(program, 2, races="strict")) == (True, "SourceFileLoader", True)
    assert outcome(explore(program, 2, races="lenient"))[0] is False
    assert program()[0] is False  # the caller's


def test_what_another_loader_makes_stays_as_it_is() -> None:
    class Other(SourceFileLoader):
        """Changes the text."""

        def source_to_code(self, data: Any, path: Any, *more: Any, **options: Any) -> Any:
            return super().source_to_code(data + b"\nchanged = 1\n", path, *more, **options)

    spec = importlib.util.spec_from_file_location("other", "prog.py", loader=Other("other", "prog.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["other"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        assert module.changed == 1
        with instrumented():
            assert outcome(explore(module.own, 2, races="lenient")) == (False, "Other", True)
    finally:
        del sys.modules["other"]


def test_an_error_is_told_as_ever() -> None:
    program = load("prog.py::wrong")
    plain = explore(program, 2, "tso", races="lenient").failures
    with instrumented():
        found = explore(program, 2, "tso", races="lenient").failures
    for one, other in zip(plain, found, strict=True):
        assert (other.kind, other.text, other.token) == (one.kind, one.text, one.token)
        assert lines(other.error) == lines(one.error)
    assert lines(found[0].error)[-1].startswith(f'  File "{Path("prog.py").resolve()}", line 16, in wrong')


def lines(error: BaseException | None) -> list[str]:
    assert error is not None
    return [line for line in traceback.format_tb(error.__traceback__) if "prog.py" in line]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Iterator[Callable[..., str]]:
    """Runs pytest on the programs and more; what it prints of the test, without times and tokens."""

    def run(body: str) -> str:
        pytester.makepyfile(test_it=PROGRAM + body)
        found = pytester.runpytest_inprocess(*QUICK)
        found.assert_outcomes(failed=1)
        text = re.sub(r"s1\.\S+|[0-9.]+ ?s\b|, races lenient", "", found.stdout.str())
        return text.partition(" FAILURES ")[2].partition("= short test summary")[0]

    yield run
    assert not [file for file in Path().rglob("*.pyc") if b"@shmemu" in file.read_bytes()]


EARLY = "result (PE 0, test_it.py:8) and load (PE 0, test_it.py:9): 8 private bytes of PE 0: no quiet between"


def test_a_marked_test_is_instrumented(run: Callable[..., str]) -> None:
    assert EARLY in run("""

@pytest.mark.shmem_check(races="lenient")
def test_it():
    early()
""")


def test_a_program_within_a_test_is_instrumented(run: Callable[..., str]) -> None:
    assert "(PE 0, test_it.py:28) and load (PE 0, test_it.py:31)" in run("""

def test_it(shmem_explore):
    def program(n=[1][0]):
        x, b = shmem.zeros(1, np.int64), np.ones(n, np.int64)
        shmem.get_nbi(b, x, 0)
        helper(b, 3)
        shmem.quiet()
    helper = lambda b, unused: b[0]
    assert shmem_explore(program, 2, races="lenient", keep_going=True).ok
""")


FAILING = """

@pytest.mark.shmem_check(profile="tso", races=RACES)
def test_it():
    wrong()
"""


def test_assertions_are_still_told_by_pytest(run: Callable[..., str]) -> None:
    plain = run(FAILING.replace("RACES", "False"))
    assert "assert [0, 2] == [0, 3]" in plain.replace("np.int64(0)", "0")
    assert run(FAILING.replace("RACES", "'lenient'")) == plain


def test_the_test_module_keeps_the_loader_of_pytest(run: Callable[..., str]) -> None:
    assert "(True, 'AssertionRewritingHook', True)" in run("""

@pytest.mark.shmem_check(races="lenient")
def test_it():
    assert own() is None
""")
