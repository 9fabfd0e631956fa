"""docs/check.md runs: its programs, its commands with what they print, its tests; and so does README's program."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmem.cli import main

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]


def blocks(name: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: their language, and what is in them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


BLOCKS = blocks("docs/check.md")
FILES = {code.split()[1]: code for kind, code in BLOCKS if kind == "python" and code.startswith("# ")}


@pytest.fixture(autouse=True)
def _files(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files of the page."""
    for name, text in FILES.items():
        Path(name).write_text(text)
    monkeypatch.syspath_prepend(Path.cwd())
    yield
    for name in ("mailbox", "steps"):
        sys.modules.pop(name, None)


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
    [loop, messages, session] = rest
    exec(compile(messages, "docs/check.md", "exec"), {})
    assert capsys.readouterr().out == "clobber\n"
    exec(compile(session, "docs/check.md", "exec"), {})
    assert capsys.readouterr().out == "assertion 1\n"
    exec(compile(f"import shmem\n{waiting(loop)}\nshmem.run(program, 2)", "docs/check.md", "exec"), {})


def test_the_program_of_the_readme_can_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    [(_, program)] = [block for block in blocks("README.md") if block[0] == "python"]
    Path("hello.py").write_text(program)
    assert main(["check", "hello.py::main", "-n", "3", "--profile", "openshmem", "--complete"]) == 0
    assert "all of it" in capsys.readouterr().out
    assert main(["run", "--fabric", "sim", "-n", "4", "hello.py"]) == 0
    expected = [f"PE {pe} of 4 got [{' '.join([str((pe - 1) % 4)] * 4)}]" for pe in range(4)]
    assert sorted(capsys.readouterr().out.splitlines()) == expected


def waiting(loop: str) -> str:
    """A program with the loop of the page."""
    inside = "".join(f"        {line}\n" for line in loop.splitlines())
    return (
        "def program():\n    flag = shmem.zeros(1, int)\n    if shmem.my_pe() == 0:\n        shmem.p(flag, 1, 1)\n"
        f"    else:\n{inside}"
    )
