"""`shmemu lesson`: files are written once, wrong use and broken answers get one sentence, exit codes are the usual."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from shmem.cli import main
from shmem.lessons.catalogue import LESSONS
from shmem.lessons.judge import Endless, deadline, tried

from .answers import POLLS, RIGHT, WRONG, filled


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code of `shmemu lesson` with these words, and what it printed."""
    code = main(["lesson", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_without_a_number_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys)
    assert (code, len(out.splitlines())) == (0, 1 + len(LESSONS))
    assert all(f"  {number}  {lesson.title}\n" in out for number, lesson in LESSONS.items())


@pytest.mark.parametrize("folder", ["", "some/where"])
def test_start_writes_the_exercise_and_nothing_over_it(capsys: pytest.CaptureFixture[str], folder: str) -> None:
    words = ["1", "--start", *([folder] if folder else [])]
    file = Path(folder) / "exercise1.py"
    assert told(capsys, *words)[0] == 0
    assert file.read_text() == LESSONS[1].text("exercise")
    file.write_text("mine\n")
    code, _, error = told(capsys, *words)
    assert (code, file.read_text()) == (2, "mine\n")
    assert error == f"shmemu: {file} is there already, and is left as it is: name another folder\n"


def test_try_tells_by_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "3", "--start")
    code, out, _ = told(capsys, "3", "--try", "exercise3.py")
    assert code == 1
    assert "exception of PE 0: QueueFull: " in out
    assert out.splitlines()[-1].startswith("hint: the ring is full of requests that are not signaled")
    Path("exercise3.py").write_text(told(capsys, "3", "--solution")[1])
    code, out, _ = told(capsys, "3", "--try", "exercise3.py")
    assert (code, out.splitlines()[0]) == (0, "exercise3.py is right:")


def test_try_tells_that_not_all_could_be_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    Path("answer.py").write_text(filled(EXERCISE, POLLS))
    code, out, _ = told(capsys, "1", "--try", "answer.py")
    assert (code, out.splitlines()[0]) == (3, "no failure was found, but not all of it was looked at:")


def test_trying_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "1", "--start")
    path, modules = list(sys.path), set(sys.modules)
    told(capsys, "1", "--try", "exercise1.py")
    assert list(sys.path) == path
    assert not [name for name in set(sys.modules) - modules if "exercise" in name]
    assert [each.name for each in Path().iterdir()] == ["exercise1.py"]


def test_the_solution_differs_from_the_exercise_in_its_gap_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for number, lesson in LESSONS.items():
        code, out, _ = told(capsys, str(number), "--solution")
        assert (code, out) == (0, lesson.text("solution"))
        mine, theirs = (text.partition("\ndef main()")[2] for text in (out, lesson.text("exercise")))
        assert mine == theirs


@pytest.mark.parametrize("number", LESSONS)
def test_trace_writes_the_timeline_of_the_program(capsys: pytest.CaptureFixture[str], number: int) -> None:
    code, out, _ = told(capsys, str(number), "--trace", "out/lesson.json")
    assert (code, out) == (0, "trace: out/lesson.json\n")
    whole = json.loads(Path("out/lesson.json").read_text())
    assert whole["schema"] == "shmemu-trace/1"
    names = [event["name"] for event in whole["traceEvents"]]
    assert any(f"lesson{number}.py" in name for name in names)
    assert any(name.startswith("~ completion: write of PE 0") for name in names)


