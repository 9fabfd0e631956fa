"""Every interleaving of a few PEs at the queue of a lock: who has it, in which order, and that nobody is stuck.

The PEs are states of this process, whose fabric does one atomic a turn and raises at the next one. So each turn is also
a call that a signal handler interrupts, and what is shown is that the queue goes on wherever that happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from shmem import lock_queue, waiting
from shmem.errors import PeerDied
from shmem.fabric.interface import Status
from shmem.lock_queue import PASSED, TURN, Place, Step, acquire, advance, attempt, retreat
from shmem.records import Amo

NODE = 64  # the heap offset of the lock; its tail is 4 bytes behind
OUTSIDE = (Step.OUT, Step.GONE, Step.LEFT)
WANTS, TRIES, HAS, GOES = "waits for it", "takes it if free", "has it", "leaves"


class Stop(BaseException):
    """The turn is over, or nothing can be done in it."""


class State(NamedTuple):
    """Of everything: the words, by PE and offset; each PE's place, what it does and how often it will still come; the
    nodes in the queue, in the order of the swaps."""

    words: tuple[tuple[int, int], ...]
    places: tuple[tuple[Any, ...], ...]
    does: tuple[str, ...]
    rounds: tuple[int, ...]
    queue: tuple[int, ...]


class Model:
    """n PEs. `state` is what they are in; `turn` lets one of them do one atomic."""

    def __init__(self, n: int, rounds: int) -> None:
        self.n, self.words = n, [[0, 0] for _ in range(n)]
        self.places = [Place(me, NODE) for me in range(n)]
        settings = SimpleNamespace(timeout_s=math.inf, on_death="abort")
        self.pes: list[Any] = [
            SimpleNamespace(me=me, n=n, fabric=Fabric(self, me), settings=settings, told_dead=set()) for me in range(n)
        ]
        self.does, self.rounds, self.queue, self.left = [GOES] * n, [rounds] * n, [], 0

    def state(self) -> State:
        return State(
            tuple((node, tail) for node, tail in self.words), tuple(map(saved, self.places)),
            tuple(self.does), tuple(self.rounds), tuple(self.queue),
        )  # fmt: skip

    def restore(self, state: State) -> None:
        self.words = [list(words) for words in state.words]
        for place, kept in zip(self.places, state.places, strict=True):
            put_back(place, kept)
        self.does, self.rounds, self.queue = list(state.does), list(state.rounds), list(state.queue)

    def choices(self, me: int) -> Iterator[str]:
        """What a PE may do in its next turn."""
        if self.does[me] != GOES:
            yield self.does[me]
            if self.does[me] == WANTS:
                yield GOES
        elif self.places[me].step not in OUTSIDE:
            yield GOES
        elif self.rounds[me]:
            yield WANTS
            yield TRIES

    def turn(self, me: int, what: str) -> bool:
        """Whether the PE could do anything."""
        before, place, pe = self.state(), self.places[me], self.pes[me]
        if self.does[me] == GOES and what != GOES:
            self.rounds[me] -= 1
        self.does[me], self.left, place.wanted = what, 1, what != GOES
        calls: dict[str, Callable[[], object]] = {
            WANTS: lambda: (advance(pe, place), acquire(pe, place, math.inf)), TRIES: lambda: self.tries(pe, place),
            HAS: lambda: self.go(me), GOES: lambda: retreat(pe, place),
        }  # fmt: skip
        try:
            calls[what]()
            if what in (WANTS, TRIES):
                self.does[me] = HAS if place.step is Step.HELD else GOES
                place.wanted = place.step is Step.HELD
        except Stop:
            pass
        self.check(me)
        return self.state() != before

    def go(self, me: int) -> None:
        self.does[me], self.places[me].wanted = GOES, False

    def tries(self, pe: Any, place: Place) -> None:
        advance(pe, place)
        if place.step is not Step.HELD:
            attempt(pe, place)

    def check(self, me: int) -> None:
        assert self.does.count(HAS) <= 1, "two PEs have the lock"
        ahead = self.queue[: self.queue.index(me)] if self.does[me] == HAS else []
        gone = (*OUTSIDE, Step.RETURN)
        assert all(self.places[other].step in gone for other in ahead), "a PE that came later has the lock"


class Fabric:
    """Of one PE."""

    caps = SimpleNamespace(locks=None)  # nobody is told of locks

    def __init__(self, model: Model, me: int) -> None:
        self.model, self.me = model, me

    def dead(self, *, look: bool) -> list[int]:
        return []

    def disown(self) -> None:
        pass

    def complete(self, q: int, level: object) -> None:
        pass

    def wait(self, condition: Any, seconds: float) -> tuple[Status, int]:
        own, value = self.model.words[self.me][0], int(condition["value"][0])
        if own < value or (value == 0 and own):
            raise Stop
        return Status.OK, 0

    def submit(self, q: int, ops: Any) -> None:
        (op,) = ops
        amo, value, cond = Amo(op["flags"]), int(op["value"]), int(op["cond"])
        words, half = self.model.words[op["pe"]], (int(op["dst"]) - NODE) // 4
        if not (amo is Amo.FETCH and self.model.does[self.me] == TRIES):  # a look before a try is only a hint
            if not self.model.left:
                raise Stop
            self.model.left -= 1
        old = words[half]
        new = {Amo.FETCH: old, Amo.SWAP: value, Amo.OR: old | value, Amo.COMPARE_SWAP: value if old == cond else old}
        words[half] = new[amo]
        ctypes.c_uint32.from_address(int(op["src"])).value = old
        if half and new[amo] and new[amo] != old:
            self.model.queue.append(self.me)
        elif (half and new[amo] == 0 != old) or (amo is Amo.OR and value == PASSED):
            self.model.queue.remove(old - 1 if half else int(op["pe"]))


def saved(place: Place) -> tuple[Any, ...]:
    """What counts of a place: of the results only those that are looked at again."""
    counts = (place.step, Step.LEAVE)
    results = tuple(result if step in counts else 0 for step, result in enumerate(place.results))
    return place.step, place.wanted, results, *(tuple(of) for of in (place.pes, place._values, place._conds))


def put_back(place: Place, kept: tuple[Any, ...]) -> None:
    place.step, place.wanted = kept[:2]
    for into, values in zip((place.results, place.pes, place._values, place._conds), kept[2:], strict=True):
        for i, value in enumerate(values):
            into[i] = value


def explore(n: int, rounds: int) -> tuple[int, int]:
    """All states reached, and those of them in which everybody is done. Raises AssertionError for a wrong one."""
    model = Model(n, rounds)
    seen, todo, ends = set(), [model.state()], 0
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        moved = False
        for me in range(n):
            model.restore(state)
            for what in list(model.choices(me)):
                model.restore(state)
                moved |= model.turn(me, what)
                todo.append(model.state())
        model.restore(state)
        if not moved:
            ends += 1
            assert not any(model.rounds), f"stuck: {state}"
            assert all(words == [0, 0] for words in model.words), f"not zero in the end: {state}"
    return len(seen), ends


@pytest.mark.parametrize(("n", "rounds"), [(1, 2), (2, 1), (2, 2), (3, 1)])
def test_every_interleaving(n: int, rounds: int) -> None:
    states, ends = explore(n, rounds)
    assert ends
    print(states)


class OneDied(Fabric):
    """PE 1 is dead, and a wait ends when it is told to."""

    told: Status | None = None

    def dead(self, *, look: bool) -> list[int]:
        return [1]

    def wait(self, condition: Any, seconds: float) -> tuple[Status, int]:
        if self.told is None:
            return super().wait(condition, seconds)
        return self.told, -1


def queued() -> Model:
    """Three PEs in the queue, of which PE 0 has the lock and PE 1 dies."""
    model = Model(3, 1)
    for me, pe in enumerate(model.pes):
        pe.settings.on_death = "survive"
        model.left = 9
        model.does[me] = WANTS
        model.places[me].wanted = True
        with contextlib.suppress(Stop):
            acquire(pe, model.places[me], math.inf)
    for pe in model.pes:
        pe.fabric = OneDied(model, pe.me)
    assert [place.step for place in model.places] == [Step.HELD, Step.WAITING, Step.WAITING]
    return model


def looks_and_waits(model: Model, me: int) -> None:
    """A PE in the queue asks for the lock again, as after an error."""
    model.left = 99
    acquire(model.pes[me], model.places[me], 5.0)


def test_who_waits_behind_a_dead_pe_is_not_told_that_the_lock_died_while_it_is_passed_on() -> None:
    """Wherever its holder stands meanwhile: after each of its atomics, PE 2 asks."""
    model, turns = queued(), 0
    while not model.words[2][0] >= TURN:
        with pytest.raises(Stop):  # it waits
            looks_and_waits(model, 2)
        model.places[0].wanted, model.left = False, 1
        with contextlib.suppress(Stop):
            retreat(model.pes[0], model.places[0])
        turns += 1
    assert turns > 4
    looks_and_waits(model, 2)
    assert model.places[2].step is Step.HELD


def test_a_lock_whose_holder_died_is_lost() -> None:
    model = queued()
    model.places[0].wanted, model.left = False, 99
    retreat(model.pes[0], model.places[0])
    assert model.words[2][0] >= TURN  # PE 0 has passed PE 1 over
    model.words[2][0] = 0  # had PE 1 died with its turn, PE 0 would have gone
    model.words[1][0] = TURN | 3
    model.pes[2].fabric.told = Status.TIMEOUT
    monotonic = iter([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    with pytest.MonkeyPatch.context() as patch:
        for module in (lock_queue, waiting):
            patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(monotonic)))
        with pytest.raises(PeerDied) as raised:
            looks_and_waits(model, 2)
    assert raised.value.lost_pe == 1
