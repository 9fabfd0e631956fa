"""Stores through `ptr` and atomics that only store, against what the standard says, by both searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import dpor, eager, explore
from shmem.check.bounds import Bounds
from shmem.check.exploration import prepare
from shmem.check.litmus.language import parse
from shmem.check.surroundings import live
from shmem.delivery.profiles import NAMED, varied
from shmem.fabric.sim import Job

from .test_sim import ends_as_data

STATES = 4_000


def values(program: Callable[[], object], profile: str, n: int = 2) -> set[Any]:
    """What the PEs may return; the slow oracle must find the same, unless it is too large for that."""
    made = prepare(program, n, varied(profile, unit=8), ())
    with live(made):
        found = dpor.Search(lambda: Job(made)).run()
        oracle = eager.search(lambda: Job(made), digest=Job.digest, bounds=Bounds(states=STATES))  # type: ignore[arg-type]
    assert found.complete
    assert all(end.kind == "" for end in found.outcomes), found.outcomes
    if oracle.complete:
        assert set(found.outcomes) == set(oracle.outcomes)
    else:
        assert set(found.outcomes) >= set(oracle.outcomes)
    return {end.what for end in found.outcomes}


def through() -> tuple[int, int]:
    x = shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        there = shmem.ptr(x, 1)
        there[0] = 1
        return int(x[0]), int(there[0])
    return int(x[0]), -1


@pytest.mark.parametrize("profile", NAMED)
def test_a_store_through_ptr_is_in_the_memory_of_the_other(profile: str) -> None:
    assert values(through, profile) == {((0, 1), (0, -1)), ((0, 1), (1, -1))}


def twice() -> tuple[int, int] | None:
    x = shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        there = shmem.ptr(x, 1)
        there[0] = 1
        there[0] = 2
        return None
    return int(x[0]), int(x[0])


@pytest.mark.parametrize("profile", NAMED)
def test_two_of_them_to_one_word_stay_in_order(profile: str) -> None:
    assert {it for _, it in values(twice, profile)} == {(a, b) for a in range(3) for b in range(a, 3)}


def fenced(order: str, fence: bool) -> int | None:
    x, y = shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    if shmem.my_pe() == 1:
        shmem.wait_until(x, "==", 1)
        return int(y[0])
    there = [shmem.ptr(y, 1), shmem.ptr(x, 1)]
    for i, how in enumerate(order):
        if how == "s":
            there[i][0] = 1
        else:
            shmem.p((y, x)[i], 1, 1)
        if fence:
            shmem.fence()
    return None


@pytest.mark.parametrize("profile", NAMED)
@pytest.mark.parametrize("order", ["ps", "sp", "ss"])
def test_a_fence_orders_them_with_puts(profile: str, order: str) -> None:
    assert {it for _, it in values(lambda: fenced(order, True), profile)} == {1}


@pytest.mark.parametrize(
    ("profile", "order"), [("openshmem", "ps"), ("openshmem", "sp"), ("openshmem", "ss"), ("srd", "ps")]
)
def test_nothing_else_does(profile: str, order: str) -> None:
    assert {it for _, it in values(lambda: fenced(order, False), profile)} == {0, 1}


def gets_first() -> int | None:
    x = shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        found = np.zeros(1, np.int64)
        shmem.get_nbi(found, x, 1)
        shmem.fence()
        shmem.ptr(x, 1)[0] = 1
        shmem.quiet()
        return int(found[0])
    return None


@pytest.mark.parametrize("profile", ["openshmem", "srd", "udma"])
def test_a_fence_does_not_order_a_get_before_a_store(profile: str) -> None:
    assert {it for it, _ in values(gets_first, profile)} == {0, 1}


def set_or_swapped() -> int:
    x = shmem.full(1, 1, np.int64)
    if shmem.my_pe() == 0:
        shmem.atomic_set(x, 0, 0)
    else:
        shmem.atomic_compare_swap(x, 0, 2, 0)
    shmem.barrier_all()
    return int(x[0])


def lock() -> tuple[int, int]:
    x = shmem.zeros(1, np.int64)
    old = int(shmem.atomic_compare_swap(x, 0, shmem.my_pe() + 1, 0))
    if not old:
        shmem.atomic_set(x, 0, 0)
    shmem.barrier_all()
    return old, int(x[0])


def added() -> tuple[int, int]:
    x = shmem.zeros(1, np.int64)
    old = -1
    if shmem.my_pe() == 0:
        shmem.atomic_set(x, 5, 1)
    else:
        old = int(shmem.atomic_fetch_add(x, 1, 1))
    shmem.barrier_all()
    return old, int(x[0])


@pytest.mark.parametrize("profile", [name for name in NAMED if name != "udma_engine_scoped"])
def test_an_atomic_that_only_stores_is_not_lost_between_the_halves_of_another(profile: str) -> None:
    """Each has to come before or after: the values of both orders. (The profile left out has barriers that do not wait
    for what is in flight.)"""
    assert {it for it, _ in values(set_or_swapped, profile)} == {0, 2}
    assert values(lock, profile) == {((0, 0), (0, 0)), ((0, 0), (1, 0)), ((2, 0), (0, 0))}
    assert {it for _, it in values(added, profile)} == {(0, 5), (5, 6)}


def test_a_lock_of_compare_and_swap_is_no_deadlock() -> None:
    def spins() -> None:
        x = shmem.zeros(1, np.int64)
        while shmem.atomic_compare_swap(x, 0, 1, 0):
            shmem.spin()
        shmem.atomic_set(x, 0, 0)

    report = explore(spins, 2, varied("srd", unit=8))
    assert (report.ok, report.complete) == (True, True), report


@pytest.mark.parametrize("profile", NAMED)
def test_a_fence_orders_a_put_to_the_own_pe_before_a_store(profile: str) -> None:
    """In the litmus language as well."""
    [test] = parse(
        'test FS "fence"\ninit x = 0\nP0: put x@0 = 1; fence; x = 2; pe_quiet 0; r1 = x\nverdict srd clean\n'
    )
    assert [end[0][0] for end in ends_as_data(test, varied(profile, unit=8))] == [(("r1", 2),)]
