"""`explore` itself: bounds, budgets, notes, and what it says of programs that it can't trust."""

from __future__ import annotations

import itertools
import math
import random
import re
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import explore, replay, tokens
from shmem.check.bounds import parse_budget
from shmem.delivery.profiles import varied
from shmem.errors import ArgumentError, NondeterministicProgram, ReplayMismatch, StateLimit

PROFILE = varied("openshmem", unit=8)
COUNT = itertools.count()  # a module's own, so it is put back; what is in a closure is not


def both(n: int = 1) -> list[int]:
    """Each puts n words to the other; what they see before any order."""
    words = shmem.zeros(n, np.uint64)
    shmem.put(words, np.ones(n, np.uint64), 1 - shmem.my_pe())
    return words.tolist()  # type: ignore[no-any-return]


def test_outcomes_are_what_the_pes_returned() -> None:
    report = explore(both, 2, PROFILE)
    assert (report.ok, report.complete) == (True, True)
    assert set(report.outcomes) == {((a,), (b,)) for a in (0, 1) for b in (0, 1)}


@pytest.mark.parametrize("value", [math.nan, complex(0, math.nan), np.array([1, math.nan]), [{1: math.nan}]])
def test_a_nan_is_an_outcome_like_others(value: object) -> None:
    report = explore(lambda: (shmem.my_pe(), value), 2, "srd", "random", budget=3, twice=True)
    assert list(report.outcomes.values()) == [3]


@pytest.mark.parametrize(
    "wrong",
    [{"max_states": 0}, {"max_states": "9"}, {"max_moves": 0}, {"max_polls": 0}, {"max_polls": 1.5},
     {"strategy": ["pct"]}, {"profile": ["tso"]}, {"profile": 3}, {"strategy": None}],
)  # fmt: skip
def test_what_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"profile|strategy|must be a number"):
        explore(both, **wrong)