EXERCISE = LESSONS[1].text("exercise")
CHANGED = (
    "answer.py: main is not as in the exercise, and only send is yours (shmemu lesson 1 --start DIR writes the "
    "exercise afresh)"
)
LAST = len(EXERCISE.splitlines())
BROKEN = {
    "there is no file": (None, "answer.py can't be read: No such file or directory"),
    "syntax": (EXERCISE.replace("# Your lines.", "for"), "answer.py:19: this is no Python: invalid syntax"),
    "no send": (
        EXERCISE.replace("def send(", "def sent("),
        "answer.py has no function send: that is the part to write",
    ),
    "other arguments": (
        EXERCISE.replace("def send(qp: nic.QueuePair, ", "def send("),
        "answer.py: send takes other arguments than in the exercise, or is there twice",
    ),
    "the check is gone": (
        EXERCISE.replace('shmem.wait_until(box[i : i + 1], "==", i + 1)', "pass"),
        CHANGED,
    ),
    "no check at all": (
        EXERCISE.partition("def main()")[0],
        CHANGED,
    ),
    "another main behind it": (
        EXERCISE + '\n\ndef main() -> str:\n    return "done"\n',
        CHANGED,
    ),
    "it ends the PE": (
        filled(EXERCISE, f"{RIGHT[1][0]}raise SystemExit(0)"),
        "answer.py: main did not come to its end on every PE: `send` must return to it",
    ),
    "it fails when imported": (EXERCISE + "\n1 / 0\n", f"answer.py:{LAST + 2}: ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_answer_gets_one_sentence(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text, sentence = BROKEN[name]
    if text is not None:
        Path("answer.py").write_text(text)
    code, out, error = told(capsys, "1", "--try", "answer.py")
    assert (code, out, error) == (2, "", f"shmemu: {sentence}\n")


def test_helpers_and_imports_of_the_reader_are_no_change() -> None:
    text = filled(EXERCISE, "ring(qp)").replace("import numpy", "import math\nimport numpy")
    Path("answer.py").write_text(text + "\n\ndef ring(qp):\n    qp.doorbell()\n    assert math.pi > 3\n")
    assert tried(LESSONS[1], "answer.py").hint == "untouched"


@pytest.mark.parametrize(
    "body", ["while True:\n    pass", "while True:\n    try:\n        pass\n    except Exception:\n        pass"]
)
def test_an_endless_loop_is_told_with_its_line(body: str) -> None:
    Path("answer.py").write_text(filled(EXERCISE, body))
    verdict = tried(LESSONS[1], "answer.py", seconds=0.5)
    assert (verdict.ok, verdict.hint) == (False, "endless")
    line = 1 + next(i for i, each in enumerate(Path("answer.py").read_text().splitlines()) if "while True" in each)
    assert any(
        verdict.text == f"answer.py:{n}: still running after 0.5 s: a loop that never ends?"
        for n in range(line, line + 5)
    )


def test_an_endless_loop_when_imported_is_told_as_well() -> None:
    Path("answer.py").write_text(f"{EXERCISE}\nwhile True:\n    pass\n")
    assert tried(LESSONS[1], "answer.py", seconds=0.5).hint == "endless"


ONE = "one of --start [DIR], --try FILE, --solution, --trace OUT.json, --measure at a time"
WRONG_USE = {
    ("5",): "there is no lesson 5: there are 1, 2, 3, 4, 8, 9",
    ("--start",): "say which lesson: shmemu lesson N",
    ("1", "--start", "--solution"): ONE,
    ("1", "--measure"): "lesson 1 measures nothing",
    ("9", "--measure", "--solution"): ONE,
    ("1", "somewhere"): ONE,
    ("1", "--trace", "/proc/no.json"): "",
}


@pytest.mark.parametrize("words", WRONG_USE)
def test_wrong_use_is_one_sentence(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    code, out, error = told(capsys, *words)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error == f"shmemu: {WRONG_USE[words]}\n" or not WRONG_USE[words]


def test_an_answer_is_judged_by_what_it_does_not_by_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The same mistake, written in other ways."""
    [body] = WRONG[4]["completion taken"]
    other = body.replace("cq.wait(1)", "\n            while not cq.poll():\n                shmem.spin()\n            ")
    Path("answer.py").write_text(filled(LESSONS[4].text("exercise"), other))
    assert tried(LESSONS[4], "answer.py").hint == "completion taken"


def test_only_what_the_answer_runs_is_ended() -> None:
    """What the explorer does between executions (`sys.modules` holds a PE's then) goes to its end."""
    names: dict[str, object] = {"signal": signal}
    text = "def ring():\n    signal.raise_signal(signal.SIGALRM)"
    exec(compile(text, "/somewhere/answer.py", "exec"), names)
    with deadline(1000, "answer.py"):
        signal.raise_signal(signal.SIGALRM)
        with pytest.raises(Endless):
            names["ring"]()  # type: ignore[operator]
