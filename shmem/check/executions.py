"""One execution of a program as a list of choices: making it again, and writing it down.

The moves that are possible stand in the usual order, and a choice is a place in it. Usual is that what is in flight
arrives at once and that a PE goes on as long as it can; a move that was passed over once is late: it comes after all
others, until nothing else is left. So an execution that keeps one delivery back has one choice that is not 0.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ..delivery.facts import Move
from ..delivery.requests import Place
from ..errors import NondeterministicProgram
from ..fabric.sim import Job, Program
from .bounds import MOVES_MAX
from .system import System

Watch = Callable[[Move, bool], None]  # sees each move before it is made, and whether it is late


def no_watch(move: Move, late: bool) -> None:
    """Looks at nothing."""


class Possible:
    """The moves that are possible along one execution, in no order that means anything."""

    def __init__(self) -> None:
        self.late: dict[Move, None] = {}  # passed over, in that order

    def moves(self, system: System) -> Sequence[Move]:
        """The moves that are possible."""
        return system.moves()

    def made(self, moves: Sequence[Move], choice: int) -> None:
        """One of the moves was made."""


class Usual(Possible):
    """The usual order along one execution."""

    def moves(self, system: System) -> Sequence[Move]:
        """The moves that are possible, in the usual order."""
        possible = system.moves()
        return Reordered(possible, self.late) if self.late else possible

    def made(self, moves: Sequence[Move], choice: int) -> None:
        """One of the moves was made."""
        move = moves[choice]
        self.late.update(dict.fromkeys(each for each in islice(moves, choice) if each not in self.late))
        self.late.pop(move, None)


class Reordered(Sequence[Move]):
    """Moves with the late ones behind the others: written out as far as somebody looks. Good for one state."""

    def __init__(self, possible: Sequence[Move], late: Mapping[Move, None]) -> None:
        self._possible, self._late = possible, late

    def __len__(self) -> int:
        return len(self._possible)

    def __getitem__(self, i: Any) -> Any:
        return list(self)[i] if isinstance(i, slice) else next(islice(self, i, None))

    def __iter__(self) -> Iterator[Move]:
        yield from (move for move in self._possible if move not in self._late)
        yield from (move for move in self._late if move in self._possible)

    def __contains__(self, move: object) -> bool:
        return move in self._possible


Choose = Callable[[Sequence[Move]], int]  # the place of the next move among those possible


def run(
    system: System, choose: Choose, max_moves: int = MOVES_MAX, *, watch: Watch = no_watch,
    stop: Callable[[], object] = lambda: False, order: Possible | None = None,
) -> tuple[list[Move], list[int], bool]:  # fmt: skip
    """Makes moves up to an end. stop: whether to end before. order: in which choices count, by default the usual one.
    Returns the moves, their places among those possible, and whether it was cut off for its length."""
    usual, made, choices = order or Usual(), list[Move](), list[int]()
    while not stop() and (moves := usual.moves(system)):
        if len(made) >= max_moves:
            return made, choices, True
        choices.append(choose(moves))
        move = moves[choices[-1]]
        watch(move, move in usual.late)
        usual.made(moves, choices[-1])
        made.append(move)
        system.perform(move)
    return made, choices, False


def follow(
    program: Program, choices: Sequence[int], *, watch: Callable[[Job, Move, bool], None] | None = None,
    to_failure: bool = False,
) -> tuple[Job, list[int]]:  # fmt: skip
    """Runs an execution to its end: the choices given (the last possible one where there are not so many), then the
    usual order. watch: sees each move before it is made, and whether it is late. to_failure: it ends where a PE fails.
    Returns the job at its end, and the choices made."""
    job, given = Job(program), iter(choices)
    looks = no_watch if watch is None else functools.partial(watch, job)

    def choose(moves: Sequence[Move]) -> int:
        return min(next(given, 0), len(moves) - 1)

    made = run(job, choose, watch=looks, stop=lambda: to_failure and job.failure)[1]
    return job, made


def choices_of(program: Program, moves: Sequence[Move], wanted: Job) -> list[int]:
    """The moves of an execution, which led to `wanted`, as places among those possible: it is made once more.

    Raises NondeterministicProgram if that goes another way, ends in another way, or sends or stores anything else.
    """
    with stirred():
        job = Job(program)
        found = _places(job, moves)
        same, told = (job.mark(), job.end()) == (wanted.mark(), wanted.end()), _told(job)
        left = same and _left(job) == _left(wanted)
        job.close()  # not before: what the program does on its way out may be possible moves
    if not same:
        raise NondeterministicProgram(
            f"two runs of the same execution ended differently: {_told(wanted)}, then {told}; {_WHY}"
        )
    if not left:
        raise NondeterministicProgram(f"two runs of the same execution sent or stored different bytes; {_WHY}")
    return found


_WHY = "the time, hash seeds, addresses, files, or objects that outlive a run may be why"


def _places(job: Job, moves: Sequence[Move]) -> list[int]:
    """Makes moves; their places among those possible."""
    usual, found = Usual(), list[int]()
    for move in moves:
        possible = usual.moves(job)
        if move not in possible:
            raise NondeterministicProgram(
                f"a second run of an execution went another way after {len(found)} moves; {_WHY}"
            )
        found.append(possible.index(move))
        usual.made(possible, found[-1])
        job.perform(move)
    return found


def _left(job: Job) -> tuple[object, ...]:
    """What PEs sent, and what is in their blocks: all of a heap would be a gigabyte, most of it never touched."""
    sent = [(key, each.kind, each.at, each.word_update, each.data) for key, each in job.machine.known.items()]
    pes = [(task.pe, task.process.current or task.process.ended) for task in job.tasks.values()]
    blocks = [
        (block.offset, job.machine.memory.read(Place(number, block.offset, block.offset + block.nbytes)))
        for number, pe in pes if pe is not None
        for block in pe.heap.allocations()
    ]  # fmt: skip
    return sent, blocks


@functools.cache
def _mixed(n: int) -> list[int]:
    """The numbers below n in an order that has no rule."""
    return random.Random(0).sample(range(n), n)


@contextlib.contextmanager
def stirred() -> Iterator[None]:
    """New small objects lie in another order than before: what depends on addresses would be the same by chance."""
    made = [bytes(16 * k) for _ in range(1000) for k in range(8)]  # fills the holes
    kept = [made[i] for i in _mixed(len(made))]
    made.clear()
    del kept[len(kept) // 2 :]  # the last one that is freed is the first to be used again
    yield
    kept.clear()


def _told(job: Job) -> str:
    end = job.end()
    return f"{end.kind}: {end.text}" if end.kind else f"the PEs returned {end.what}"


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Nothing is printed on stdout: it would be in each of many executions."""
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        yield