def test_a_bound_makes_it_incomplete() -> None:
    whole = explore(both, 2, PROFILE, args=(3,))
    part = explore(both, 2, PROFILE, args=(3,), max_states=whole.states // 2)
    assert (whole.complete, part.complete) == (True, False)
    assert set(part.outcomes) < set(whole.outcomes)
    assert str(part).splitlines()[1].startswith("  a part: ")


def test_who_asks_for_all_of_it_is_told_that_it_was_not() -> None:
    whole = explore(both, 2, PROFILE, args=(3,), complete=True)
    bounds: list[dict[str, Any]] = [
        {"max_states": whole.states // 2}, {"max_moves": 3}, {"budget": 1}, {"strategy": "random", "budget": 9},
    ]  # fmt: skip
    for bound in bounds:
        with pytest.raises(StateLimit, match="not complete") as raised:
            explore(both, 2, PROFILE, args=(3,), complete=True, **bound)
        assert raised.value.report.ok
        assert not raised.value.report.complete


def test_a_failure_matters_more_than_a_bound() -> None:
    report = explore(fails, 2, PROFILE, budget=1, complete=True)
    assert [failure.kind for failure in report.failures] == ["assertion"]
    assert not report.complete


def test_an_execution_that_is_too_long_is_cut_off() -> None:
    report = explore(both, 2, PROFILE, max_moves=3)
    assert (report.complete, report.executions, report.cut) == (False, 1, 1)
    assert "cut off after 3 moves" in str(report)


def test_a_sample_says_that_it_is_one() -> None:
    report = explore(both, 2, PROFILE, strategy="random", budget=50, seed=4)
    assert (report.complete, report.executions) == (False, 50)
    assert "seed 4" in str(report)
    assert "0.058" in report.looked()  # 1 - 0.05 ** (1 / 50)
    assert explore(both, 2, PROFILE, strategy="random", budget=50, seed=4).outcomes == report.outcomes


@pytest.mark.parametrize(
    ("strategy", "budget", "says"),
    [
        ("exhaustive", None, "all of it: "),
        ("exhaustive", 2, "a part: "),
        ("eager", None, "all of it: "),
        ("eager", 2, "a part: "),
        ("random", 9, "a sample: .* what happens in more than .* would have shown"),
        ("pct", 9, "a sample: (.*\n)*.* at most n=.* shows in each with at least "),
        ("delay", 1000, "a part: .* all executions with at most 3 moves kept back are in it"),
        ("delay", 2, "a part: .* all executions with at most 0 moves kept back are in it"),
        ("delay", 1, "a part: [^;]*$"),
    ],
)
def test_a_report_never_just_says_that_all_is_well(strategy: str, budget: int | None, says: str) -> None:
    report = explore(both, 2, PROFILE, strategy, budget=budget)
    assert report.ok
    assert re.match(says, report.looked())
    assert str(report).splitlines()[0].endswith(": no failure")
    assert report.complete == says.startswith("all of it")
    assert "pass" not in str(report)


def polls(spins: bool) -> int:
    flag = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        shmem.atomic_set(flag, 1, 1)
        return 0
    turns = 0
    while flag[0] == 0:
        turns += 1
        if spins:
            shmem.spin()
    return turns


def test_a_loop_that_spins_waits_for_a_change() -> None:
    report = explore(polls, 2, PROFILE, args=(True,))
    assert (report.ok, report.complete, set(report.outcomes)) == (True, True, {(0, 0), (0, 1)})


def test_a_loop_that_does_not_is_not_followed_for_ever() -> None:
    report = explore(polls, 2, PROFILE, args=(False,), max_polls=2)
    assert (report.ok, report.complete) == (True, False)
    assert set(report.outcomes) == {(0, 0), (0, 1), (0, 2)}
    assert "test_explore.py" in report.notes[0]
    assert "without shmem.spin()" in report.notes[0]


def looks_often() -> int:
    word = shmem.zeros(1, np.uint64)
    return sum(int(word[0]) for _ in range(9))


def test_a_loop_that_ends_by_itself_is_no_deadlock() -> None:
    report = explore(looks_often, 1)
    assert (report.ok, dict(report.outcomes)) == (True, {(0,): 1})


def test_a_program_that_differs_is_told() -> None:
    outside = itertools.count()

    def program() -> int:
        return next(outside) if shmem.my_pe() == 0 else 0

    with pytest.raises(NondeterministicProgram, match="ended differently"):
        explore(program, 2)


def counts() -> int:
    return next(COUNT)


def test_what_the_module_holds_is_put_back() -> None:
    report = explore(counts, 2, strategy="random", budget=5, twice=True)
    assert dict(report.outcomes) == {(0, 0): 5}


def draws() -> tuple[float, float]:
    return random.random(), float(np.random.default_rng().random())


def test_random_numbers_are_the_same_in_every_execution_and_differ_by_pe() -> None:
    report = explore(draws, 2, strategy="random", budget=5)
    [(first, second)] = report.outcomes
    assert len({*first, *second}) == 4


def fails() -> None:
    flag = shmem.zeros(1, np.uint64)
    shmem.p(flag, 1, 1 - shmem.my_pe())
    shmem.fence()
    assert flag[0] == 1


def test_a_token_is_of_one_program_profile_and_size() -> None:
    token = explore(fails, 2, PROFILE).failures[0].token
    assert replay(fails, token, 2, PROFILE).failures[0].kind == "assertion"
    for n, profile in ((3, PROFILE), (2, "udma")):
        with pytest.raises(ReplayMismatch):
            replay(fails, token, n, profile)


def test_all_failures_if_asked_for() -> None:
    assert len(explore(fails, 2, PROFILE).failures) == 1
    both_ways = explore(fails, 2, PROFILE, keep_going=True)
    assert sorted(failure.pe for failure in both_ways.failures if failure.pe is not None) == [0, 0, 1]


@pytest.mark.parametrize("choices", [[], [0], [3], [0, 0, 0, 1], [1, 0, 127, 128, 300, 0, 0, 5], [2] * 1000])
def test_tokens_round_trip(choices: list[int]) -> None:
    token = tokens.encode("01234567", choices)
    found = tokens.decode(token, "01234567")
    assert found + [0] * (len(choices) - len(found)) == choices
    assert not found or found[-1]


@pytest.mark.parametrize(
    "token",
    ["", "s1.00000000", "s2.00000000.AAEC", "s1.00000000.A", "s1.00000000.****", "x.y.z", "s1.00000000.Af___w8"],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(ArgumentError):
        tokens.decode(token)


@pytest.mark.parametrize(
    ("text", "means"),
    [("60s", (60.0, None)), ("1.5m", (90.0, None)), ("2h", (7200.0, None)), (7.5, (7.5, None)), (9, (None, 9)),
     ("100", (None, 100)), (None, (None, None))],
)  # fmt: skip
def test_budgets(text: object, means: tuple[float | None, int | None]) -> None:
    assert parse_budget(text) == means


@pytest.mark.parametrize("text", ["", "s", "0", "-1s", 0, -3, True, "5d", [], math.nan])
def test_what_is_no_budget_is_refused(text: object) -> None:
    with pytest.raises(ArgumentError):
        parse_budget(text)


def plain_bytes(writes: bool) -> tuple[int, bytes]:
    block = shmem.malloc(8)
    assert block is not None
    word = shmem.fromalloc(block, 1, np.int64)
    word[0] = 1
    if writes:
        block[0:1] = b"\x07"
    return int(word[0]), bytes(block[:1])


def test_what_is_written_to_plain_bytes_is_told() -> None:
    """The checker can't see it; it must not pass in silence."""
    [failure] = explore(plain_bytes, 1, args=(True,)).failures
    assert (failure.kind, failure.text.split(":")[:2]) == ("exception", ["CheckError", " unseen access"])
    assert set(explore(plain_bytes, 1, args=(False,)).outcomes) == {((1, b"\xdb"),)}
