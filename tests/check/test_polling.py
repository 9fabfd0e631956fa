"""What is a loop that only looks, and what is none: a report that says so would call a whole search a part of one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shmem
from shmem.check import explore

EQ = shmem.CMP.EQ
ONES = np.ones(3, np.uint64)
WAITS: dict[str, Callable[[np.ndarray], object]] = {
    "wait_until": lambda words: [shmem.wait_until(words[i : i + 1], EQ, 1) for i in range(3)],
    "wait_until_all": lambda words: shmem.wait_until_all(words, EQ, 1),
    "wait_until_any": lambda words: shmem.wait_until_any(words, EQ, 1),
    "wait_until_some": lambda words: shmem.wait_until_some(words, EQ, 1),
    "wait_until_all_vector": lambda words: shmem.wait_until_all_vector(words, EQ, ONES[: len(words)]),
    "wait_until_any_vector": lambda words: shmem.wait_until_any_vector(words, EQ, ONES[: len(words)]),
    "wait_until_some_vector": lambda words: shmem.wait_until_some_vector(words, EQ, ONES[: len(words)]),
    "signal_wait_until": lambda words: [shmem.signal_wait_until(words[i : i + 1], EQ, 1) for i in range(3)],
}


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("n", range(4))
def test_a_wait_is_not_such_a_loop(name: str, n: int) -> None:
    def waits() -> None:
        words = shmem.zeros(3, np.uint64)
        if shmem.my_pe() == 0:
            for i in range(3):
                shmem.p(words[i : i + 1], 1, 1)
        else:
            WAITS[name](words[:n] if name.startswith("wait_until_") else words)

    report = explore(waits, 2, "rc_strict")
    assert (report.ok, report.complete, report.notes) == (True, True, [])


def reduces() -> float:
    one, total = shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    one[0] = 2
    for _ in range(5):
        shmem.sum_reduce(total, one)
    return int(total[0])


def looks_at_nothing() -> int:
    word = shmem.zeros(1, np.uint64)
    return sum(len(word[:0].tolist()) for _ in range(5))


def is_told_in_between() -> list[int]:
    flag, data = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        for epoch in range(1, 5):
            shmem.put_signal(data, np.array([7], np.uint64), 1, flag, 1, shmem.SIGNAL.ADD)
            shmem.wait_until(flag, "==", epoch)
        return []
    found = []
    for epoch in range(1, 5):
        shmem.wait_until(flag, "==", epoch)
        found.append(int(data[0]))
        shmem.atomic_inc(flag, 0)
    return found


def meets_in_between() -> list[int]:
    data, found = shmem.zeros(1, np.uint64), []
    for _ in range(4):
        found.append(int(data[0]))
        shmem.barrier_all()
    return found


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        (reduces, (4, 4)),
        (looks_at_nothing, (0, 0)),
        (is_told_in_between, ((), (7,) * 4)),
        (meets_in_between, ((0,) * 4,) * 2),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_nor_is_one_in_which_something_changes(program: Callable[[], object], outcome: object) -> None:
    report = explore(program, 2, "rc_strict")
    assert (report.ok, report.complete, report.notes, dict(report.outcomes).keys()) == (True, True, [], {outcome})


def only_looks() -> int:
    flag, other = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.p(flag, 1, 1)
        return 0
    while not flag[0]:
        shmem.wait_until(other, "==", 0)
    return 1


def test_a_loop_with_a_wait_that_is_always_over_is_one() -> None:
    report = explore(only_looks, 2, "rc_strict")
    assert (report.ok, report.complete, set(report.outcomes)) == (True, False, {(0, 1)})
    assert "without shmem.spin()" in report.notes[0]


AFAR: dict[str, Callable[[np.ndarray], object]] = {
    "g": lambda flag: shmem.g(flag, 0) == 0,
    "get": lambda flag: shmem.get(np.zeros(1, np.uint64), flag, 0) or shmem.g(flag, 0) == 0,
    "atomic_fetch": lambda flag: shmem.atomic_fetch(flag, 0) == 0,
    "atomic_compare_swap": lambda flag: shmem.atomic_compare_swap(flag, 1, 2, 0) == 0,
    "atomic_swap": lambda flag: shmem.atomic_swap(flag, 0, 0) == 0,
}


def waits_for_another(name: str, spins: bool) -> None:
    flag = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.atomic_inc(flag, 0)
        return
    while AFAR[name](flag):
        if spins:
            shmem.spin()


@pytest.mark.parametrize("spins", [True, False])
@pytest.mark.parametrize("name", AFAR)
def test_a_loop_may_look_at_the_memory_of_another_pe(name: str, spins: bool) -> None:
    report = explore(waits_for_another, 2, "srd", args=(name, spins), max_moves=200)
    assert (report.ok, report.cut, bool(report.outcomes)) == (True, 0, True)
    assert report.complete == spins
    assert all("without shmem.spin()" in note for note in report.notes)


def has_looked_once(rounds: int | None) -> int:
    """A loop whose load was moved out of it; or one that only waits a while."""
    flag = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.p(flag, 1, 1)
        return 0
    seen, turns = flag[0], 0
    while seen != 1 and turns != rounds:
        shmem.spin()
        turns += 1
    return turns


def test_a_loop_that_spins_and_looks_at_nothing_is_a_deadlock() -> None:
    report = explore(has_looked_once, 2, "rc_strict", args=(None,))
    [failure] = report.failures
    assert (failure.kind, failure.pe) == ("deadlock", None)
    assert "PE 1 waits in spin, again and again, and looks at nothing" in failure.text


def test_one_that_ends_is_none() -> None:
    report = explore(has_looked_once, 2, "rc_strict", args=(900,))
    assert (report.ok, report.complete, set(report.outcomes)) == (True, True, {(0, 0), (0, 900)})
