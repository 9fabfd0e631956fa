"""wait_until_all, _any, _some, their tests and vector forms: against Python's comparisons, woken by every word."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import shmem

from .data import WORDS, Array, dtype_id
from .test_waiting import COMPARE, edges

pytestmark = pytest.mark.mpi

LAYOUTS = {
    "contiguous": lambda a: a.reshape(-1)[:8],
    "every third": lambda a: a.reshape(-1)[1:25:3],
    "backwards": lambda a: a.reshape(-1)[7::-1],
    "2-D": lambda a: a[:2, :4],
    "column": lambda a: a[:8, 3],
}


def held(seen: list[int], symbol: str, wanted: list[int], status: list[int] | None) -> list[int]:
    """The numbers of the words that are not excluded and satisfy their comparison."""
    return [
        i for i in range(len(seen)) if not (status and status[i]) and COMPARE[symbol](seen[i], wanted[i])
    ]  # fmt: skip


def check_tests(words: Array, seen: list[int], symbol: str, value: int | list[int], status: list[int] | None) -> None:
    """All twelve routines (waits that would not end with a deadline of 0) on words that nobody changes."""
    vector = isinstance(value, list)
    suffix, wanted = ("_vector", value) if vector else ("", [value] * len(seen))
    holding, included = held(seen, symbol, wanted, status), len(seen) - sum(map(bool, status or []))
    calls = {
        f"{kind}_{which}": getattr(shmem, f"{kind}_{which}{suffix}")
        for kind, which in itertools.product(("test", "wait_until"), ("all", "any", "some"))
    }
    assert calls["test_all"](words, symbol, value, status) is (len(holding) == included)
    assert calls["test_some"](words, symbol, value, status) == holding
    one = calls["test_any"](words, symbol, value, status)
    assert one in holding if holding else one is None
    if holding or not included:
        assert calls["wait_until_some"](words, symbol, value, status, timeout=0) == holding
        one = calls["wait_until_any"](words, symbol, value, status, timeout=0)
        assert (one in holding and type(one) is int) if holding else one is None
    else:
        for name in ("wait_until_some", "wait_until_any"):
            with pytest.raises(shmem.ShmemTimeout):
                calls[name](words, symbol, value, status, timeout=0)
    if len(holding) == included:
        assert calls["wait_until_all"](words, symbol, value, status, timeout=0) is None
    else:
        with pytest.raises(shmem.ShmemTimeout):
            calls["wait_until_all"](words, symbol, value, status, timeout=0)


@pytest.mark.core
@pytest.mark.parametrize("symbol", COMPARE)
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_results_are_the_comparisons(dtype, symbol):
    x = shmem.zeros((8, 6), dtype)
    words = x.reshape(-1)[5:12]
    rng = np.random.default_rng([7, len(symbol), dtype.itemsize])
    for _ in range(12):
        seen, wanted = (rng.choice(np.array(edges(dtype), dtype), 7).tolist() for _ in range(2))
        words[...] = np.array(seen, dtype)
        status = rng.integers(0, 2, 7).tolist()
        for mask in (None, status, [0] * 7, [1] * 7):
            check_tests(words, seen, symbol, wanted[0], mask)
            check_tests(words, seen, symbol, wanted, mask)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_words_of_every_layout_are_numbered_in_their_order(layout):
    x = shmem.array(np.arange(48, dtype=np.int32).reshape(8, 6))
    words = LAYOUTS[layout](x)
    seen = words.copy().reshape(-1).tolist()
    for value in (seen[0], seen[-1], -1):
        check_tests(words, seen, "==", value, None)
        check_tests(words, seen, "==", seen[:-1] + [value], [0, 1] * 4)
        check_tests(words, seen, ">", value, None)
    shmem.barrier_all()
    shmem.free(x)


def test_arguments_are_taken_in_any_integer_form_and_not_changed():
    x = shmem.array(np.array([3, 4, 5], np.uint64))
    status, values = np.array([0, 2, 0], np.int32), np.array([3, 4, 6], np.int64)
    assert shmem.test_some_vector(x, "==", values, status) == [0]
    assert shmem.test_some_vector(x, shmem.CMP_EQ, (3, 4, 5), [False, False, True]) == [0, 1]
    assert shmem.wait_until_some(x, "ge", np.int8(4), np.zeros(3, bool)) == [1, 2]
    assert (status.tolist(), values.tolist()) == ([0, 2, 0], [3, 4, 6])
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_an_empty_set_ends_at_once():
    x = shmem.zeros(4, np.int32)
    for words, status in ((x[:0], None), (x[:0], []), (x, [1, 1, 1, 1])):
        values = [7] * words.size
        assert shmem.wait_until_all(words, "==", 7, status, timeout=0) is None
        assert shmem.wait_until_any(words, "==", 7, status, timeout=0) is None
        assert shmem.wait_until_some(words, "==", 7, status, timeout=0) == []
        assert shmem.test_all(words, "==", 7, status) is True
        assert shmem.test_any(words, "==", 7, status) is None
        assert shmem.test_some(words, "==", 7, status) == []
        assert shmem.wait_until_all_vector(words, "==", values, status, timeout=0) is None
        assert shmem.wait_until_any_vector(words, "==", values, status, timeout=0) is None
        assert shmem.wait_until_some_vector(words, "==", values, status, timeout=0) == []
        assert shmem.test_all_vector(words, "==", values, status) is True
        assert shmem.test_any_vector(words, "==", values, status) is None
        assert shmem.test_some_vector(words, "==", values, status) == []
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("call", ["test_any", "wait_until_any"])
def test_any_returns_each_word_that_holds_in_turn(call):
    """Also where calls on another set come between, and where one is added while others are returned."""
    x, y = shmem.zeros(10, np.int64), shmem.ones(2, np.int64)
    one = getattr(shmem, call)
    x[[1, 4, 8]] = 1
    got = []
    for _ in range(6):
        got.append(one(x, "==", 1))
        one(y, "==", 1)
    assert got[:3] == got[3:]
    assert sorted(got[:3]) == [1, 4, 8]
    assert {one(y, "==", 1) for _ in range(2)} == {0, 1}
    x[6] = 1
    assert {one(x, "==", 1) for _ in range(4)} == {1, 4, 6, 8}
    assert {one(x, "==", 1, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]) for _ in range(3)} == {4, 6, 8}
    shmem.barrier_all()
    shmem.free(y)
    shmem.free(x)


# -- waking ----------------------------------------------------------------------------------------------


LATE = "it counts sleeps that end late, and where an adapter rests the word may come just then"


@pytest.mark.core
@pytest.mark.needs("direct", LATE)
@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("call", ["wait_until_any", "wait_until_some", "wait_until_all"])
@pytest.mark.parametrize("spread", [1, 7, 8, 64 * 8 + 1], ids=lambda step: f"step {step}")
def test_a_store_to_any_of_the_words_wakes(call, spread):
    """The words lie in one bucket, in neighbouring ones, in all of them, or wrap round; each is the one once a turn."""
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    count = 40
    x, ready = shmem.zeros(spread * count, np.int32), shmem.zeros(1, np.int32)
    words = x[::spread]
    order = np.random.default_rng(11).permutation(count).tolist()
    for turn, i in enumerate(order, 1):
        shmem.atomic_set(ready, turn, left)
        shmem.wait_until(ready, "==", turn)
        shmem.p(words[i : i + 1], turn, right)
        if call == "wait_until_all":
            done = [number not in order[:turn] for number in range(count)]
            shmem.wait_until_all(words, "!=", 0, done)
        else:
            got = getattr(shmem, call)(words, ">=", turn)
            assert got == (i if call == "wait_until_any" else [i])
    shmem.barrier_all()
    assert words[order].tolist() == list(range(1, count + 1))
    shmem.free(ready)
    shmem.free(x)


@pytest.mark.needs("direct", LATE)
@pytest.mark.usefixtures("only_woken")
@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("call", ["wait_until_some_vector", "wait_until_any_vector", "wait_until_all_vector"])
def test_words_from_all_pes(call):
    """Each PE sends each other one a value of its own, in rounds without barriers; nothing is missed."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, rounds = shmem.zeros((n, 9), np.uint64), 25
    words = x[:, 4]
    for round_ in range(1, rounds + 1):
        for pe in range(n):
            shmem.atomic_set(words[me : me + 1], 100 * round_ + me, (me + pe) % n)
        wanted, status = [100 * round_ + pe for pe in range(n)], np.zeros(n, np.int64)
        while not status.all():
            got = getattr(shmem, call)(words, ">=", wanted, status)
            arrived = list(range(n)) if got is None else np.atleast_1d(got).tolist()
            assert arrived
            assert not status[arrived].any()
            status[arrived] = 1
            for pe in arrived:
                assert int(words[pe]) in (wanted[pe], wanted[pe] + 100)
    shmem.barrier_all()
    assert words.tolist() == [100 * rounds + pe for pe in range(n)]
    shmem.free(x)


