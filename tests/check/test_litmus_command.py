"""The command `shmemu litmus`: what it prints and how it ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shmem.cli import main

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "tests" / "litmus" / "contract"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["litmus", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_folder_that_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, str(CONTRACT), "--matrix", str(tmp_path / "out.md"))
    assert code == 0
    assert out.splitlines()[-1] == "81 tests, 120 verdicts, 0 wrong"
    table = [line for line in (tmp_path / "out.md").read_text().splitlines() if line.startswith("|")]
    assert len(table) == 2 + 81
    [row] = [line for line in table if line.startswith("| U05 ")]
    cells = dict(zip(table[0].split(" | ")[1:], row.split(" | ")[1:], strict=True))
    assert (cells["udma"], cells["udma_engine_scoped |"]) == ("never", "sometimes |")


def test_a_verdict_that_does_not_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (CONTRACT / "udma.litmus").read_text()
    wrong = tmp_path / "wrong.litmus"
    wrong.write_text(text.replace("verdict udma allowed", "verdict udma forbidden", 1))
    code, out, _ = run(capsys, str(wrong))
    assert code == 1
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("BAD")] == [["BAD", "U01"]]
    assert "allowed, expected forbidden" in out


def test_another_profile_and_the_outcomes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = tmp_path / "one.litmus"
    one.write_text('test A "a"\ninit x = 0\nP0: put x@1 = 1\nP1: r = x\noutcome 1:r == 1\nverdict udma allowed\n')
    code, out, _ = run(capsys, str(one), "--profile", "tso", "--outcomes")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:3]] == [["1", "1:r=0"], ["1", "1:r=1"]]


def test_the_most_frequent_ends_are_shown_with_their_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """PE 0 adds nine times to a word that PE 1 looks at once, which may be after any number of them."""
    one = tmp_path / "one.litmus"
    adds = "; ".join(["atomic_add x@1 += 1"] * 9)
    one.write_text(f'test A "a"\ninit x = 0\nP0: {adds}\nP1: r = x\noutcome 1:r == 9\nverdict tso allowed\n')
    every = [["1", f"1:r={n}"] for n in range(10)]
    assert [line.split() for line in run(capsys, str(one), "--outcomes")[1].splitlines()[1:-1]] == every
    *shown, left = [line.split() for line in run(capsys, str(one))[1].splitlines()[1:-1]]
    assert shown == every[:8]
    assert left == ["...", "2", "more:", "--outcomes", "shows", "all"]


def test_without_the_core_there_is_no_native_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shmem._native._core", None)
    monkeypatch.delattr("shmem._native._core", raising=False)
    code, _, err = run(capsys, str(CONTRACT / "udma.litmus"), "--engine", "native")
    assert (code, "Traceback" in err) == (2, False)
    assert "the native core is not built" in err


def test_the_native_engine_judges_alike(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(CONTRACT / "verbs.litmus")
    assert run(capsys, file, "--engine", "native", "--outcomes") == run(capsys, file, "--outcomes")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (
            'test A "a"\ninit x = 0\nP0: r = x\noutcome 0:r == 0\nverdict tso allowed\n',
            ["--engine", "rust"],
            "python, native",
        ),
        (
            'test A "a"\ninit x = 0\nP0: r = x\noutcome 0:r == 0\nverdict tso allowed\n',
            ["--engine", "native", "--hardware", "1"],
            "are for searches",
        ),
        ("test A", [], "one.litmus:1:7: "),
        ('test A "a"\ninit x = 0\nP0: r = x\noutcome 0:r == 0\nverdict nfs allowed\n', [], "no profile 'nfs'"),
        (
            'test A "a"\ninit x = 0\nP0: r = x\noutcome 0:r == 0\nverdict tso allowed\n',
            ["--profile", "nfs"],
            "no profile 'nfs'",
        ),
    ],
)
def test_bad_input_is_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, options: list[str], says: str
) -> None:
    one = tmp_path / "one.litmus"
    one.write_text(text)
    code, _, err = run(capsys, str(one), *options)
    assert (code, "Traceback" in err) == (2, False)
    assert says in err


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "no test in this file"), (b"# \xc3\xa4\n", "no test in"), (b'test A "\xff"\n', "no text in UTF-8")],
)
def test_what_holds_no_tests_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes, says: str
) -> None:
    one = tmp_path / "one.litmus"
    one.write_bytes(data)
    code, _, err = run(capsys, str(one))
    assert (code, "Traceback" in err) == (2, False)
    assert says in err


def test_a_page_that_cannot_be_written_is_told_before_the_search(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    code, out, err = run(capsys, str(CONTRACT), "--matrix", str(tmp_path / "file" / "out.md"))
    assert (code, out) == (2, "")
    assert "can't be written" in err


def test_an_error_shows_the_line_and_a_caret(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = tmp_path / "one.litmus"
    one.write_text('test A "a"\ninit x == 0\n')
    code, _, err = run(capsys, str(one))
    assert code == 2
    assert err.splitlines()[1:] == ["  init x == 0", "          ^"]


def test_no_such_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, str(tmp_path / "none.litmus"))[0] == 2
    assert "no .litmus file" in run(capsys, str(tmp_path))[2]


def test_the_page_of_all_tests_is_current(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, str(ROOT / "tests" / "litmus"), "--matrix", str(tmp_path / "out.md"))[0] == 0
    assert (ROOT / "docs" / "litmus-matrix.md").read_text() == (tmp_path / "out.md").read_text(), (
        "run: shmemu litmus tests/litmus --matrix docs/litmus-matrix.md"
    )
