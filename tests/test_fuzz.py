"""`shmemu fuzz` on real jobs: faults in `tests/fuzzed` are found, their repaired twins pass, and what is told is so."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shmem._native import _core
from shmem.check.fuzz import command, runs
from shmem.check.fuzz.found import Failure
from shmem.check.fuzz.runs import Bar, Plan, Run
from shmem.check.fuzz.twin import look
from shmem.cli import main
from shmem.fabric.nic.counts import Counts, ask, told
from tests.launcher.cells import FULL

FAULTS = {"flag_without_fence": "fenced", "source_reused": "quiet", "other_context": "own"}
PROGRAMS = Path(__file__).parent / "fuzzed"
DEADLINE_S = 60.0
ORDERS = re.compile(
    r"^  (\d+) runs?, (\d+)(?: different)? orders? of events: (\d+) requests and (\d+) events", re.MULTILINE
)

Fuzz = Callable[..., tuple[int, str]]


@pytest.fixture
def fuzz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fuzz:
    """The command on 2 PEs; a failure is looked at only shortly. Its exit code and what it printed."""
    monkeypatch.setattr(command, "AGAIN", 1)
    monkeypatch.chdir(tmp_path)

    def call(program: str, *words: object) -> tuple[int, str]:
        (tmp_path / "prog.py").write_text(program)
        code = main(["fuzz", "-n", "2", "--budget", "50", "--minutes", "1", *map(str, words)])
        return code, capsys.readouterr().out

    return call


def fault(name: str) -> str:
    """The text of a program."""
    return (PROGRAMS / f"{name}.py").read_text()


@pytest.mark.parametrize(("name", "seed"), [("flag_without_fence", 1), ("source_reused", 1), ("other_context", 1)])
def test_a_fault_is_found_and_its_replay_on_sim_fails_the_same(
    name: str, seed: int, fuzz: Fuzz, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = fuzz(fault(name), "--seed", seed, "prog.py")
    assert code == 1
    [found] = re.findall(r"^assertion of PE (\d): (AssertionError: .*)$", said, re.MULTILINE)
    assert f"PE {found[0]}: {found[1]}\n" in said  # as the run printed it
    [(text, replay)] = re.findall(
        r"^on sim: assertion: (.*) \(\w+, \d+ executions.*\)\n  replay: (.*)$", said, re.MULTILINE
    )
    assert main(shlex.split(replay)[1:]) == 1
    assert text in capsys.readouterr().out
    assert re.search(
        r"^again: [01] of 1 runs with this seed fail \((0|100) %\), in 1 order of events", said, re.MULTILINE
    )
    assert "without a seed, where all arrives at once: no failure\n" in said


@pytest.mark.parametrize("name", FAULTS)
def test_the_repaired_program_passes_in_different_orders(name: str, fuzz: Fuzz) -> None:
    seeds = 3 if FULL else 2
    code, said = fuzz(fault(name), "--seed", 1, "--seeds", seeds, "prog.py", FAULTS[name])
    assert code == 0
    [(n, orders, _, _)] = ORDERS.findall(said)
    assert (n, orders) == (str(seeds), str(seeds))  # a put of so many bytes can arrive in thousands of ways
    assert not Path("out").exists()


ONE_BY_ONE = """\
import numpy as np, shmem
word = shmem.zeros(1, np.int64)
for i in range(20):
    shmem.atomic_fetch_add(word, 1, 1 - shmem.my_pe())
    shmem.g(word, 1 - shmem.my_pe())
