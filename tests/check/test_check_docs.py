"""docs/check.md runs: its programs, its commands with what they print, its tests."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmem.cli import main

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {code.split()[1]: code for kind, code in BLOCKS if kind == "python" and code.startswith("# ")}


@pytest.fixture(autouse=True)
def _files(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files of the page."""
    for name, text in FILES.items():
        Path(name).write_text(text)
    monkeypatch.syspath_prepend(Path.cwd())
    yield
    sys.modules.pop("mailbox", None)


def lasting(text: str) -> str:
    """What was printed, without times and hashes."""
    text = re.sub(r"\d+\.\d\d s$", "T s", text, flags=re.MULTILINE)
    return re.sub(r"\b(s1\.|failures/)[0-9a-f]{8}\b", r"\1HASH", text)


def test_the_commands_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    [session] = [text for kind, text in BLOCKS if not kind]
    commands = re.findall(r"^\$ shmemu (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert len(commands) == session.count("$ ") == 2
    for words, expected in commands:
        assert main(shlex.split(words)) == ("replay:" in expected)
        assert lasting(capsys.readouterr().out) == lasting(expected)


def test_the_tests_pass(pytester: pytest.Pytester) -> None:
    found = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "test_mailbox.py")
    found.assert_outcomes(passed=5)


def test_the_rest_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rest = [code for kind, code in BLOCKS if kind == "python" and not code.startswith("# ")]
    [loop, session] = rest
    exec(compile(session, "docs/check.md", "exec"), {})
    assert capsys.readouterr().out == "assertion 1\n"
    exec(compile(f"import shmem\n{waiting(loop)}\nshmem.run(program, 2)", "docs/check.md", "exec"), {})


def waiting(loop: str) -> str:
    """A program with the loop of the page."""
    inside = "".join(f"        {line}\n" for line in loop.splitlines())
    return (
        "def program():\n    flag = shmem.zeros(1, int)\n    if shmem.my_pe() == 0:\n        shmem.p(flag, 1, 1)\n"
        f"    else:\n{inside}"
    )
