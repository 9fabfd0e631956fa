"""What a search explores, and the way through it.

A `System` is anything that has moves and can make one: a litmus test, whose state is data and can be copied, or a
program whose PEs are tasks, which can only be run again from its start. `Trail` goes forward and back in either.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from ..delivery.facts import Facts, Move
from ..delivery.machine import Machine
from ..errors import NondeterministicProgram


class System(Protocol):
    """Something with moves. All but `perform` change nothing."""

    machine: Machine  # what is in flight

    def moves(self) -> Sequence[Move]:
        """What may happen next, in the usual order; nothing at an end."""

    def blocked(self) -> list[Facts]:
        """The tasks' next steps that may not happen yet."""

    def facts(self, move: Move) -> Facts:
        """What is known of a move."""

    def perform(self, move: Move) -> tuple[object, ...]:
        """Makes a move; returns what it made possible, for `Facts.needs`."""

    def outcome(self) -> Hashable:
        """What there is to see at an end."""

    def mark(self) -> Hashable:
        """A digest of what was told to its tasks: the same after the same moves."""

    def copy(self) -> System | None:
        """The same state, apart; None where there is no copying."""

    def close(self) -> None:
        """It is not needed any more."""


class Trail:
    """The moves made since a start."""

    def __init__(self, start: Callable[[], System]) -> None:
        self._start = start
        self.moves: list[Move] = []
        self.here = start()  # the system after them
        self._states = [self.here]  # after so many moves; one object where it can't be copied
        self._marks = [self.here.mark()]

    def forward(self, move: Move) -> tuple[object, ...]:
        """Makes a move; returns what it made possible."""
        here = self.here = self.here.copy() or self.here
        given = here.perform(move)
        self.moves.append(move)
        self._states.append(here)
        self._marks.append(here.mark())
        return given

    def back(self, n: int) -> None:
        """Takes back all moves but the first n."""
        if n < len(self.moves):
            copied = self._states[n] is not self._states[n + 1]
            del self.moves[n:], self._states[n + 1 :], self._marks[n + 1 :]
            self.here = self._states[n] if copied else self._again()

    def _again(self) -> System:
        """Makes the moves once more from the start; returns the system after them."""
        self.here.close()
        state = self._start()
        for move in self.moves:
            state.perform(move)
        if state.mark() != self._marks[-1]:
            raise NondeterministicProgram(f"a second run of {len(self.moves)} moves told its PEs other things")
        self._states = [state] * len(self._states)
        return state

    def close(self) -> None:
        """Ends it."""
        self.here.close()
