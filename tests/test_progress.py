"""Progress: what a rank writes, what the launcher draws on a terminal and elsewhere, and that it leaves nothing.

The terminal is a pseudo one; what it would show is worked out from the bytes by `screen`.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shmem import launch
from shmem.progress import Drawing, Progress

DEADLINE_S = 60.0
SHMEMU = [sys.executable, "-m", "shmem.cli"]
PROGRAM = """\
import sys
from shmem import launch
from shmem.progress import Progress
progress = Progress(total=4)
progress.now("exchange")
progress.advance(2)
print("half a line", end="", flush=True)
sys.stdin.readline()  # until the test has seen the line
print(" and its end", flush=True)
sys.stdin.readline()  # until the test has seen the bar
progress.close()
print("done", flush=True)
"""


@pytest.fixture
def status(tmp_path: Path) -> Path:
    return tmp_path / "status"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SHMEMU_STATUS_FILE", "CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_pe_0_writes_a_whole_file_and_takes_it_away(status: Path) -> None:
    progress = Progress(4, status)
    progress.now("exchange", "round 1")
    assert json.loads(status.read_text()) == {"phase": "exchange", "done": 0, "total": 4, "text": "round 1"}
    assert [path.name for path in status.parent.iterdir()] == ["status"]
    progress.close()
    progress.advance()
    assert not status.exists()


def test_steps_are_counted_between_writes(status: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = Progress(40, status)
    progress.now("exchange")
    for _ in range(7):
        progress.advance()
    assert json.loads(status.read_text())["done"] == 0  # at most ten writes a second
    now[0] += 0.11
    progress.advance()
    assert json.loads(status.read_text())["done"] == 8
    progress.now("combine")
    assert json.loads(status.read_text())["phase"] == "combine"  # a phase may be long: at once
    progress.now("exchange")
    now[0] += 0.11
    progress.update(total=80, text="more")
    assert json.loads(status.read_text()) == {"phase": "exchange", "done": 8, "total": 80, "text": "more"}


def test_other_pes_and_lone_processes_write_nothing(status: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Progress(4).now("exchange")
    monkeypatch.setenv("PMI_RANK", "1")
    Progress(4, status).now("exchange")
    assert list(status.parent.iterdir()) == []


def test_without_a_terminal_there_are_plain_lines(status: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    progress, drawing = Progress(8, status), Drawing(status, stream)
    drawing.poll()
    for phase in ("embed", "exchange", "combine"):
        progress.now(phase)
        drawing.poll()
        now[0] += 0.6
        progress.advance(2)
        drawing.poll()
        now[0] += 0.6
    progress.close()
    drawing.poll()
    drawing.hide()
    assert stream.getvalue() == "embed 0%\nexchange 25%\ncombine 50%\n"  # one a second


def test_an_unknown_total_shows_the_phase(status: Path) -> None:
    stream = io.StringIO()
    Progress(0, status).now("exchange", "round 3")
    Drawing(status, stream).poll()
    assert stream.getvalue() == "exchange round 3\n"


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TERM", "dumb"), ("TERM", "")])
def test_ci_and_dumb_terminals_get_plain_lines(
    status: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    master, slave = pty.openpty()
    with open(slave, "w") as terminal:
        assert Drawing(status, terminal).on_terminal
        monkeypatch.setenv(name, value)
        assert not Drawing(status, terminal).on_terminal
    os.close(master)


def screen(data: bytes) -> list[str]:
    """The lines that a terminal shows after these bytes: of control sequences, those that rich uses."""
    lines, row, column = [""], 0, 0
    for control, text in re.findall(r"(\x1b\[[?0-9;]*[A-Za-z]|\r|\n)|([^\x1b\r\n]+)", data.decode(errors="ignore")):
        if control == "\r":
            column = 0
        elif control == "\n":
            row, column = row + 1, column
            lines += [""] * (row + 1 - len(lines))
        elif control.endswith("A"):
            row -= int(control[2:-1] or 1)
        elif control.endswith("K"):
            lines[row] = ""
        else:
            assert not control or control[-1] in "mhl", control
        if text:
            lines[row] = lines[row].ljust(column)[:column] + text + lines[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in lines if line.strip()]


class Terminal:
    """A job whose output is a terminal and whose stdin a pipe."""

    def __init__(self, *command: str, **env: str) -> None:
        self.master, slave = pty.openpty()
        self.seen = b""
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=slave, stderr=slave, env={**os.environ, **env}
        )
        os.close(slave)

    def read_until(self, words: str) -> list[str]:
        """The screen once it shows the words; or at the end, for words that never come."""
        while not any(words in line for line in screen(self.seen)):
            assert select.select([self.master], [], [], DEADLINE_S)[0], screen(self.seen)
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:  # nobody has it open any more
                data = b""
            if not data:
                break
            self.seen += data
        return screen(self.seen)

    def enter(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@pytest.fixture
def start() -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def run(*command: str, **env: str) -> Terminal:
        terminals.append(Terminal(*command, **env))
        return terminals[-1]

    yield run
    for terminal in terminals:  # also after a failure
        terminal.process.terminate()
        terminal.process.wait(DEADLINE_S)
        os.close(terminal.master)


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_on_a_terminal_the_bar_and_the_output_keep_apart(
    tmp_path: Path, env: dict[str, str], start: Callable[..., Terminal]
) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM)
    terminal = start(*SHMEMU, "run", "-n", "1", str(tmp_path / "prog.py"), **env)
    if launch.find().kind == "mpich":  # Open MPI passes on whole lines only
        assert terminal.read_until("half a line")[-1] == "half a line"  # no bar in the middle of a line
    terminal.enter()
    line, bar = terminal.read_until("exchange")[-2:]
    assert line == "half a line and its end"
    assert bar.startswith("exchange")
    terminal.enter()
    assert terminal.read_until("never") == ["half a line and its end", "done"]
    assert terminal.process.wait() == 0
    colours = re.findall(rb"\x1b\[[0-9;]*m", terminal.seen)
    assert not [code for code in colours if re.search(rb"[39]\d", code)] if env else colours
