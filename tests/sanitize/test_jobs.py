"""Recorded runs: how they are started, what ends them early, what their files may lack."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from shmem import launch
from shmem.check.exploration import explore
from shmem.check.loading import load
from shmem.sanitize.judging import judged, runs
from shmem.sanitize.stream import HEAD, Frame
from tests.check.test_check_docs import blocks

from .jobs import SHMEMU, Ended, command, pairs, race, recorded, written

TWOBOX = """\
import numpy as np
import shmem


def main():
    box, flag = shmem.zeros(2, np.int64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.put(box, np.array([3, 4]), 1)
        shmem.atomic_set(flag, 1, 1)
    elif shmem.my_pe() == 1:
        shmem.wait_until(flag, "==", 1)
        print(box[0])


if __name__ == "__main__":
    main()
"""
REPORT = """\
{folder}, 2 PEs, lenient: 19 events
race of PE 1: put (PE 0, twobox.py:8) and load (PE 1, twobox.py:12): bytes 0x0..0x8 of PE 1: no fence or quiet between
    0x0: zeros((2,), int64) at twobox.py:6
"""


@pytest.fixture(scope="module")
def twobox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of streams of a racy run."""
    folder = tmp_path_factory.mktemp("twobox")
    done = recorded(folder / "streams", 2, written(folder, "twobox.py", TWOBOX))
    assert (done.code, done.out) == (0, "3\n"), done.err
    return folder / "streams"


def test_a_race_is_told_as_by_the_search(twobox: Path) -> None:
    done = race(twobox)
    assert (done.code, done.out, done.err) == (1, REPORT.format(folder=twobox), "")
    searched = explore(load(f"{twobox.parent / 'twobox.py'}::main"), 2, "tso", races="lenient")
    line = next(line for line in done.out.splitlines() if line.startswith("race"))
    assert [f"race of PE 1: {failure.text}".split(";")[0] for failure in searched.failures] == [line]


def test_mpiexec_starts_a_recorded_run_as_well(tmp_path: Path) -> None:
    set_flag = "        shmem.atomic_set"
    program = written(tmp_path, "twobox.py", TWOBOX.replace(set_flag, f"        shmem.fence()\n{set_flag}"))
    folder = tmp_path / "new" / "streams"
    line = launch.command(2, [sys.executable, str(program)])
    done = command(*line, **launch.environment(2), SHMEMU_SANITIZE=str(folder))
    assert (done.code, done.out) == (0, "3\n"), done.err
    assert race(folder, "--strict").code == 0


def test_the_page_shows_what_a_real_run_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, code), *_, (_, session) = blocks("docs/races.md")
    written(tmp_path, "twobox.py", code)
    monkeypatch.chdir(tmp_path)
    shown = []
    for line in session.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line[2:])
            told = {word.split("=")[0]: word.split("=")[1] for word in words if "=" in word}
            rest = [word for word in words if "=" not in word]
            assert rest[0] == "shmemu"
            done = command(*SHMEMU, *rest[1:], **told)
            shown += [line, *done.out.splitlines()]
    assert shown == session.splitlines()


def test_plain_runs_know_nothing_of_it(tmp_path: Path) -> None:
    program = written(tmp_path, "plain.py", PLAIN)
    assert command(sys.executable, program).code == 0
    assert command(sys.executable, program, SHMEMU_SANITIZE=str(tmp_path / "s")).code == 1


PLAIN = """\
import sys
import numpy as np
import shmem
from shmem.runtime import current

x = shmem.zeros(1)
right = type(x) is np.ndarray and type(current().fabric).__name__ == "DirectFabric"
sys.exit(not right or any(name.startswith("shmem.sanitize") for name in sys.modules))
"""

# ---- what the files may lack ----


def sentence(done: Ended) -> str:
    """The one line of an error of use."""
    assert (done.code, done.out) == (2, ""), done
    assert done.err.startswith("shmemu: ")
    assert done.err.count("\n") == 1
    return done.err


def test_no_streams_are_said_in_a_sentence(tmp_path: Path) -> None:
    assert "No such file" in sentence(race(tmp_path / "none"))
    assert f"run the program with SHMEMU_SANITIZE={tmp_path}" in sentence(race(tmp_path))


@pytest.fixture
def streams(twobox: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(twobox, tmp_path / "streams"))


