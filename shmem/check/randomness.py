"""Each PE has random numbers of its own, the same in every execution.

While `Randomness.patched` lasts, the functions of `random` and of `np.random` that work on a hidden global stream work
on one of the PE that is there, and `np.random.default_rng()` without a seed gives the PE's next generator. They ask who
is there when they are called, so a program may have imported them by name. Outside of a PE they do what they did
before. Not covered: generators of the program's own (`random.Random()`, `np.random.Generator(...)`), `os.urandom`,
`secrets`, and other libraries'.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import ArgumentError

Function = Callable[..., Any]


def _methods_of(module: ModuleType, stream: object) -> dict[str, str]:
    """The functions of a module that are methods of its global stream, and the names of those methods."""
    named = vars(module).items()
    return {name: value.__name__ for name, value in named if getattr(value, "__self__", None) is stream}


_RANDOM = _methods_of(random, random._inst)
_NUMPY = _methods_of(np.random, np.random.mtrand._rand)
_NUMPY |= {"seed": "seed", "ranf": "random_sample", "sample": "random_sample"}  # functions that call a method


class Randomness:
    """The streams of n PEs, all made from `seed`, a number from 0 up, else ArgumentError. No PE is there at first."""

    def __init__(self, seed: int, n: int) -> None:
        if seed < 0:
            raise ArgumentError(f"seed={seed}: must be a number from 0 up")
        self._seeds = [[seed, pe] for pe in range(n)]
        self._pe: int | None = None
        self.start()

    def start(self) -> None:
        """Begins an execution: all streams begin anew."""
        self._python: dict[int, random.Random] = {}  # made where they are needed
        self._numpy: dict[int, np.random.RandomState] = {}
        self._generators = [0] * len(self._seeds)  # how many a PE has made

    def enter(self, pe: int | None) -> int | None:
        """Says which PE is there, None for none; returns which was."""
        before, self._pe = self._pe, pe
        return before

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Replaces the functions of `random` and `np.random` for its duration."""
        modules: list[tuple[ModuleType, dict[str, Function]]] = [
            (random, self._late(random, _RANDOM, self._python_stream)),
            (np.random, self._late(np.random, _NUMPY, self._numpy_stream)),
            (np.random, {"default_rng": self._default_rng(np.random.default_rng)}),
        ]
        before = [(module, {name: getattr(module, name) for name in functions}) for module, functions in modules]
        try:
            for module, functions in modules:
                vars(module).update(functions)
            yield
        finally:
            for module, functions in before:
                vars(module).update(functions)

    def _late(self, module: ModuleType, names: dict[str, str], stream: Callable[[int], Any]) -> dict[str, Function]:
        """By name, functions that work on the stream of the PE that is there, else as the module's do now."""

        def late(original: Function, method: str) -> Function:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                chosen = original if self._pe is None else getattr(stream(self._pe), method)
                return chosen(*args, **kwargs)

            return call

        return {name: late(getattr(module, name), method) for name, method in names.items()}

    def _python_stream(self, pe: int) -> random.Random:
        if pe not in self._python:
            self._python[pe] = random.Random(repr(self._seeds[pe]))
        return self._python[pe]

    def _numpy_stream(self, pe: int) -> np.random.RandomState:
        if pe not in self._numpy:
            self._numpy[pe] = np.random.RandomState(np.random.MT19937(self._seeds[pe]))
        return self._numpy[pe]

    def _default_rng(self, original: Function) -> Function:
        @functools.wraps(original)
        def default_rng(seed: Any = None) -> Any:
            if self._pe is None or seed is not None:
                return original(seed)
            count = self._generators[self._pe]
            self._generators[self._pe] += 1
            return original([*self._seeds[self._pe], count])

        return default_rng