shmem.barrier_all()
assert word[0] == 20
shmem.finalize()
"""


def test_where_nothing_can_change_places_there_is_one_order(fuzz: Fuzz) -> None:
    """Whatever the seed, and however long each process takes. Both PEs post 40 requests; a fetch and a get are two
    events each: it is placed, and its result lands."""
    code, said = fuzz(ONE_BY_ONE, "--seeds", 2, "--profile", "udma", "prog.py")
    assert code == 0
    assert ORDERS.findall(said) == [("2", "1", "80", "160")]
    assert ", 0 % of the requests passed an earlier one\n  the seeds change nothing: " in said


def test_a_failure_is_a_file(fuzz: Fuzz) -> None:
    code, said = fuzz(fault("source_reused"), "--seed", 7, "--out", "there", "prog.py", "x", "y z")
    assert code == 1
    [sim] = re.findall(
        r"^on sim: (PE 1: AssertionError: .*) \(random, seeds? 7.*\)\n  replay: .* prog.py x 'y z'$", said, re.M
    )
    [name] = re.findall(r"^saved: (.*)$", said, re.MULTILINE)
    data = json.loads(Path(name).read_text())
    given = {"schema": "shmemu-failure/1", "program": "prog.py", "arguments": ["x", "y z"], "n_pes": 2, "exit_code": 1}
    assert {key: data[key] for key in given} == given
    assert (data["profile"], data["seed"], data["kind"], data["pe"]) == ("openshmem", 7, "assertion", 1)
    assert data["command"] == "shmemu run -n 2 --fabric nic --profile openshmem --seed 7 prog.py x 'y z'"
    assert data["text"] in data["output"]
    first, second = data["adapters"]
    assert data["sim"]["failure"] == sim
    assert first["requests"] == 4 < first["events"]  # four puts; and PE 1 posts nothing
    assert first["seed"] == int(np.random.SeedSequence([7, 0]).generate_state(1, np.uint64)[0])
    assert (second["pe"], second["events"], int(second["drawn"], 16)) == (1, 0, 0)
    assert main(["check", "--replay", name]) == 2  # it is none of that command


def test_a_wait_without_end_is_a_deadlock(fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "AGAIN", 0)
    program = "import shmem\nword = shmem.zeros(1, int)\nshmem.wait_until(word, '==', 1)\n"
    code, said = fuzz(program, "--timeout", 3, "--seeds", 3, "prog.py")
    assert code == 1
    assert re.search(r"^seed \d+ fails, ", said, re.MULTILINE)
    assert re.search(r"^deadlock of PE [01]: shmem\.errors\.ShmemTimeout: ", said, re.MULTILINE)
    assert "without a seed, where all arrives at once: it fails, too\n" in said


def test_a_run_without_end_is_ended(fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "AGAIN", 0)
    monkeypatch.setattr(runs, "GRACE_S", 0.5)
    monkeypatch.setattr(command, "look", lambda *_: None)
    code, said = fuzz("import shmem, time\nshmem.init()\nwhile True:\n    time.sleep(1)\n", "--timeout", 1, "prog.py")
    assert code == 1
    assert "\ndeadlock: the job did not end within 1.5 s and was ended\n" in said
    assert "\n  exit code 124; events drawn: " in said


KILLED = """\
import os, signal, shmem
words = shmem.zeros(3, int)
if shmem.my_pe() == 1:
    for i in range(3):
        shmem.p(words[i : i + 1], 1, 0)
    shmem.quiet()
    os.kill(os.getpid(), signal.SIGKILL)
shmem.barrier_all()
"""


def test_what_was_drawn_is_known_also_of_a_pe_that_was_killed(fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "AGAIN", 0)
    monkeypatch.setattr(command, "look", lambda *_: None)
    code, said = fuzz(KILLED, "--profile", "udma", "prog.py")
    assert code == 1
    assert "\n  1 run, 1 order of events: " in said  # the first failure ends it
    [process] = re.findall(r"^exception: PE 1 \(process (\d+)\) was killed by SIGKILL$", said, re.MULTILINE)
    assert re.search(r"^  exit code 137; events drawn: PE 0 0 \(0{16}\), PE 1 [3-9] \((?!0{16})", said, re.MULTILINE)
    [saved] = Path("out/failures").iterdir()
    assert f"(process {process}) was killed" in saved.read_text()


def test_a_program_without_shmem_is_told(fuzz: Fuzz) -> None:
    code, said = fuzz("print('nothing of this is shown')\n", "--seeds", 1, "prog.py")
    assert (code, said.count("\n")) == (0, 3)
    assert "no adapter did anything: the program does not start shmem, or not on nic\n" in said


WAITS = """\
import shmem
word = shmem.zeros(1, int)
if shmem.my_pe() == 0:
    open("up", "w").close()
