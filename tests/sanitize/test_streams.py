"""Recorded runs: what is in their streams, at which times, and what is kept of it while it is judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shmem.check.races.judge import Judge
from shmem.records import Amo, Op
from shmem.sanitize import judging
from shmem.sanitize.judging import judged, runs
from shmem.sanitize.reading import landings, records
from shmem.sanitize.stream import Frame
from tests.launcher.cells import FULL

from .jobs import FABRICS, on_each, on_each_in_full, pairs, race, recorded, written

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
