"""What a program finds around it: modules of its own for each PE, and random numbers that are the same in every run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..fabric.sim import Program
from ..runtime import started
from .collector import calm
from .modules import Copies
from .randomness import Randomness

SEED = 0  # of the random numbers: a token names an execution without them


class Surroundings:
    """Of one program and its n PEs (`fabric.sim.Around`). instrument: its file tells of private arrays. Raises what
    importing the program's modules raises."""

    def __init__(self, program: Callable[..., Any], n: int, instrument: bool = False) -> None:
        self._randomness = Randomness(SEED, n)
        with self._randomness.patched():
            self._copies = Copies(program, n, instrument)

    def function(self, pe: int) -> Callable[..., Any]:
        """A PE's own version of the program."""
        return self._copies.function(pe)

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """While runs are made."""
        try:
            with self._randomness.patched():
                yield
        finally:
            self._copies.leave()

    def begin(self) -> None:
        """A new run: all is as after import."""
        self._copies.reset()
        self._randomness.start()

    def enter(self, pe: int) -> None:
        """A task of that PE goes on."""
        self._copies.enter(pe)
        self._randomness.enter(pe)

    def leave(self) -> None:
        """The caller's code goes on."""
        self._randomness.enter(None)


@contextlib.contextmanager
def live(program: Program) -> Iterator[None]:
    """While runs of a program are made, in a process that may be a PE itself."""
    outer = started()
    with (
        calm(),
        contextlib.nullcontext() if outer is None else outer.fabric.paused(),
        program.around.live() if isinstance(program.around, Surroundings) else contextlib.nullcontext(),
    ):
        yield