shmem.wait_until(word, "==", 1)
"""


def test_an_interrupt_ends_it_and_tells_how_far_it_was(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(WAITS)
    os.mkfifo(tmp_path / "up")
    line = [sys.executable, "-m", "shmem.cli", "fuzz", "prog.py", "-n", "2"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SHMEMU_")}
    with subprocess.Popen(
        line, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        open(tmp_path / "up").close()  # when PE 0 is there
        job.send_signal(signal.SIGINT)
        try:
            out, err = job.communicate(timeout=DEADLINE_S)
        finally:
            job.kill()
    assert job.returncode == 130, err
    assert re.fullmatch(
        r"prog.py, 2 PEs, profile openshmem, nic: seeds from \d+ on\n"
        r"ended by SIGINT in \d+\.\d s, no failure until then\n  no run has ended\n",
        out,
    )
    assert re.fullmatch(r"fuzz 0% seeds 0, orders 0\n", err)


def test_on_sim_a_program_with_arguments_runs_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prog.py"
    path.write_text(fault("flag_without_fence"))
    unfenced, fenced = (Plan((str(path), word), 2, "openshmem") for word in ("unfenced", "fenced"))
    seen = look(unfenced, 0, "50", Bar(None))
    assert seen.text.startswith("PE 1: AssertionError: ")
    assert capfd.readouterr() == ("", "")
    assert main(shlex.split(seen.command)[1:]) == 1
    assert f"\n{seen.text}\n" in capfd.readouterr().err
    assert (look(fenced, 5, "50", Bar(None)).text, look(fenced, 5, "3", Bar(None)).looked) == (
        "",
        "random, seeds 5 to 7",
    )


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["prog.py", "-n", "4", "--seed", "1"], ("prog.py",)),
        (["-n4", "--seed=1", "prog.py", "8", "--seed", "3"], ("prog.py", "8", "--seed", "3")),
        (["prog.py", "-n", "4", "--seed", "1", "--", "--seed", "3", "--"], ("prog.py", "--seed", "3", "--")),
        (["--seed", "1", "prog.py", "--pes=4", "--size", "-n", "2"], ("prog.py", "--size", "-n", "2")),
        (["-m", "this", "--pes", "4", "--seed", "1", "x"], ("-m", "this", "x")),
    ],
    ids=str,
)
def test_options_stand_before_the_program_or_right_behind_it(
    words: list[str], argv: tuple[str, ...], fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Plan] = []

    def campaign(plan: Plan, *_: object) -> Run:
        seen.append(plan)
        return Run(1, 0, None, "", {})

    (tmp_path / "prog.py").touch()
    monkeypatch.setattr(command, "_campaign", campaign)
    assert main(["fuzz", *words]) == 0
    assert [(plan.argv, plan.n, plan.first) for plan in seen] == [(argv, 4, 1)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "a program to run is missing"),
        (["none.py"], "there is no program none.py"),
        (["-m", "no_such_module"], "there is no module no_such_module"),
        (["bad.py"], "bad.py:1: SyntaxError: "),
        (["prog.py", "--profile", "mine"], "mine"),
        (["prog.py", "-n", "0"], "--pes"),
        (["prog.py", "--seeds", "0"], "--seeds"),
        (["prog.py", "--seed", "-1"], "--seed"),
        (["prog.py", "--timeout", "0"], "a timeout is a number of seconds above 0"),
        (["prog.py", "--minutes", "0"], "--minutes"),
        (["prog.py", "--budget", "soon"], "budget='soon'"),
    ],
    ids=str,
)
def test_wrong_use_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "_campaign", None)
    (tmp_path / "prog.py").touch()
    (tmp_path / "bad.py").write_text("def")
    assert main(["fuzz", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"shmemu: [^\n]+\n", err)
    assert sentence in err


def test_the_counts_in_a_file_are_those_of_the_core(tmp_path: Path) -> None:
    fields = _core.ffi.typeof("sm_nic_counts").fields
    assert [name for name, _ in fields] == list(Counts.__dataclass_fields__)
    ask(tmp_path, 2)
    assert told(tmp_path, 2) == {}  # no adapter was opened
    at = _core.lib.sm_nic_counts_at(bytes(tmp_path / "counts.1"))
    for i, (name, _) in enumerate(fields):
        setattr(at, name, (1 << 60) + i)
    assert told(tmp_path, 2) == {1: Counts(*((1 << 60) + i for i in range(7)))}
    assert _core.lib.sm_nic_counts_at(bytes(tmp_path / "counts.2")) == _core.ffi.NULL
    (tmp_path / "counts.3").write_bytes(struct.pack("=6Q", *range(6)))
    assert _core.lib.sm_nic_counts_at(bytes(tmp_path / "counts.3")) == _core.ffi.NULL  # too short


def test_elsewhere_than_on_a_terminal_the_bar_is_a_line_for_each_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    bar = Bar(stream := io.StringIO())
    for i in range(100):
        now[0] += 5
        bar.say("fuzz", i / 100, f"{i} seeds")
        bar.poll()
    bar.say("again")
    assert (
        stream.getvalue()
        == "fuzz 0 seeds\n" + "".join(f"fuzz {i}% {i} seeds\n" for i in range(10, 100, 10)) + "again\n"
    )


@pytest.mark.parametrize(
    ("output", "code", "kind", "pe", "text"),
    [
        ("PE 1: ready\nPE 2: Traceback (most recent call last):\nPE 2:   File\nPE 2: a.B: it: is\nPE 0: C: no\n", 1,
         "exception", 2, "a.B: it: is"),
        ("x\nshmemu: PE 1 (process 5) was killed by SIGSEGV\n", 139,
         "exception", None, "PE 1 (process 5) was killed by SIGSEGV"),
        ("PE 0: Traceback (most recent call last):\nPE 0: AssertionError\n", 1, "assertion", 0, "AssertionError"),
        ("", 3, "exception", None, "exit code 3"),
    ],
)  # fmt: skip
def test_what_failed_is_read_from_what_was_printed(
    output: str, code: int, kind: str, pe: int | None, text: str
) -> None:
    failure = Failure(Plan(("prog.py",), 2, "openshmem"), Run(1, code, None, output, {}))
    assert (failure.kind, failure.pe, failure.text) == (kind, pe, text)


def lasting(text: str) -> str:
    """What was printed, without numbers, hashes, choices, and what the run had printed."""
    text = re.sub(r"(?<=\n)    .*\n", "", text)
    text = re.sub(r"  what the processes do when .*\n", "", text)
    text = re.sub(r"\bs1\.\w+\.[\w-]+|\b[0-9a-f]{8,16}\b|\d+(\.\d+)?", "N", text)
    text = re.sub(r"N runs?|N different orders|N orders?", "MANY", text)
    return re.sub(r"\[N(, N)*\]", "[N]", text)


def test_the_page_tells_what_is_printed(fuzz: Fuzz) -> None:
    page = (Path(__file__).parents[1] / "docs" / "fuzzing.md").read_text()
    [(program, words, expected)] = re.findall(
        r"^```python\n# prog\.py\n(.*?)^```$.*?^```\n\$ shmemu fuzz (.*?)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    code, said = fuzz(program, *shlex.split(words))
    assert code == 1
    assert lasting(said) == lasting(expected)
    assert len(expected.splitlines()) > 15
