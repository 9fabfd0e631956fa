"""`--races` on the command line and in pytest: exit codes, what is saved, and how it is repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shmem.cli import main

pytest_plugins = ["pytester"]

PROGRAM = """\
import numpy as np
import shmem


def main():
    word = shmem.zeros(1, np.int64)
    shmem.p(word, 1, 0)


def disputed():
    word = shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        shmem.p(word, 1, 1)
    else:
        shmem.wait_until(word, "==", 1)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM)


def test_a_race_is_exit_code_1_and_saved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py"]) == 0
    assert main(["check", "prog.py", "--races", "lenient"]) == 1
    out = capsys.readouterr().out
    assert "race of PE 1: put (PE 0, prog.py:7) and put (PE 1, prog.py:7): bytes 0x0..0x8 of PE 0" in out
    [path] = Path("out/failures").iterdir()
    saved = json.loads(path.read_text())
    assert saved["kind"] == "race"
    assert saved["command"].endswith(" --races lenient")
    assert main(["check", "--replay", str(path)]) == 1
    assert "race of PE 1: put (PE 0, prog.py:7)" in capsys.readouterr().out


def test_strict_says_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py::disputed", "--races", "lenient"]) == 0
    assert main(["check", "prog.py::disputed", "--races", "strict"]) == 1
    [path] = Path("out/failures").iterdir()
    assert json.loads(path.read_text())["races"] == "strict"
    assert main(["check", "--replay", str(path)]) == 1
    assert "and wait (PE 1, prog.py:15)" in capsys.readouterr().out


def test_another_word_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prog.py", "--races", "maybe"]) == 2
    assert "races='maybe'" in capsys.readouterr().err


def test_the_marker_takes_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        PROGRAM.replace("def main", "@pytest.mark.shmem_check(races='lenient')\ndef test_it").replace(
            "import shmem\n", "import pytest\nimport shmem\n"
        )
    )
    found = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    found.assert_outcomes(failed=1)
    text = found.stdout.str()
    assert "race of PE 1: put (PE 0, test_the_marker_takes_it.py:9)" in text
    token = text.partition("--shmem-replay ")[2].split()[0]
    again = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--shmem-replay", token)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*race of PE 1: put*"])
