"""Sums, loads and stores: what every statement begins or ends with, and the waits for an own word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ....delivery.facts import Touch, Undone, acquires, could_acquire, fenced, stores, without
from ....delivery.profiles import Profile
from ....delivery.requests import Place
from ..model import COMPARE, WORD, Layout, Step
from ..syntax import VALUES, Statement, Sum, Test, Word

if TYPE_CHECKING:
    from ..run import Run


class Values:
    """The steps of one statement of one PE; the other classes of this package add verbs."""

    def __init__(self, test: Test, profile: Profile, layout: Layout, pe: int, statement: Statement) -> None:
        self.test, self.profile, self.layout, self.pe, self.statement = test, profile, layout, pe, statement
        self.queue = ("ctx", pe, statement.context)

    def steps(self) -> Iterator[Step]:
        return getattr(self, f"_{self.statement.verb}")()  # type: ignore[no-any-return]

    def _step(
        self, run: Callable[[Run], None], ready: Any = None, touches: Any = None, needs: Any = None, could: Any = None
    ) -> Step:
        given = {"ready": ready, "touches": touches, "needs": needs, "could": could}
        return Step(self.statement, run, **{name: value for name, value in given.items() if value is not None})

    # ---- values ----

    def _loads(self, expression: Sum, name: str) -> Iterator[Step]:
        """Loads the words of a sum that lie in memory, one a step, into the hidden register `name`."""
        pe, hidden = self.pe, f".{name}"
        yield self._step(lambda run: run.registers[pe].__setitem__(hidden, expression.constant))
        for word in expression.words:
            place = self.layout.place(pe, word, 1)

            def add(run: Run, word: Word = word) -> None:
                registers = run.registers[pe]
                registers[hidden] = (registers[hidden] + run.value(pe, word)) % VALUES

            yield self._step(add, touches=None if place is None else self._load(place))

    def _load(self, place: Place) -> Callable[[Run], tuple[Touch, ...]]:
        """What a plain load touches."""
        return lambda run: (Touch(run.machine.plain(self.pe, place), False),)

    def _acquire(self) -> Iterator[Step]:
        """After what acquires: all that is placed is seen."""
        if self.profile.reader == "lazy":
            pe = self.pe
            yield self._step(
                nothing,
                lambda run: not run.machine.unseen(pe),
                lambda run: acquires(run.machine, pe),
                could=lambda run, undone: could_acquire(run.machine, pe, undone),
            )

    def _hidden(self, run: Run, name: str) -> int:
        return run.registers[self.pe].pop(f".{name}")

    def _put_value(self, run: Run, word: Word, value: int) -> None:
        place = self.layout.place(self.pe, word, 1)
        data = value.to_bytes(WORD, "little") * (word.hi - word.lo)
        if place is None:
            run.registers[self.pe][word.name] = value
        elif place.space == self.pe:
            run.machine.store(self.pe, place, data)
        else:
            run.machine.memory.write(place, data)

    def _stores(self, word: Word) -> Callable[[Run], tuple[Touch, ...]] | None:
        place = self.layout.place(self.pe, word, 1)
        delayed = self.profile.stores != "coherent" and place is not None and place.space == self.pe
        # A delayed store is no access yet: its placement is. But the PE's own loads see it.
        return (lambda run: stores(run.machine, self.pe, place)) if place is not None and not delayed else None

    def _assign(self) -> Iterator[Step]:
        statement = self.statement
        yield from self._loads(statement.values[0], "sum")
        word = statement.word
        assert word is not None
        run, touches = lambda run: self._put_value(run, word, self._hidden(run, "sum")), self._stores(word)
        pe, place = self.pe, self.layout.place(self.pe, word, 1)
        if touches is None or place is None or place.space != pe:
            yield self._step(run, touches=touches)
        else:  # it takes effect at once
            free, needs = lambda run: not run.machine.holds_back(pe, pe), lambda run: fenced(run.machine, pe, pe)
            yield self._step(run, free, touches, needs)

    def _until(self, plain: bool) -> Iterator[Step]:
        """Waits for an own word: as a plain load gives it, or as it is in memory."""
        statement, pe = self.statement, self.pe
        word = statement.word
        assert word is not None
        place = self.layout.place(pe, word, 1)
        assert place is not None
        yield from self._loads(statement.values[0], "wanted")

        def where(run: Run) -> Place:
            return run.machine.plain(pe, place) if plain and place.space == pe else place

        def could(run: Run, undone: Undone) -> bool:
            at = where(run)
            value = int.from_bytes(without(undone, at, run.machine.look(pe, at)), "little")
            return COMPARE[statement.op](value, run.registers[pe][".wanted"])

        def holds(run: Run) -> bool:
            return could(run, [])

        def go_on(run: Run) -> None:
            self._hidden(run, "wanted")

        yield self._step(go_on, holds, lambda run: (Touch(where(run), False),), could=could)

    def _wait(self) -> Iterator[Step]:
        yield from self._until(False)
        yield from self._acquire()

    _signal_wait = _wait

    def _poll(self) -> Iterator[Step]:
        return self._until(True)

    def _poll_line(self) -> Iterator[Step]:
        return self._until(False)


def nothing(run: Run) -> None:
    """A step that only waits."""
