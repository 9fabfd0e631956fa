"""Programs that never end by themselves, and never rest either: the search ends, says where, and claims nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import exploration, explore

CALLS = 20


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than usual: a request waits for all those before it."""
    monkeypatch.setattr(exploration, "CALLS_MAX", CALLS)


def puts(times: float = np.inf) -> None:
    box = shmem.zeros(1, np.uint8)
    while shmem.my_pe() == 0 and times > 0:
        shmem.put_nbi(box, np.ones(1, np.uint8), 1)
        times -= 1


def fences() -> None:
    while True:
        shmem.fence()


def quiets() -> None:
    while True:
        shmem.quiet()


def adds() -> None:
    word = shmem.zeros(1, np.int32)
    while True:
        shmem.atomic_add(word, 1, 1)


def doorbells() -> None:
    cq = nic.CompletionQueue(depth=16)
    pair = nic.QueuePair(1 - shmem.my_pe(), send_cq=cq, depth=4)
    while True:
        pair.doorbell()


def full() -> None:
    """A queue pair that is full, and the error for it ignored."""
    segment = nic.register(box := shmem.zeros(1, np.int64), rights="rwa")
    shmem.barrier_all()
    pair = nic.QueuePair(1, send_cq=nic.CompletionQueue(depth=16), depth=4)
    request = nic.WorkRequest(nic.WRITE, local=box, remote=nic.import_segment(segment, 1), doorbell=False)
    while shmem.my_pe() == 0:
        with contextlib.suppress(shmem.QueueFull):
            pair.post(request)


def fences_whatever_happens() -> None:
    while True:
        with contextlib.suppress(BaseException):  # the end that the search makes of it, too
            shmem.fence()


def beside_one_that_waits() -> None:
    word = shmem.zeros(1, np.int64)
    if shmem.my_pe() == 1:
        shmem.wait_until(word, "==", 1)
    fences()


PROGRAMS = [puts, fences, quiets, adds, doorbells, full, fences_whatever_happens, beside_one_that_waits]


def line_of(program: Callable[..., None], call: str) -> str:
    """The line on which a program makes a call."""
    with open(program.__code__.co_filename, encoding="utf-8") as file:
        lines = list(enumerate(file, 1))[program.__code__.co_firstlineno :]
    return f"test_endless.py:{next(number for number, line in lines if call in line)}"


@pytest.mark.parametrize("strategy", ["exhaustive", "random", "pct", "delay"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_search_ends_and_is_not_complete(program: Callable[[], None], strategy: str) -> None:
    report = explore(program, 2, "rc_strict", strategy, budget=3)
    assert report.ok
    assert not report.complete
    assert not report.outcomes  # no execution came to an end
    assert report.cut == report.executions
    assert any(f"{CALLS} calls that nobody else could see" in note for note in report.notes), report.notes


@pytest.mark.parametrize(("program", "call"), [(puts, "put_nbi"), (fences, "fence()"), (doorbells, "doorbell()")])
def test_the_report_names_the_line(program: Callable[[], None], call: str) -> None:
    report = explore(program, 2, budget=1)
    assert [line_of(program, call) in note for note in report.notes] == [True]


def test_fewer_calls_are_followed_to_the_end() -> None:
    calls = CALLS - 2  # the barrier of the allocation, and the one before finalize
    report = explore(puts, 2, "tso", args=(3,))
    assert report.complete
    report = explore(puts, 2, "tso", "random", args=(calls,), budget=2)
    assert report.outcomes.total() == 2
    assert not report.notes


def waits_whatever_happens() -> None:
    word = shmem.zeros(1, np.int64)
    while True:
        with contextlib.suppress(BaseException):  # the end that the search makes of it, too
            shmem.wait_until(word, "==", 1)


def test_a_wait_that_is_tried_again_whatever_happens_is_the_deadlock_it_is() -> None:
    report = explore(waits_whatever_happens, 2)
    assert [failure.kind for failure in report.failures] == ["deadlock"]


def test_a_time_budget_ends_a_sample_within_an_execution() -> None:
    report = explore(puts, 2, "openshmem", "random", budget=1e-6)
    assert report.executions == 0
    assert not report.complete
