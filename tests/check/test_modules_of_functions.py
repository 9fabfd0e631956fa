"""Whatever kind of function a program is, each PE has one of its own: nested, partial, a method, or made by `exec`."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from shmem.check.modules import Copies

from .copies import N, Write, call, calls

COUNT = 0
RESULTS: list[int] = []


def count_here() -> int:
    global COUNT
    COUNT += 1
    RESULTS.append(COUNT)
    assert len(RESULTS) == COUNT
    return COUNT


def test_a_function_of_a_test_module() -> None:
    copies = Copies(count_here, N)
    assert calls(copies) == [[1, 1, 1], [2, 2, 2]]
    assert (COUNT, RESULTS) == (0, [])
    assert copies.function(0).__code__.co_filename == __file__
    names: Any = copies.function(0).__globals__
    assert "@pytest_ar" in names  # asserts are rewritten as ever
    copies.reset()
    assert calls(copies, times=1) == [[1, 1, 1]]


def test_nested_functions_share_what_they_close_over_and_nothing_else() -> None:
    collected: list[tuple[int, int]] = []
    module = sys.modules[__name__]

    def helper() -> int:
        return count_here()

    def body(pe: int, *, times: int = 1) -> None:
        body.called = True  # type: ignore[attr-defined]
        collected.extend((pe, helper() + module.COUNT) for _ in range(times))

    body.mark = "kept"  # type: ignore[attr-defined]
    copies = Copies(body, 2)
    for pe in (0, 1, 1):
        call(copies, pe, pe)
    assert collected == [(0, 2), (1, 2), (1, 4)]
    assert COUNT == 0
    assert vars(copies.function(0)) == {"mark": "kept", "called": True}
    assert vars(body) == {"mark": "kept"}
    assert copies.function(1).__name__ == "body"
    assert copies.function(1).__qualname__ == body.__qualname__
    assert copies.function(1).__annotations__ == body.__annotations__ == {"pe": "int", "times": "int", "return": "None"}
    copies.function(0)(7, times=2)
    assert collected[3:] == [(7, 4), (7, 6)]


def test_lambdas_partials_and_methods() -> None:
    assert calls(Copies(lambda: count_here(), 2), 2) == [[1, 1], [2, 2]]
    assert calls(Copies(functools.partial(Counter.add, by=2), 2), 2) == [[2, 2], [4, 4]]
    assert calls(Copies(functools.partial(apply, count_here), 2), 2) == [[1, 1], [2, 2]]
    assert calls(Copies(Counter.add, 2), 2) == [[1, 1], [2, 2]]
    assert calls(Copies(COUNTER, 2), 2) == [[1, 1], [2, 2]]  # a global: each PE has its own
    assert calls(Copies(wrapped, 2), 2) == [[1, 1], [2, 2]]
    assert (Counter.total, COUNT, COUNTER.own) == (0, 0, 0)
    mine = Counter()
    for shared in (mine, mine.__call__):  # objects are taken as they are
        copies = Copies(shared, 2)
        assert [copies.function(0), copies.function(1)] == [shared, shared]
    assert Copies(np.sum, 2).function(1) is np.sum


class Counter:
    total = 0
    own = 0

    @classmethod
    def add(cls, by: int = 1) -> int:
        cls.total += by
        return cls.total

    def __call__(self) -> int:
        self.own += 1
        return self.own


COUNTER = Counter()


def apply(function: Callable[[], int]) -> int:
    return function()


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


@nothing()  # a library makes the function
def wrapped() -> int:
    return count_here()


EXEC = """
import helper_of_exec as helper
from collections import deque
items, q, names, big, lock = [[]], deque(), {"f": None}, object(), None
count, Out = 0, [1]
class State:
    n = 0
state = State()
def add():
    global count
    count += 1
    state.n += 1
    items[0].append(count)
    q.append(helper.add())
    names["f"] = names["f"] or add
    assert names["f"] is add
    assert nested() == held() == count
    ring.append(0)
    assert also is items and ring[0] is ring and len(ring) == count + 1
    return count, state.n, items[0][:], list(q)
also, ring, deep, hidden = items, [], [], []
ring.append(ring)
def nested():
    return (lambda: deep.append(0) or len(deep))()
def make():
    def inner():
        return hidden.append(0) or len(hidden)
    return lambda: inner()
held = make()
table = [{"add": (add,)}]
table.append(table[0])
def main(pe=0):
    assert table[0] is table[1]
    return table[1]["add"][0]()
"""


@pytest.mark.parametrize("globals_of", ["nobody", "nowhere", "this module"])
def test_a_function_without_a_file(write: Write, globals_of: str) -> None:
    write({"helper_of_exec": "n = 0\ndef add():\n    global n\n    n += 1\n    return n"})
    some: dict[str, dict[str, Any]] = {
        "nobody": {}, "nowhere": {"__name__": "nowhere"}, "this module": dict(globals())
    }  # fmt: skip
    names = some[globals_of]
    # classes made without a __name__ belong to nobody: their instances are shared
    exec(EXEC if names else EXEC.replace("state.n += 1", "state.n = count"), names)
    copies = Copies(names["main"], N)
    for _ in range(2):
        assert calls(copies) == [[(1, 1, [1], [1])] * 3, [(2, 2, [1, 2], [1, 2])] * 3]
        copies.reset()
    assert (names["count"], names["items"], names["helper"].n, names["deep"], names["hidden"]) == (0, [[]], 0, [], [])
    assert names["state"].n == (2 if globals_of == "nobody" else 0)
    used = copies.function(0).__globals__
    assert used["Out"] is names["Out"]  # not used: not copied
    assert used["items"] is not names["items"]
