"""A litmus test in the middle of being run: its PEs, and the delivery machine under them.

Each statement becomes a few steps of its PE (`statements`). A step has a condition under which it may run, what it
touches, and an effect; where a statement waits inside itself (a blocking get, a barrier) it is several steps. All of a
run is data, so that a search can copy it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from ...delivery.facts import Facts, Move, event_facts
from ...delivery.machine import Machine
from ...delivery.memory import Memory
from ...delivery.moves import joined
from ...delivery.profiles import Profile
from ...delivery.requests import Event, Key, Place
from ...errors import ArgumentError
from .model import WORD, Layout, Outcome, Step
from .statements import compiled
from .syntax import VALUES, Sum, Test, Word

ENGINES = ("python", "native")  # of delivery


def machine_of(engine: str) -> type[Machine]:
    """The delivery machine in Python or the one in C. Raises ArgumentError for any other name."""
    if engine == "native":
        from ...delivery.native import NativeMachine

        try:
            from ..._native import _core as _  # noqa: F401  (there may be none: `sim` needs no core)
        except ImportError:
            raise ArgumentError("engine='native': the native core is not built; use engine='python'") from None
        return NativeMachine
    if engine != "python":
        raise ArgumentError(f"engine={engine!r}: use one of {', '.join(ENGINES)}")
    return Machine


class Run:
    """A test in the middle of being run."""

    def __init__(self, test: Test, profile: Profile, engine: str = "python") -> None:
        self.test, self.profile = test, profile
        self.layout = Layout(test, int(test.settings.get("placement", profile.unit)))
        self.machine = machine_of(engine)(profile, self._memory())
        if "recvs" in test.settings:
            self.machine.receives = dict.fromkeys(range(test.pes), int(test.settings["recvs"]))
        self.steps = [compiled(test, profile, self.layout, pe) for pe in range(test.pes)]
        self.at = [0] * test.pes
        self.registers: list[dict[str, int]] = [{} for _ in range(test.pes)]
        self.visits: dict[tuple[int, ...], list[int]] = {}  # of barriers and syncs, by team
        self.told: dict[tuple[int, int], int] = {}  # messages under way
        self.waiting: dict[int, Key] = {}  # the request whose answer a PE waits for
        self.loaded: dict[int, bytes] = {}  # what a PE has read to send it

    def _memory(self) -> Memory:
        memory = Memory()
        for pe in range(self.test.pes):
            memory.spaces[pe] = bytearray(self.layout.heap_bytes)
            memory.spaces["local", pe] = bytearray(self.layout.private_bytes)
            for names, declared, space in (
                (self.layout.symmetric, self.test.symmetric, pe),
                (self.layout.private, self.test.private, ("local", pe)),
            ):
                for name, (count, value) in declared.items():
                    first = names[name]
                    memory.write(Place(space, first, first + count * WORD), value.to_bytes(WORD, "little") * count)
        return memory

    def copy(self) -> Run:
        """The same state, apart."""
        other = Run.__new__(Run)
        other.test, other.profile, other.layout, other.steps = self.test, self.profile, self.layout, self.steps
        other.machine = self.machine.copy()
        other.at = list(self.at)
        other.registers = [dict(each) for each in self.registers]
        other.visits = {team: list(counts) for team, counts in self.visits.items()}
        other.told = dict(self.told)
        other.waiting, other.loaded = dict(self.waiting), dict(self.loaded)
        return other

    def digest(self) -> tuple[object, ...]:
        """All that can still matter, as a hashable value."""
        return (
            tuple(self.at),
            tuple(tuple(sorted(each.items())) for each in self.registers),
            tuple(sorted((team, tuple(counts)) for team, counts in self.visits.items())),
            tuple(sorted(self.told.items())),
            tuple(sorted(self.waiting.items())),
            tuple(sorted(self.loaded.items())),
            self.machine.digest(),
        )

    def step(self, pe: int) -> Step | None:
        """The next step of a PE; None at the end of its program."""
        return self.steps[pe][self.at[pe]] if self.at[pe] < len(self.steps[pe]) else None

    def ready(self) -> list[int]:
        """The PEs that can take their next step."""
        return [pe for pe in range(self.test.pes) if (step := self.step(pe)) is not None and step.ready(self)]

    def take(self, pe: int) -> None:
        """The next step of a PE, which is ready."""
        step = self.step(pe)
        assert step is not None
        self.at[pe] += 1
        step.run(self)

    # ---- for a search (`check.system`) ----

    def moves(self) -> Sequence[Move]:
        """All that may happen next: the PEs that can take a step, and what may be delivered."""
        return joined([self.ready(), self.machine.enabled()])

    def facts(self, move: Move) -> Facts:
        """What is known of a move."""
        if isinstance(move, Event):
            return event_facts(self.machine, move)
        step = self.step(move)
        assert step is not None
        could = None if step.could is None else partial(step.could, self)
        return Facts(move, step.touches(self), partial(step.needs, self), could)

    def blocked(self) -> list[Facts]:
        """The next steps of the PEs that wait."""
        ready = self.ready()
        return [self.facts(pe) for pe in range(self.test.pes) if pe not in ready and self.step(pe) is not None]

    def perform(self, move: Move) -> tuple[object, ...]:
        """Makes one of the moves; returns what it made possible."""
        if isinstance(move, Event):
            return self.machine.fire(move)
        rung = {key for key, request in self.machine.flight.items() if request.rung}
        bells = {name: queue.bells_rung for name, queue in self.machine.queue_pairs.items()}
        posted, told = len(self.machine.known), dict(self.told)
        arrived = {team: counts[team.index(move)] for team, counts in self.visits.items() if move in team}
        self.take(move)
        found: list[object] = [("posted", key) for key in islice(self.machine.known, posted, None)]
        found += self._rung(rung)
        for name, queue in self.machine.queue_pairs.items():
            found += [("bell", *bell) for bell in queue.bells if bell[1] >= bells.get(name, 0)]
        for team, counts in self.visits.items():
            if move in team and (mine := counts[team.index(move)]) != arrived.get(team, 0):
                found.append(("arrived", team, move, mine))
        found += [("told", pair) for pair, count in self.told.items() if count > told.get(pair, 0)]
        return tuple(found)

    def _rung(self, before: set[Key]) -> list[object]:
        """The requests that a move has rung; before: those that were."""
        return [("rung", key) for key, each in self.machine.flight.items() if each.rung and key not in before]

    def outcome(self) -> Outcome:
        """What there is to see at the end: when no PE can go on and nothing is left to deliver."""
        registers = tuple(tuple(sorted(each.items())) for each in self.registers)
        heaps = tuple(bytes(self.machine.memory.spaces[pe][:]) for pe in range(self.test.pes))
        return Outcome(registers, heaps, tuple(pe for pe in range(self.test.pes) if self.step(pe) is not None))

    def mark(self) -> int:
        """A test is data: it does the same again."""
        return 0

    def close(self) -> None:
        """Nothing to end."""

    # ---- for steps ----

    def value(self, pe: int, word: Word) -> int:
        """What a load of one word gives: a register, a private word, or the PE's own symmetric one."""
        place = self.layout.place(pe, word, 1)
        if place is None:
            return self.registers[pe].get(word.name, 0)
        return int.from_bytes(self.read(pe, place), "little")

    def read(self, pe: int, place: Place) -> bytes:
        """A load of a PE."""
        return self.machine.load(pe, place) if place.space == pe else self.machine.memory.read(place)

    def total(self, pe: int, expression: Sum) -> int:
        """The value of a sum."""
        return (expression.constant + sum(self.value(pe, word) for word in expression.words)) % VALUES
