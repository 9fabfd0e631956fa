"""The timeline of an execution: a sound trace file, in which everything that happened is found once."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import shmem
import shmem.trace
from shmem.check import tokens
from shmem.check.executions import follow
from shmem.check.exploration import explore, prepare, replay
from shmem.check.surroundings import live
from shmem.cli import main
from shmem.delivery.profiles import varied
from shmem.delivery.requests import Event
from shmem.errors import ArgumentError

from ..trace_files import check, slices
from .planted import PLANTED
from .planted_tokens import saved


@pytest.mark.parametrize("name", PLANTED)
def test_all_that_happened_is_there(name: str, tmp_path: Path) -> None:
    bug, token = PLANTED[name], saved()[name]
    profile, path = varied(bug.profile, **bug.changes), tmp_path / "a folder" / "out.json"
    report = replay(bug.program, token, bug.pes, profile, args=(False,), trace=path, **bug.options)
    names, rows, whole = check(path)
    moves: list[object] = []
    made = prepare(bug.program, bug.pes, profile, (False,), **bug.options)
    with live(made):
        follow(made, tokens.decode(token), watch=lambda job, move, late: moves.append(move), to_failure=True)[0].close()
    arrived = sum(isinstance(move, Event) for move in moves)
    steps = [step for step in slices(rows, names, "program") if step != "start" and " waits " not in step]
    assert len(slices(rows, names, "memory")) == arrived
    assert len(steps) == len(moves) - arrived
    assert sum(event["ph"] == "s" for events in rows.values() for event in events) == arrived
    times = [event["ts"] for events in rows.values() for event in events if event["ph"] == "B" and event["ts"]
             and " waits " not in event["name"]]  # fmt: skip
    assert sorted(times) == list(range(1, len(moves) + 1))
    assert whole["otherData"]["failure"] == f"{bug.kind}: {report.failures[0].text}"
    assert whole["otherData"]["token"] == token


def late() -> None:
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.p(data, 7, 1)
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


LINES = {text: 1 + i for i, text in enumerate(Path(__file__).read_text().splitlines())}


def line(text: str) -> str:
    return f"test_trace.py:{LINES[f'        {text}']}"


def test_a_failure_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    report = explore(late, 2, varied("openshmem", unit=8), trace=path)
    names, rows, whole = check(path)
    assert list(names.items()) == [((0, 2), "program"), ((0, 3), "memory"), ((1, 4), "program"), ((1, 5), "memory")]
    assert slices(rows, names, "memory") == [f"<- put of PE 0 ({line('shmem.p(flag, 1, 1)')})"]
    waits = line('shmem.wait_until(flag, "==", 1)')
    shown = [name for name in slices(rows, names, "program") if waits in name]
    assert shown == [f"{waits} waits in wait", f"{waits} wait"]
    marks = [(row, e["name"]) for row, events in rows.items() for e in events if e["ph"] == "i"]
    assert marks == [
        ((1, 4), f"{line('assert data[0] == 7')} AssertionError"),
        ((1, 5), f"not arrived: put of PE 0 ({line('shmem.p(data, 7, 1)')})"),
    ]
    [arrow] = [e for e in rows[0, 2] if e["ph"] == "s"]
    [posting] = [e for e in rows[0, 2] if e["ph"] == "B" and e["ts"] == arrow["ts"]]
    assert "barrier" in posting["name"]  # of the second allocation: behind it both puts are posted
    assert whole["otherData"]["token"] == report.failures[0].token


def test_without_a_failure_it_is_the_usual_order(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert explore(late, 2, "tso", trace=path).ok
    names, rows, whole = check(path)
    assert len(slices(rows, names, "memory")) == 2
    assert not [e for events in rows.values() for e in events if e["ph"] == "i"]
    assert whole["otherData"] == {"program": "late", "n_pes": 2, "profile": "tso"}


def stuck() -> None:
    word = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 1:
        shmem.wait_until(word, "==", 1)


def test_a_deadlock_is_drawn_as_waits(tmp_path: Path) -> None:
    explore(stuck, 2, "tso", trace=tmp_path / "out.json")
    _, rows, _ = check(tmp_path / "out.json")
    waits = line('shmem.wait_until(word, "==", 1)')
    last = [[e["name"] for e in rows[row] if e["ph"] == "B"][-1] for row in [(0, 2), (1, 4)]]
    assert last == ["(end) has ended its program and waits for the others in finalize", f"{waits} waits in wait"]


def several() -> None:
    words = shmem.zeros(4, np.uint64)
    shmem.workers(2, lambda i: shmem.p(words[i : i + 1], 5, 1 - shmem.my_pe()))
    shmem.barrier_all()


@pytest.mark.parametrize("profile", ["openshmem", "rc_strict", "tso"])
def test_workers_have_rows(profile: str, tmp_path: Path) -> None:
    explore(several, 2, varied(profile, unit=8), "random", budget=1, trace=tmp_path / "out.json")
    names, rows, _ = check(tmp_path / "out.json")
    assert Counter(names.values()) == {"program": 2, "memory": 2, "worker 1": 2, "worker 2": 2}
    workers = [row for row in names if names[row].startswith("worker")]
    assert sum(e["ph"] == "s" for row in workers for e in rows[row]) >= 4


def test_the_command_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.py").write_text("import shmem\n\ndef main():\n    shmem.barrier_all()\n    assert shmem.my_pe()\n")
    assert main(["check", "one.py", "--trace", "a/out.json"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "trace: a/out.json"
    first = check(Path("a/out.json"))[2]
    token = first["otherData"]["token"]
    assert main(["check", "one.py", "--replay", token, "--trace", "again.json"]) == 1
    assert check(Path("again.json"))[2]["traceEvents"] == first["traceEvents"]


@pytest.mark.parametrize("where", ["a folder", "a file/out.json"])
def test_a_trace_that_can_not_be_written_is_refused_before_the_search(where: str, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a file").write_text("")
    runs: list[int] = []
    with pytest.raises(ArgumentError, match="the trace can't be written"):
        explore(lambda: runs.append(1), 1, trace=tmp_path / where)
    assert not runs


def test_the_trace_package_knows_nothing_above_it() -> None:
    for file in Path(shmem.trace.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert (node.level, node.module) in {(1, "timeline"), (2, "files")}, file
            elif isinstance(node, ast.ImportFrom):
                assert not str(node.module).startswith("shmem"), file


def test_a_faulty_trace_is_seen(tmp_path: Path) -> None:
    """The checker itself: each kind of event taken away, and times turned round."""
    path = tmp_path / "out.json"
    explore(late, 2, "tso", trace=path)
    whole = json.loads(path.read_text())
    for phase in ("B", "E", "s", "f", "M"):
        events = [event for event in whole["traceEvents"] if event["name"] != "thread_sort_index"]
        del events[max(i for i, event in enumerate(events) if event["ph"] == phase)]
        path.write_text(json.dumps({**whole, "traceEvents": events}))
        with pytest.raises(AssertionError):
            check(path)
    path.write_text(json.dumps({**whole, "traceEvents": whole["traceEvents"][::-1]}))
    with pytest.raises(AssertionError):
        check(path)
