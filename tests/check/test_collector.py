"""While a program is explored Python looks for garbage seldom; afterwards as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import shmem
from shmem.check import explore


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(711, 9, 8)
    yield (711, 9, 8)
    gc.set_threshold(*before)
    gc.enable()


def looks() -> tuple[int, ...]:
    shmem.barrier_all()
    return gc.get_threshold()


@pytest.mark.parametrize("strategy", ["exhaustive", "eager", "random", "pct", "delay"])
def test_it_is_calm_meanwhile(strategy: str, usual: tuple[int, int, int]) -> None:
    report = explore(looks, 2, strategy=strategy, budget=1)
    assert {seen[0] for outcome in report.outcomes for seen in outcome} == {50_000}
    assert gc.get_threshold() == usual


def test_after_a_failure_it_is_as_before(usual: tuple[int, int, int]) -> None:
    def fails() -> None:
        raise ValueError

    assert explore(fails, 1).failures
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("threshold", [0, 100_000])
def test_who_looks_less_often_still_may(threshold: int, usual: tuple[int, int, int]) -> None:
    gc.set_threshold(threshold, 9, 8)
    report = explore(looks, 1)
    assert set(report.outcomes) == {((threshold, 9, 8),)}
    assert gc.get_threshold() == (threshold, 9, 8)


def test_a_collector_that_is_off_stays_off(usual: tuple[int, int, int]) -> None:
    gc.disable()
    assert explore(looks, 1).ok
    assert not gc.isenabled()
