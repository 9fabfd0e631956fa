"""Each PE has random numbers of its own, the same in every execution."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmem.check.randomness import Randomness
from shmem.errors import ArgumentError

# Every function that draws: arguments that suit it.
PYTHON: dict[str, tuple[Any, ...]] = {
    "random": (), "uniform": (0, 9), "triangular": (0, 9), "randint": (0, 999999), "randrange": (999999,),
    "choice": (range(999999),), "choices": (range(999999),), "sample": (range(999999), 2), "normalvariate": (0, 1),
    "lognormvariate": (0, 1), "expovariate": (1,), "vonmisesvariate": (0, 4), "gammavariate": (1, 2), "gauss": (0, 1),
    "betavariate": (1, 2), "paretovariate": (1,), "weibullvariate": (1, 2), "getrandbits": (40,), "randbytes": (6,),
}  # fmt: skip
NUMPY: dict[str, tuple[Any, ...]] = {
    "rand": (3,), "randn": (3,), "random": (3,), "random_sample": (3,), "ranf": (3,), "sample": (3,), "bytes": (6,),
    "randint": (999999,), "choice": (999999,), "permutation": (20,), "normal": (), "uniform": (), "beta": (1, 2),
    "standard_normal": (3,), "exponential": (), "poisson": (1e6,), "binomial": (10**6, 0.5), "gamma": (2,),
}  # fmt: skip


def draws(pes: Randomness, n: int, draw: Callable[[], object]) -> list[str]:
    """What each PE draws, in an execution."""
    pes.start()
    drawn = []
    for pe in range(n):
        pes.enter(pe)
        drawn.append(repr(draw()))
    pes.enter(None)
    return drawn


@pytest.mark.parametrize(
    ("module", "name", "args"),
    [(module, name, args) for module, table in [(random, PYTHON), (np.random, NUMPY)] for name, args in table.items()],
    ids=lambda value: value.__name__ if isinstance(value, ModuleType) else value if isinstance(value, str) else "",
)
def test_every_pe_draws_its_own_and_the_same_again(module: ModuleType, name: str, args: tuple[Any, ...]) -> None:
    pes, other = Randomness(7, 3), Randomness(8, 3)
    states = random.getstate(), repr(np.random.get_state())
    with pes.patched():
        drawn = getattr(module, name)
        first = draws(pes, 3, lambda: drawn(*args))
        assert len(set(first)) == 3
        assert draws(pes, 3, lambda: getattr(module, name)(*args)) == first
    with other.patched():
        assert not set(draws(other, 3, lambda: getattr(module, name)(*args))) & set(first)
    assert (random.getstate(), repr(np.random.get_state())) == states  # nothing else has drawn


def test_pes_do_not_disturb_each_other() -> None:
    def some() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(np.random.default_rng().random())

    pes = Randomness(0, 2)
    with pes.patched():
        one_by_one = []
        for pe in range(2):
            pes.enter(pe)
            one_by_one.append([some() for _ in range(3)])
        pes.start()
        in_turn: list[list[Any]] = [[], []]
        for _ in range(3):
            for pe in range(2):
                pes.enter(pe)
                in_turn[pe].append(some())
    assert in_turn == one_by_one
    assert len({value for drawn in in_turn for three in drawn for value in three}) == 18


def test_seeds_and_states_are_the_pes() -> None:
    pes = Randomness(0, 2)
    before = random.getstate(), repr(np.random.get_state())
    with pes.patched():
        pes.enter(0)
        random.seed(5)
        np.random.seed(5)
        assert random.random() == random.Random(5).random()
        assert np.random.rand() == np.random.RandomState(5).random_sample()
        states = random.getstate(), np.random.get_state()
        expected = random.random(), np.random.rand()
        pes.enter(1)
        assert (random.random(), np.random.rand()) != expected
        random.setstate(states[0])
        np.random.set_state(states[1])
        assert (random.random(), np.random.rand()) == expected
        pes.start()
        pes.enter(0)
        assert random.random() != random.Random(5).random()  # a seed lasts for an execution
    assert (random.getstate(), repr(np.random.get_state())) == before


def test_default_rng() -> None:
    pes = Randomness(4, 3)
    with pes.patched():
        for _ in range(2):
            pes.start()
            pes.enter(2)
            for k in range(3):
                assert np.random.default_rng().random() == np.random.Generator(np.random.PCG64([4, 2, k])).random()
            for seed in (9, [1, 2], np.random.SeedSequence(3)):
                assert np.random.default_rng(seed).random() == np.random.Generator(np.random.PCG64(seed)).random()
            given = np.random.default_rng(seed=1)
            assert np.random.default_rng(given) is given
        pes.enter(None)
        assert np.random.default_rng().random() != np.random.default_rng().random()


def test_outside_of_a_pe_nothing_is_different() -> None:
    python, numpy = random.Random(3), np.random.RandomState(3)
    before = random.getstate(), np.random.get_state()
    try:
        with Randomness(0, 2).patched():
            random.seed(3)
            np.random.seed(3)
            assert [random.random(), random.randint(0, 99)] == [python.random(), python.randint(0, 99)]
            assert [np.random.rand(), np.random.sample()] == [numpy.rand(), numpy.random_sample()]
        assert random.random() == python.random()
        assert np.random.rand() == numpy.rand()
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def test_everything_is_put_back() -> None:
    before = dict(vars(random)), dict(vars(np.random))
    with pytest.raises(KeyError), Randomness(0, 1).patched():  # noqa: PT012
        assert random.random is not before[0]["random"]
        assert np.random.default_rng is not before[1]["default_rng"]
        raise KeyError
    assert (dict(vars(random)), dict(vars(np.random))) == before


def test_every_function_of_the_hidden_streams_is_replaced() -> None:
    streams = random._inst, np.random.mtrand._rand
    with Randomness(0, 1).patched():
        for module in (random, np.random):
            left = [name for name, value in vars(module).items() if getattr(value, "__self__", None) in streams]
            assert left == []
    assert set(PYTHON) >= {
        name for name in random.__all__ if name[0].islower() and name not in ("seed", "getstate", "setstate", "shuffle")
    } - {"binomialvariate"}


def test_what_was_imported_by_name_is_bound_late() -> None:
    pes, names = Randomness(1, 2), dict[str, Any]()
    with pes.patched():
        exec("from random import randint\nfrom numpy.random import rand, default_rng as rng", names)

        def draw() -> Any:
            return [names["randint"](0, 10**6), names["rand"](), names["rng"]().random()]

        assert draws(pes, 2, draw) == draws(pes, 2, lambda: [random.randint(0, 10**6), np.random.rand(),
                                                            np.random.default_rng().random()])  # fmt: skip
    state = random.getstate()
    drawn = names["randint"](0, 10**6)  # long afterwards
    random.setstate(state)
    assert drawn == random.randint(0, 10**6)


def test_one_within_another() -> None:
    outer, inner = Randomness(1, 1), Randomness(2, 1)
    with outer.patched():
        outer.enter(0)
        expected = [random.random() for _ in range(2)]
        outer.start()
        with inner.patched():
            assert random.random() == expected[0]  # no PE of the inner one is there
            inner.enter(0)
            assert random.random() not in expected
        assert random.random() == expected[1]


def test_enter_says_who_was_there() -> None:
    pes = Randomness(0, 3)
    assert [pes.enter(2), pes.enter(0), pes.enter(None), pes.enter(None)] == [None, 2, 0, None]


def test_seeds_are_from_0_up() -> None:
    with pytest.raises(ArgumentError, match="seed=-1: must be a number from 0 up"):
        Randomness(-1, 2)
