"""The command `shmemu check`: what it prints, what it saves and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shmem.cli import main

Check = Callable[..., tuple[int, str, str]]

PROGRAM = """\
import numpy as np
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


def main():
    print("one more")
    put(fenced=False)


def fenced():
    put(fenced=True)


def raises(pe):
    shmem.barrier_all()
    if pe == 1:
        raise RuntimeError("no")


def waits():
    word = shmem.zeros(1, np.int64)
    if shmem.my_pe() == 1:
        shmem.wait_until(word, "==", 1)


def either():
    first = shmem.zeros(1, np.int64)
    turn = shmem.atomic_fetch_inc(first, 0)
    if shmem.my_pe() == 1 and turn == 0:
        raise RuntimeError("first")
    assert shmem.my_pe() == 0, "second"


def torn():
    box, flag = shmem.zeros(2, np.int64), shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        shmem.put(box, np.array([3, 4]), 1)
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        got = np.zeros(2, np.int64)
        shmem.get(got, box, 1)
        assert got.tolist() == [3, 4], got.tolist()


def tickets():
    shmem.atomic_fetch_inc(shmem.zeros(1, np.int64), 0)


def pair(a, b): ...
"""


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Runs the command beside `prog.py`: exit code, what it printed, what it said on stderr."""
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM)

    def check(*arguments: str) -> tuple[int, str, str]:
        code = main(["check", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return check


def failures(folder: str = "out") -> list[dict[str, Any]]:
    files = sorted(Path(folder, "failures").iterdir())
    assert all(re.fullmatch(r"[0-9a-f]{8}\.json", file.name) for file in files)
    return [json.loads(file.read_text()) for file in files]


# ---- verdicts ----


def test_a_program_that_can_not_fail(check: Check) -> None:
    code, out, err = check("prog.py::fenced", "--profile", "srd")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == "prog.py::fenced, 2 PEs, profile srd, exhaustive: no failure"
    assert re.fullmatch(r"  all of it: \d+ executions, \d+ states, .*", second)
    assert not Path("out").exists()


ENDED = "has ended its program and waits for the others in finalize"


@pytest.mark.parametrize(
    ("function", "kind", "pe", "text", "row"),
    [
        ("main", "assertion", 1, "AssertionError: too early", "prog.py:14 AssertionError"),
        ("raises", "exception", 1, "RuntimeError: no", "prog.py:29 RuntimeError"),
        ("waits", "deadlock", None, f"PE 0 {ENDED}; PE 1 waits in wait", "prog.py:35 waits in wait"),
    ],
)
def test_a_failure_is_told_and_saved(
    check: Check, function: str, kind: str, pe: int | None, text: str, row: str
) -> None:
    code, out, err = check(f"prog.py::{function}", "-n", "2", "--profile", "srd", "--seed", "5")
    assert (code, err) == (1, "")
    [saved] = failures()
    command = f"shmemu check prog.py::{function} -n 2 --profile srd --replay {saved['token']}"
    expected = {
        "schema": "shmemu-failure/1", "program": f"prog.py::{function}", "n_pes": 2, "profile": "srd",
        "strategy": "exhaustive", "seed": 5, "kind": kind, "pe": pe, "text": text, "command": command,
    }  # fmt: skip
    assert {name: saved[name] for name in expected} == expected
    assert set(saved) == {*expected, "token", "story", "races"}
    assert re.fullmatch(r"s1\.[0-9a-f]{8}\.[\w-]*", saved["token"])
    lines = out.splitlines()
    assert f"{kind}{'' if pe is None else f' of PE {pe}'}: {text}" in lines
    assert saved["story"] in out
    assert row in [line.strip() for line in saved["story"].splitlines()]
    assert f"replay: {command}" in lines
    assert lines[-1].startswith("saved: out/failures/")


def test_main_is_the_default_function(check: Check) -> None:
    assert check("prog.py", "--profile", "srd")[1].startswith("prog.py::main, 2 PEs, profile srd, exhaustive")


def test_the_first_failure_ends_it_unless_told_otherwise(check: Check) -> None:
    assert check("prog.py::either", "--profile", "tso")[0] == 1
    assert len(failures()) == 1
    assert check("prog.py::either", "--profile", "tso", "--keep-going")[0] == 1
    assert {each["kind"] for each in failures()} == {"assertion", "exception"}


def test_the_same_failure_is_the_same_file_and_out_chooses_the_folder(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert check("prog.py", "--profile", "srd", "--out", "here")[0] == 1
    assert len(failures("here")) == 1
    monkeypatch.setenv("SHMEMU_OUT", "there")
    assert check("prog.py", "--profile", "srd")[0] == 1
    assert failures("there") == failures("here")


@pytest.mark.parametrize("strategy", ["eager", "random", "pct", "delay"])
def test_every_strategy_finds_it(check: Check, strategy: str) -> None:
    code, out, _ = check("prog.py", "--profile", "srd", "--strategy", strategy, "--budget", "200")
    assert code == 1
    assert f"profile srd, {strategy}" in out.splitlines()[0]


def test_a_seed_and_a_budget_choose_the_sample(check: Check) -> None:
    def ran(seed: str) -> str:
        options = ["--profile", "srd", "--strategy", "random", "--budget", "1", "--seed", seed]
        return check("prog.py", *options)[1]

    found = ["too early" in ran(str(seed)) for seed in range(12)]
    assert set(found) == {True, False}
    assert ["would have shown" in ran(str(seed)) for seed in range(12)] == [not each for each in found]
    assert found == ["too early" in ran(str(seed)) for seed in range(12)]
    assert "seed 3" in ran("3")
    assert "1 executions" in ran("3")


def test_what_the_program_prints_is_not_shown(check: Check) -> None:
    assert "one more" not in check("prog.py", "--profile", "tso")[1]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--complete"], 0),
        (["--complete", "--max-states", "3"], 3),
        (["--max-states", "3"], 0),
        (["--complete", "--budget", "1"], 3),
        (["--complete", "--strategy", "random", "--budget", "5"], 3),
    ],
)
def test_complete_asks_for_all_of_it(check: Check, options: list[str], code: int) -> None:
    assert check("prog.py::tickets", "-n", "2", "--profile", "openshmem", *options)[0] == code


def test_a_failure_counts_more_than_an_incomplete_search(check: Check) -> None:
    options = ["--profile", "srd", "--strategy", "random", "--complete"]
    assert check("prog.py", *options)[0] == 1


def test_a_program_that_does_something_else_when_run_again_is_a_sentence(check: Check) -> None:
    Path("moody.py").write_text(
        "import shmem\nfrom pathlib import Path\n\ndef main():\n"
        "    if shmem.my_pe() == 0:\n        times = Path('times')\n        n = int(times.read_text())\n"
        "        times.write_text(str(n + 1))\n        for _ in range(n % 3):\n            shmem.barrier_all()\n"
    )
    Path("times").write_text("0")
    code, _, err = check("moody.py", "--strategy", "random", "--budget", "50")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("shmemu: ")
    assert "two runs of the same execution ended differently" in err


def test_twice_makes_every_execution_again(check: Check) -> None:
    Path("later.py").write_text(
        "from pathlib import Path\n\ndef main():\n    with Path('times').open('a') as file:\n        file.write('x')\n"
        "    return Path('times').stat().st_size > 9\n"
    )
    sample = ["later.py", "-n", "1", "--strategy", "random", "--budget", "9"]
    assert check(*sample)[0] == 0
    Path("times").unlink()
    code, _, err = check(*sample, "--twice")
    assert (code, "two runs of the same execution" in err) == (2, True)


# ---- replay ----


@pytest.mark.parametrize("function", ["main", "raises", "waits"])
def test_the_command_that_is_printed_shows_the_failure_again(check: Check, function: str) -> None:
    _, out, _ = check(f"prog.py::{function}", "--profile", "srd")
    [saved] = failures()
    _, _, *words = shlex.split(saved["command"])
    code, again, err = check(*words)
    assert (code, err) == (1, "")
    assert saved["story"] in again
    assert again.splitlines()[-1] == out.splitlines()[-2] == f"replay: {saved['command']}"
    assert len(failures()) == 1


def test_a_saved_failure_needs_no_more_than_its_file(check: Check) -> None:
    check("prog.py", "-n", "2", "--profile", "srd")
    [file] = Path("out/failures").iterdir()
    [saved] = failures()
    code, out, _ = check("--replay", str(file))
    assert code == 1
    assert saved["story"] in out
    assert out.count("one more") == 2  # each PE, once


def test_a_token_is_the_same_in_every_process(check: Check) -> None:
    line = [sys.executable, "-m", "shmem.cli", "check", "prog.py::raises", "--profile", "udma", "--seed", "1"]

    def printed(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60).stdout

    tokens = {re.findall(r"s1\.\S*", printed(seed))[0] for seed in "0123"}
    assert len(tokens) == 1
    assert check("prog.py::raises", "--profile", "udma", "--replay", *tokens)[0] == 1


def test_a_failure_says_what_its_replay_says(check: Check) -> None:
    """Though it was found in a longer execution, with other values."""
    for seed in range(6):
        options = ["--profile", "srd", "--strategy", "pct", "--seed", str(seed), "--out", str(seed)]
        assert check("prog.py::torn", *options)[0] == 1
        [saved] = failures(str(seed))
        again = check("prog.py::torn", "--profile", "srd", "--replay", saved["token"])[1]
        assert f"assertion of PE 1: {saved['text']}\n" in again


def test_an_execution_that_does_not_fail(check: Check) -> None:
    check("prog.py", "--profile", "srd")
    [saved] = failures()
    token = ".".join([*saved["token"].split(".")[:2], ""])  # all in the usual order
    code, out, _ = check("prog.py", "--profile", "srd", "--replay", token)
    assert code == 0
    assert out.splitlines()[-2:] == ["prog.py::main, 2 PEs, profile srd, replay: no failure", "  one execution"]


def test_a_token_of_another_program_profile_or_size_is_refused(check: Check) -> None:
    check("prog.py", "--profile", "srd")
    [saved] = failures()
    again = ["--profile", "srd", "--replay", saved["token"]]
    for words in [["prog.py::fenced", *again], ["prog.py", "-n", "3", *again], ["prog.py", *again[2:]]]:
        code, out, err = check(*words)
        assert (code, out) == (2, "")
        assert err.startswith("shmemu: the token is of the program ")


# ---- wrong use ----

BROKEN = {
    "syntax.py": ("x = 1\nx = = 2\n", "syntax.py:2: SyntaxError: invalid syntax"),
    "gone.py": ("\n\nimport not_there\n", "gone.py:3: ModuleNotFoundError: No module named 'not_there'"),
    "deep.py": ("import json\n\njson.loads('{')\n", "deep.py:3: JSONDecodeError: "),
    "exits.py": ("import sys\nsys.exit(4)\n", "exits.py:2: SystemExit: 4"),
    "starts.py": ("import shmem\nshmem.barrier_all()\n", "starts.py:2: StateError: on the fabric sim one process"),
    "words.txt": ("hello\n", "words.txt is no Python file"),
    "empty.py": ("", "empty.py has no function main: there is none in it"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_can_not_be_loaded(check: Check, name: str) -> None:
    text, says = BROKEN[name]
    Path(name).write_text(text)
    code, out, err = check(name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"shmemu: {says}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a program to check is missing"),
        (["none.py"], "there is no file none.py"),
        (["."], "there is no file ."),
        (["prog.py::none"], "prog.py has no function none: it has put, main, fenced, raises, waits, "),
        (["prog.py::np"], "prog.py has no function np"),
        (["prog.py::pair"], "pair(a, b) takes neither nothing nor the PE"),
        (["prog.py", "-n", "0"], "n_pes=0"),
        (["prog.py", "-n", "two"], "valid int"),
        (["prog.py", "--profile", "nfs"], "no profile 'nfs'"),
        (["prog.py", "--strategy", "luck"], "no strategy 'luck'"),
        (["prog.py", "--budget", "soon"], "budget='soon'"),
        (["prog.py", "--replay", "AAQB"], "'AAQB' is no token"),
        (["prog.py", "--replay", "none.json"], "none.json can't be read"),
        (["--replay", "prog.py"], "prog.py is no saved failure"),
        (["--replay", "else.json"], "not found by shmemu check: run pytest test_x.py --shmem-replay s1.0.A"),
        (["prog.py", "--profile", "srd", "--out", "prog.py"], "the failure can't be saved in prog.py/failures"),
    ],
)
def test_wrong_use_is_a_sentence(check: Check, words: list[str], says: str) -> None:
    other = {"program": "test_x.py", "n_pes": 2, "profile": "srd", "kind": "assertion", "token": "s1.0.A"}
    command = "pytest test_x.py --shmem-replay s1.0.A"
    Path("else.json").write_text(json.dumps({"schema": "shmemu-failure/1", **other, "command": command}))
    code, _, err = check(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("shmemu: ")
    assert says in err


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"schema": "shmemu-failure/1"}', "/2", "token", "program"])
def test_a_file_of_another_kind_is_no_saved_failure(check: Check, text: str) -> None:
    check("prog.py", "--profile", "srd")
    if text == "/2":
        text = json.dumps({**failures()[0], "schema": "shmemu-failure/2"})
    elif text.isalpha() and text != "null":
        text = json.dumps({**failures()[0], text: 7})
    Path("x.json").write_text(text)
    code, _, err = check("--replay", "x.json")
    assert code == 2
    assert "x.json is no saved failure" in err


def test_a_failure_is_written_whole_or_not_at_all(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    code, out, err = check("prog.py", "--profile", "srd")
    assert code == 2
    assert "AssertionError: too early" in out
    assert "No space left on device" in err
    assert list(Path("out/failures").iterdir()) == []