def test_all_waits_for_the_last_one():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, seen = shmem.zeros(5, np.int32), []

    def wait() -> None:
        shmem.wait_until_all(x, "==", 3, [0, 0, 1, 0, 0])
        seen.append(x.tolist())

    for order in itertools.permutations([0, 1, 3, 4]):
        x[...] = 0
        thread = threading.Thread(target=wait)
        thread.start()
        for i in order:
            assert not seen
            shmem.atomic_set(x[i : i + 1], 3, me)
        thread.join()
        assert seen.pop() == [3, 3, 0, 3, 3]
    shmem.barrier_all()
    shmem.free(x)
    assert n == shmem.n_pes()


def test_what_was_put_before_the_word_can_be_read():
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    data, signals = shmem.zeros((16, 50), np.int64), shmem.zeros(16, np.uint64)
    for i in np.random.default_rng(4).permutation(16):
        shmem.put_signal(data[i], np.full(50, 1000 * me + i), right, signals[i : i + 1], 1, shmem.SIGNAL_SET)
    status = np.zeros(16, np.int32)
    while not status.all():
        for i in shmem.wait_until_some(signals, "==", 1, status):
            assert (data[i] == 1000 * left + i).all()
            status[i] = 1
    shmem.barrier_all()
    shmem.free(signals)
    shmem.free(data)


