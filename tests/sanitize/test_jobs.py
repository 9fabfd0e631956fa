"""Recorded runs: how they are started, what ends them early, what their files may lack."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from shmem import launch
from shmem.check.exploration import explore
from shmem.check.loading import load
from shmem.check.races.judge import Judge
from shmem.records import Amo, Op
from shmem.sanitize import judging
from shmem.sanitize.judging import judged, runs
from shmem.sanitize.reading import landings, records
from shmem.sanitize.stream import HEAD, Frame
from tests.check.test_check_docs import blocks
from tests.launcher.cells import FULL

from .jobs import FABRICS, SHMEMU, Ended, command, on_each, on_each_in_full, pairs, race, recorded

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


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


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


# ---- what PEs do besides ----

BESIDES = """\
import numpy as np
import shmem

me, n = shmem.my_pe(), shmem.n_pes()
x, y, f = shmem.zeros(4, np.int64), shmem.zeros(4, np.int64), shmem.zeros(4, np.uint64)
source = np.arange(4) + me
with shmem.Stream() as stream:
    batch = shmem.Batch()
    batch.put(x, source, (me + 1) % n)
    batch.fence()
    batch.atomic_add(f, 0, 1, (me + 1) % n)
    batch.wait(f[:1], "==", 1)
    event = batch.launch(stream)
    event.wait()
    assert np.array_equal(x, np.arange(4) + (me - 1) % n)


def work(i):
    shmem.put(y[i : i + 1], source[i : i + 1], (me + 1) % n)
    shmem.quiet()
    shmem.atomic_add(f[1:2], 1, (me + 1) % n)


shmem.workers(4, work)
shmem.wait_until(f[1:2], "==", 4)
assert np.array_equal(y, np.arange(4) + (me - 1) % n)
total = shmem.zeros(4, np.int64)
shmem.sum_reduce(total, y)
assert np.array_equal(total, n * np.arange(4) + sum(range(n)))
shmem.ptr(x, (me + 1) % n)[...] = 5
shmem.barrier_all()
assert (x == 5).all()
shmem.finalize()
"""


@on_each
def test_streams_workers_collectives_and_views_of_peers(tmp_path: Path, fabric: dict[str, str]) -> None:
    """What a batch does is told by the line that launched it."""
    program = written(tmp_path, "besides.py", BESIDES)
    done = recorded(tmp_path / "s", 3, program, **fabric)
    assert done.code == 0, done.err
    assert race(tmp_path / "s").code == 0
    late = "    batch.put(x, source, (me + 1) % n), batch.wait("  # nothing tells of that put
    program.write_text(BESIDES.replace("    batch.wait(", late))
    done = recorded(tmp_path / "s", 3, program, **fabric)
    assert done.code == 0, done.err
    assert pairs(race(tmp_path / "s").out, "besides.py") == {(13, 15)}


# ---- times ----

COUNTED = """\
import sys
import numpy as np
import shmem

count = shmem.zeros(1, np.int64)
old = [shmem.atomic_fetch_inc(count, 0) for _ in range(300)]
np.save(f"{sys.argv[1]}/old-{shmem.my_pe()}.npy", np.array(old))
"""


@on_each
def test_times_are_in_the_order_in_which_a_word_changed(tmp_path: Path, fabric: dict[str, str]) -> None:
    done = recorded(tmp_path / "s", 3, written(tmp_path, "counted.py", COUNTED), tmp_path, **fabric)
    assert done.code == 0, done.err
    seen = []
    for reader in runs(str(tmp_path / "s"))[0]:
        landed = {each.number: each.time for each in landings(reader)}
        times = [
            landed[op["id"]] if op["id"] else time
            for frame in reader.frames()
            if frame.kind is Frame.RECORDS
            for time, op in zip(*records(frame.payload), strict=True)
            if op["op"] == Op.AMO and op["flags"] == Amo.ADD
        ]
        seen += zip(times, np.load(tmp_path / f"old-{reader.pe}.npy").tolist(), strict=True)
    assert [old for _, old in sorted(seen)] == list(range(900))
    assert len({time for time, _ in seen}) == 900
    assert bool(landed) == bool(fabric)


BUSY = """\
import numpy as np
import shmem

me, last = shmem.my_pe(), shmem.n_pes() - 1
x, y, z, done = [shmem.zeros(1, np.int64) for _ in range(4)]
count, signal, lock, one = shmem.zeros(1, np.int64), shmem.new_signal(), shmem.new_lock(), np.ones(1, np.int64)
pair = shmem.team_from_pes([last, 0])


def busy():
    for _ in range(50):
        shmem.atomic_inc(count, 1)


if me == last:
    busy()
    shmem.put(x, one, 0)
shmem.barrier_all()
assert me or x[0] == 1
if me == last:
    busy()
    shmem.put_signal(y, one, 0, signal, 1, shmem.SIGNAL_SET)
if me == 0:
    shmem.signal_wait_until(signal, "==", 1)
    assert y[0] == 1
if me in (0, last):
    if me:
        busy()
        shmem.put(z, one, 0)
        shmem.quiet()
    shmem.team_sync(pair)
    assert me or z[0] == 1
    if me:
        busy()
    with_lock = 0
    while not with_lock:
        shmem.set_lock(lock)
        if me:
            busy()
            shmem.put(x, one, 0)
            shmem.put(done, one, 0)
        with_lock = me or int(done[0]) * int(x[0])
        shmem.clear_lock(lock)
