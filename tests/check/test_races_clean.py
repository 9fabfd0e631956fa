"""Programs that are right are clean: the repaired twins of all planted bugs, the programs of the docs, collectives.

And what races are not judged by: when bytes landed, and which of several orders was tried.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import dpor, eager
from shmem.check.bounds import Bounds
from shmem.check.exploration import explore, prepare, replay
from shmem.check.found import Found
from shmem.check.races.found import races_of
from shmem.check.surroundings import live
from shmem.check.system import System
from shmem.delivery.profiles import NAMED, varied
from shmem.errors import ArgumentError
from shmem.fabric.sim import Job
from shmem.fabric.sim.lines import placed_whole

from .planted_all import PLANTED

# Right under their profile, and a race all the same: they ask more than OpenSHMEM promises.
ASK_MORE = {
    "a_flag_seen_by_a_plain_load": "it sends data and flag by two puts without a fence, which rc_strict keeps in order",
    "a_last_doorbell_forgotten": "three WRITEs to one word, which udma places in any order; nobody reads it",
    "a_completion_queue_too_small": "two queue pairs write one value to one word",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_repaired_program_is_clean(name: str) -> None:
    bug = PLANTED[name]
    profile = varied(bug.profile, **bug.changes)
    report = explore(bug.program, bug.pes, profile, args=(True,), races="lenient", budget=500, keep_going=True)
    assert ({failure.kind for failure in report.failures} == {"race"}) == (name in ASK_MORE), report
    assert report.ok or name in ASK_MORE


def collectives() -> None:
    me, n = shmem.my_pe(), shmem.n_pes()
    ones, more = shmem.full(2, me + 1), shmem.zeros(2 * n, np.int64)
    total = shmem.zeros(2, np.int64)
    shmem.sum_reduce(total, ones)
    shmem.broadcast(total, ones, 0)
    shmem.fcollect(more, ones)
    shmem.alltoall(more[:n], shmem.full(n, me))
    assert more[n - 1] == n - 1
    shmem.free(ones)


def locked() -> None:
    count, lock = shmem.zeros(1, np.int64), shmem.new_lock()
    if not shmem.test_lock(lock):
        shmem.p(count, shmem.g(count, 0) + 1, 0)
        shmem.clear_lock(lock)
    shmem.set_lock(lock)
    shmem.p(count, shmem.g(count, 0) + 1, 0)
    shmem.clear_lock(lock)
    shmem.barrier_all()
    assert shmem.my_pe() or count[0] >= shmem.n_pes()


def streamed() -> None:
    box, flag = shmem.zeros(1, np.int64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.Stream() as stream:
            batch = shmem.Batch()
            batch.put(box, np.array([5]), 1)
            batch.signal(flag, 0, 1, 1)
            batch.launch(stream).wait()
    else:
        shmem.signal_wait_until(flag, "==", 1)
        assert box[0] == 5


def worked() -> None:
    box = shmem.zeros(2, np.int64)

    def work(i: int) -> None:
        shmem.p(box[i : i + 1], i + 1, 1 - shmem.my_pe())
        shmem.quiet()
        shmem.worker_barrier()

    shmem.workers(2, work)
    shmem.sync_all()
    assert box.tolist() == [1, 2]


@pytest.mark.parametrize("program", [collectives, locked, streamed, worked])
def test_calls_of_all_kinds_are_clean(program: Any) -> None:
    report = explore(program, 2, varied("rc_strict", unit=4096), races="strict", budget=300)
    assert report.ok, report
    assert report.executions >= 1


@pytest.mark.parametrize(
    ("layout", "profile", "whole"),
    [("LL", "udma", True), ("LL", "openshmem", False), ("LL128", "udma", False), ("LL128", "tso", True)],
)
def test_a_line_is_an_edge_where_it_comes_whole(layout: str, profile: str, whole: bool) -> None:
    """Elsewhere accepting it is the failure, of kind torn or stale (`test_tags_of_lines`)."""
    assert placed_whole(getattr(shmem, layout), NAMED[profile]) is whole


def one_line(lines: bool = True) -> None:
    box, word = shmem.zeros(16, np.uint8, align=64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0 and lines:
        shmem.put_lines(box, np.array([5], np.uint32), 1, shmem.LL, 1)
    elif lines:
        assert shmem.poll_lines(box, shmem.LL, 1, 1, np.uint32)[0] == 5
    shmem.atomic_add(word, 1, 0)


def test_the_report_says_once_that_lines_ask_more() -> None:
    report = explore(one_line, 2, "udma", races="lenient")
    note = "lines ask more than OpenSHMEM promises: they were judged by what the profile udma places at once"
    assert (report.ok, report.complete, report.notes) == (True, True, [note])
    assert report.executions > 1
    assert str(report).count(note) == 1
    assert explore(one_line, 2, "udma", races="strict", strategy="random", budget=1).notes == [note]
    assert explore(one_line, 2, "udma", args=(False,), races="lenient").notes == []
    assert explore(one_line, 2, "udma").notes == []


# ---- what a search leaves out ----


def write_again(data: Any, flag: Any) -> None:
    """A flag to PE 1, then data and the flag once more, which are there already."""
    for word, value in ((flag, 1), (data, 0), (flag, 1)):
        shmem.p(word, value, 1)
        shmem.fence()


def silent() -> None:
    """All that PE 0 writes after its first flag is there already: whether PE 1 has seen the second, no value tells."""
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        write_again(data, flag)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 0


def looked() -> None:
    """As `silent`, for a test."""
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        write_again(data, flag)
    elif shmem.test(flag, "==", 1):
        assert data[0] == 0


def fetched() -> None:
    """As `silent`: whether PE 1 has fetched the word before or after 0 was added to it."""
    data, word = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.p(data, 0, 2)
        shmem.quiet()
        shmem.atomic_add(word, 0, 2)
    elif shmem.my_pe() == 1:
        shmem.atomic_fetch(word, 2)
        shmem.g(data, 2)


def found_by(search: Any, program: Any, n: int) -> tuple[set[frozenset[object]], Found]:
    """The races of each execution that a search makes, as lines."""
    made = prepare(program, n, varied("openshmem", unit=8), (), races="lenient")
    seen: set[frozenset[object]] = set()

    def ended(system: System, moves: object) -> bool:
        assert isinstance(system, Job)
        seen.add(frozenset(race.key for race in races_of(system)))
        return False

    with live(made):
        found = search(made, ended)
    return seen, found


def by_dpor(made: Any, ended: Any) -> Found:
    return dpor.Search(lambda: Job(made), ended=ended).run()


def by_all(made: Any, ended: Any) -> Found:
    return eager.search(lambda: Job(made), bounds=Bounds(states=20_000), ended=ended)


@pytest.mark.parametrize("program", [silent, looked, fetched])
def test_the_search_sees_races_that_no_value_tells(program: Any) -> None:
    """Executions with and without a race between the same lines, apart only by the order of writes that change
    nothing."""
    seen, found = found_by(by_dpor, program, 3)
    assert found.complete
    assert frozenset.union(*seen) - frozenset.intersection(*seen)


def two_flags() -> None:
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.p(data, 7, 1)
        shmem.fence()
        shmem.p(flag, 1, 1)
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@pytest.mark.parametrize("program", [two_flags])
def test_the_search_sees_what_every_order_shows(program: Any) -> None:
    seen, found = found_by(by_dpor, program, 2)
    every, all_of_it = found_by(by_all, program, 2)
    assert found.complete
    assert all_of_it.complete
    assert seen == every


def replaced() -> int:
    """Two flags in one word: who sees that of PE 1 knows nothing of PE 0, whichever came first."""
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    me = shmem.my_pe()
    if me == 0:
        shmem.p(data, 7, 2)
        shmem.fence()
        shmem.atomic_set(flag, 1, 2)
    elif me == 1:
        shmem.atomic_set(flag, 2, 2)
    elif shmem.test(flag, "==", 2):
        return int(data[0]) + 1
    return 0


def test_a_value_that_replaced_another_tells_of_its_own_only() -> None:
    made = prepare(replaced, 3, varied("openshmem", unit=8), (), races="lenient")
    seen = []

    def ended(system: System, moves: object) -> bool:
        assert isinstance(system, Job)
        seen.append((system.end().what[2], bool(races_of(system))))
        return False

    with live(made):
        assert by_dpor(made, ended).complete
    assert all(racy == bool(saw) for saw, racy in seen)
    assert {saw for saw, _ in seen} == {0, 1, 8}


def same_line() -> None:
    word = shmem.zeros(1, np.int64)
    assert shmem.ptr(word, 0)[0] in (0, 1)
    if shmem.my_pe() == 1:
        shmem.p(word, 1, 0)


def test_a_line_that_all_pes_run_is_an_access_of_each() -> None:
    report = explore(same_line, 2, varied("openshmem", unit=8), races="lenient", keep_going=True)
    [failure] = report.failures
    assert failure.text.endswith(f"shows in {report.executions} of {report.executions} executions")
    assert report.executions > 1


# ---- the options ----


def racy() -> None:
    word = shmem.zeros(1, np.int64)
    shmem.p(word, 1, 0)


def test_nothing_is_told_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmem.fabric.sim import observed

    made = []
    monkeypatch.setattr(observed.Observed, "__init__", lambda self, job: made.append(job))
    assert explore(racy, 2).ok
    assert not made
    with pytest.raises(AttributeError):
        explore(racy, 2, races="lenient")
    assert made


@pytest.mark.parametrize("races", ["", "yes", True, 1])
def test_another_word_is_refused(races: Any) -> None:
    with pytest.raises(ArgumentError, match="races="):
        explore(racy, 2, races=races)


def many() -> None:
    word = shmem.zeros(1, np.int64)
    if shmem.my_pe():
        for i in range(5):
            shmem.p(word, shmem.my_pe() * 10 + i, 0)
    shmem.barrier_all()


def test_a_race_ends_the_search_a_little_later() -> None:
    report = explore(many, 3, "rc_strict", races="lenient")
    assert report.executions == 201
    whole = explore(many, 3, "rc_strict", races="lenient", keep_going=True, budget=220)
    assert whole.executions == 220
    assert not report.ok
    assert re.search(rf"shows in \d+ of {report.executions} executions$", report.failures[0].text)


def test_a_token_shows_it_again() -> None:
    report = explore(racy, 2, races="lenient")
    [failure] = report.failures
    assert (failure.kind, failure.pe) == ("race", 1)
    again = replay(racy, failure.token, 2, races="lenient")
    assert again.notes == []
    assert [each.kind for each in again.failures] == ["race"]
    assert failure.text.startswith(again.failures[0].text)
    assert replay(racy, failure.token, 2).ok


def test_a_line_of_each_access_is_named() -> None:
    source = Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(source, 1) if text == "    shmem.p(word, 1, 0)")
    text = explore(racy, 2, races="lenient").failures[0].text
    assert text.startswith(f"put (PE 0, test_races_clean.py:{line}) and put (PE 1, test_races_clean.py:{line}): ")
    assert "bytes 0x0..0x8 of PE 0: no synchronization between PE 0 and PE 1" in text