def test_a_missing_stream_is_said_in_a_sentence(streams: Path) -> None:
    (streams / "pe-1.stream").unlink()
    assert "no stream of PE 1 of 2" in sentence(race(streams))


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b'{"schema":"shmemu-race/1","pe":7}\n', b"\xff" * 4000])
def test_a_file_that_is_no_stream_is_said_in_a_sentence(streams: Path, data: bytes) -> None:
    (streams / "pe-1.stream").write_bytes(data)
    assert "pe-1.stream is no stream of accesses" in sentence(race(streams))


def test_a_damaged_frame_is_said_in_a_sentence(streams: Path) -> None:
    path = streams / "pe-1.stream"
    data = bytearray(path.read_bytes())
    data[data.index(b"\n") + 1] = 99
    path.write_bytes(data)
    assert "frames of kind 99 do not exist" in sentence(race(streams))
    data[data.index(b"\n") + 1] = Frame.RELEASE  # of a text, whose number is no text
    path.write_bytes(data)
    assert "a frame can't be read" in sentence(race(streams))


def test_streams_of_different_runs_are_refused(streams: Path) -> None:
    path = streams / "pe-1.stream"
    head, rest = path.read_bytes().split(b"\n", 1)
    about = json.loads(head)
    path.write_bytes(head.replace(about["run"].encode(), b"0" * 16) + b"\n" + rest)
    assert "are of different runs" in sentence(race(streams))
    (streams / "pe-1.stream").write_bytes((streams / "pe-0.stream").read_bytes())
    assert "is the stream of PE 0" in sentence(race(streams))


def test_a_stream_is_read_up_to_its_last_whole_event(streams: Path) -> None:
    path = streams / "pe-1.stream"
    data = path.read_bytes()
    ends, at = [], data.index(b"\n") + 1
    while at < len(data):
        at += HEAD.size + HEAD.unpack_from(data, at)[3]
        ends.append(at)
    counts = []
    for end in (*ends[:-1], *(end - 1 for end in ends[:-1])):
        path.write_bytes(data[:end])
        found = judged(runs(str(streams))[0], "lenient")
        assert found.cut == [1]
        counts.append(found.events)
    half = len(counts) // 2
    assert counts[half + 1 :] == counts[: half - 1], "a frame without its last byte is none"
    assert len(set(counts)) > 5
    path.write_bytes(data[:-1])  # of the frame that says that all is there
    assert "PE 1 did not end: its stream is judged as far as it goes" in race(streams).out


def test_a_later_run_replaces_the_streams_of_a_larger_one(streams: Path, tmp_path: Path) -> None:
    done = recorded(streams, 1, written(tmp_path, "one.py", "import shmem\nshmem.init()\n"))
    assert done.code == 0, done.err
    assert sorted(path.name for path in streams.iterdir()) == ["pe-0.stream"]
    assert race(streams).code == 0


def test_a_folder_that_can_not_be_is_an_error_on_every_pe(tmp_path: Path) -> None:
    file = written(tmp_path, "file", "")
    done = recorded(file, 2, written(tmp_path, "one.py", "import shmem\nshmem.init()\n"))
    assert done.code != 0
    assert "no stream can be written there" in done.err


def test_a_run_of_which_one_pe_is_recorded_is_refused(tmp_path: Path) -> None:
    program = written(tmp_path, "one.py", ONE)
    done = recorded(tmp_path / "s", 2, program)
    assert done.code != 0
    assert "the PEs started differently" in done.err


ONE = """\
import os
from shmem.rank import number

if number() == 1:
    del os.environ["SHMEMU_SANITIZE"]
import shmem

shmem.init()
"""

# ---- processes that are killed ----

KILLED = """\
import os, signal
import numpy as np
import shmem

x = shmem.zeros(1, np.int64)
if shmem.my_pe() == 0:
    shmem.put(x, np.ones(1, np.int64), 1)
    shmem.barrier_all()
    shmem.put(x, np.ones(1, np.int64), 1)
    os.kill(os.getpid(), signal.SIGKILL)
shmem.barrier_all()
x[0] = 2
shmem.barrier_all()
"""


def test_a_pe_that_is_killed_has_lost_nothing(tmp_path: Path) -> None:
    done = recorded(tmp_path / "s", 2, written(tmp_path, "killed.py", KILLED))
    assert done.code != 0
    found = race(tmp_path / "s")
    assert found.code == 1, found.out
    assert "PE 0 did not end" in found.out
    assert "PE 1 did not end" in found.out
    assert pairs(found.out, "killed.py") == {(9, 12)}