shmem.finalize()
"""


@pytest.mark.parametrize(("fabric", "n"), [("direct", 2), ("direct", 3), ("nic", 3), ("nic", 2)][: 4 if FULL else 3])
def test_what_a_pe_learns_is_later_than_what_a_busy_one_did(tmp_path: Path, fabric: str, n: int) -> None:
    """The PE that tells has the higher number and the later clock: without the other's time it would come too late."""
    done = recorded(tmp_path / "s", n, written(tmp_path, "busy.py", BUSY), **FABRICS[fabric])
    assert done.code == 0, done.err
    found = race(tmp_path / "s")
    assert found.code == 0, found.out


TAKEN = """\
import numpy as np
import shmem

x, lock, one = shmem.zeros(1, np.int64), shmem.new_lock(), np.ones(1, np.int64)
if shmem.my_pe() == 0:
    shmem.put(x, one, 0)
    shmem.quiet()
    shmem.set_lock(lock)
    shmem.barrier_all()
    shmem.clear_lock(lock)
else:
    while not shmem.test_lock(lock):
        shmem.clear_lock(lock)
    shmem.put(x, one, 0)
    shmem.barrier_all()
shmem.finalize()
"""


RESULT = """\
import sys
import numpy as np
import shmem

early, me = sys.argv[1] == "early", shmem.my_pe()
x, y, a = shmem.full(1, 7, np.int64), shmem.zeros(1, np.int64), np.zeros(1, np.int64)
if me == 0:
    shmem.get_nbi(a, x, 1)
    if early:
        a[0] = 5
    while not early and a[0] != 7:
        pass
    shmem.p(y, 1, 1)
    shmem.quiet()
    assert a[0] == 7
shmem.finalize()
"""


def test_a_result_is_told_from_a_store_of_the_program(tmp_path: Path) -> None:
    """It comes by itself while the program looks for it; where a step of the adapter takes a quiet, it does not."""
    program = written(tmp_path, "result.py", RESULT)
    done = recorded(tmp_path / "s", 2, program, "late", **FABRICS["nic"])
    assert done.code == 0, done.err
    found = race(tmp_path / "s")
    assert found.code == 0, found.out
    done = recorded(tmp_path / "s", 2, program, "early", **FABRICS["nic"], SHMEMU_PROGRESS="manual")
    assert done.code == 0, done.err
    found = race(tmp_path / "s")
    assert pairs(found.out, "result.py") == {(8, 13)}
    assert "get writes its result" in found.out


def test_queue_pairs_are_refused(tmp_path: Path) -> None:
    program = written(tmp_path, "pairs.py", "from shmem import nic\nnic.CompletionQueue(4)\n")
    done = recorded(tmp_path / "s", 2, program, **FABRICS["nic"])
    assert done.code != 0
    assert "StateError: SHMEMU_SANITIZE does not record queue pairs" in done.err


@on_each
def test_a_lock_that_is_not_got_orders_nothing(tmp_path: Path, fabric: dict[str, str]) -> None:
    """Though its words tell that the other has it."""
    done = recorded(tmp_path / "s", 2, written(tmp_path, "taken.py", TAKEN), **fabric)
    assert done.code == 0, done.err
    assert pairs(race(tmp_path / "s").out, "taken.py") == {(6, 14)}


LATE = """\
import contextlib
import numpy as np
import shmem

word, go = shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
if shmem.my_pe():
    with contextlib.suppress(shmem.ShmemTimeout):
        shmem.wait_until(word, "==", 1, timeout=0.01)
    shmem.put(go, np.ones(1, np.int64), 0)
    shmem.wait_until(word, "==", 1)
else:
    while not go[0]:
        shmem.spin()
    shmem.p(word, 1, 1)
shmem.finalize()
"""


def test_what_an_error_says_of_a_word_is_no_load_of_the_program(tmp_path: Path) -> None:
    done = recorded(tmp_path / "s", 2, written(tmp_path, "late.py", LATE))
    assert done.code == 0, done.err
    found = race(tmp_path / "s")
    assert pairs(found.out, "late.py") == {(9, 12)}  # of `go`, which is polled


# ---- long streams ----


LONG = """\
import numpy as np
import shmem

me = shmem.my_pe()
x, y, z, a = shmem.zeros(1, np.int64), shmem.zeros(300, np.int64), shmem.zeros(1, np.int64), np.zeros(1, np.int64)
if me == 0:
    shmem.get(a, x, 1)
for i in range(300):
    y[i] = i
if me == 0:
    shmem.p(z, 1, 1)
else:
    while not z[0]:
        shmem.spin()
    x[0] = 2
shmem.finalize()
"""


def test_what_is_over_is_forgotten_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The get is over for its own PE alone when much else has been done, and the store comes."""
    done = recorded(tmp_path / "s", 2, written(tmp_path, "long.py", LONG))
    assert done.code == 0, done.err
    found = {}
    for limit in (1, 10**9):
        monkeypatch.setattr(judging, "FORGET", limit)
        found[limit] = race(tmp_path / "s").out
    assert pairs(found[1], "long.py") == {(7, 15), (11, 13)}
    assert found[1] == found[10**9]


@on_each_in_full
def test_a_long_run_keeps_little_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fabric: dict[str, str]
) -> None:
    monkeypatch.setattr(judging, "FORGET", 20)
    kept = []
    forget = Judge.forget

    def watched(judge: Judge, tasks: list[int], aloft: list[object]) -> int:
        left = forget(judge, tasks, aloft)
        kept.append(left + len(aloft))
        return left

    monkeypatch.setattr(Judge, "forget", watched)
    folder = tmp_path / "s"
    done = recorded(folder, 2, Path(__file__).parent.parent.parent / "examples" / "heat.py", **fabric)
    assert done.code == 0, done.err
    verdict = judged(runs(str(folder))[0], "lenient")
    assert verdict.events > 2000
    assert len(kept) > 10
    assert max(kept[len(kept) // 2 :]) < 2 * max(kept[: len(kept) // 2])