# -- errors ----------------------------------------------------------------------------------------------


def test_deadline_says_what_was_awaited_and_seen():
    x = shmem.array(np.array([3, 4, 5, 6], np.int32))
    with pytest.raises(shmem.ShmemTimeout) as caught:
        shmem.wait_until_any(x, ">", 41, [0, 1, 0, 0], timeout=0.05)
    error = caught.value
    assert "any word > 41" in error.awaited
    assert "(3 words)" in error.awaited
    assert error.seen == "[3 5 6]"
    assert error.waited_s >= 0.05
    with pytest.raises(shmem.ShmemTimeout, match=r"all words == \[3 4 5 7\]"):
        shmem.wait_until_all_vector(x, "==", [3, 4, 5, 7], timeout=0.05)
    shmem.atomic_set(x[3:], 7, shmem.my_pe())
    shmem.wait_until_all_vector(x, "==", [3, 4, 5, 7], timeout=0)
    shmem.barrier_all()
    shmem.free(x)


# name: (exception, call with x = symmetric int64 [4])
WRONG = {
    "private": (shmem.NotSymmetric, lambda x: shmem.wait_until_all(np.zeros(4, int), "==", 1)),
    "a list": (shmem.DtypeError, lambda x: shmem.test_any([x], "==", 1)),
    "float64": (shmem.DtypeError, lambda x: shmem.wait_until_any(x.view("f8"), "==", 1.0)),
    "int16": (shmem.DtypeError, lambda x: shmem.test_some(x.view("i2"), "==", 1)),
    "not aligned": (shmem.LayoutError, lambda x: shmem.test_all(x.view("u1")[4:20].view("i8"), "==", 1)),
    "columns": (shmem.LayoutError, lambda x: shmem.test_all(x.reshape(2, 2).T, "==", 1)),
    "comparison": (shmem.ArgumentError, lambda x: shmem.wait_until_some(x, "=>", 1)),
    "comparison SIGNAL": (shmem.ArgumentError, lambda x: shmem.test_all(x, shmem.SIGNAL_SET, 1)),
    "value 1.5": (TypeError, lambda x: shmem.test_all(x, "==", 1.5)),
    "values for a scalar": (TypeError, lambda x: shmem.test_all(x, "==", [1, 2, 3, 4])),
    "value too large": (OverflowError, lambda x: shmem.wait_until_all(x, "==", 1 << 63)),
    "a value too large": (OverflowError, lambda x: shmem.test_all_vector(x, "==", [0, 0, 0, 1 << 63])),
    "values 1.0": (TypeError, lambda x: shmem.test_all_vector(x, "==", np.ones(4))),
    "too few values": (shmem.SizeMismatch, lambda x: shmem.wait_until_any_vector(x, "==", [1, 2, 3])),
    "one value": (shmem.SizeMismatch, lambda x: shmem.wait_until_any_vector(x, "==", 1)),
    "too few status": (shmem.SizeMismatch, lambda x: shmem.wait_until_any(x, "==", 1, [0])),
    "status 0.0": (shmem.SizeMismatch, lambda x: shmem.test_any(x, "==", 1, np.zeros(4))),
    "timeout": (shmem.ArgumentError, lambda x: shmem.wait_until_any(x, "==", 1, timeout=-1)),
}


@pytest.mark.core
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise(case):
    error, call = WRONG[case]
    x = shmem.zeros(4, np.int64)
    with pytest.raises(error):
        call(x)
    shmem.barrier_all()
    shmem.free(x)


def test_freed_words_are_refused():
    x = shmem.zeros(4, np.int64)
    shmem.free(x)
    with pytest.raises(shmem.FreedBlock):
        shmem.wait_until_any(x, "==", 0)
