"""Fence, quiet, barriers, locks, and messages outside the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....delivery import reach
from ....delivery.facts import stores
from ....delivery.requests import Event, Kind, Place, Stage
from ..model import WORD, Step
from ..syntax import Word
from .transfers import Transfers
from .values import nothing

if TYPE_CHECKING:
    from ..run import Run


class Ordering(Transfers):
    """What orders, completes and synchronizes."""

    # ---- order ----

    def _quiet_of(self, run: Run, target: int | None = None) -> bool:
        """Whether nothing is left that a quiet of this context waits for."""
        reached = not self.statement.context and not reach.missed(run.machine, target)
        left = reached and reach.left(run.machine, self.pe, target)
        return not left and not run.machine.pending(self.pe, self.queue, target)

    def _behind_quiet(self, run: Run, target: int | None = None) -> list[Event]:
        """The events behind a quiet."""
        found = self._completed(run, target)
        if self.statement.context or reach.missed(run.machine, target):
            return found
        return found + reach.ends(reach.posted(run.machine, self.pe, target))

    def _fence(self) -> Iterator[Step]:
        yield self._step(lambda run: run.machine.fence(self.pe, self.queue, not self.statement.context))

    def _quiet(self) -> Iterator[Step]:
        yield self._step(nothing, self._quiet_of, needs=self._behind_quiet)
        yield from self._acquire()

    def _pe_quiet(self) -> Iterator[Step]:
        target = self.statement.pes[0]
        yield self._step(
            nothing, lambda run: self._quiet_of(run, target), needs=lambda run: self._behind_quiet(run, target)
        )
        yield from self._acquire()

    def _meet(self, team: tuple[int, ...], quiet: bool) -> Iterator[Step]:
        pe = self.pe
        absent = [each for each in team if each not in self.test.programs]

        def may_arrive(run: Run) -> bool:
            stores = [each for each in run.machine.pending(pe, None) if each.kind is Kind.STORE]
            return self._quiet_of(run) if quiet else not stores

        def arrive(run: Run) -> None:
            run.visits.setdefault(team, [0] * len(team))[team.index(pe)] += 1

        def may_leave(run: Run) -> bool:
            counts = run.visits[team]
            mine = counts[team.index(pe)]
            return all(count >= mine or each in absent for each, count in zip(team, counts, strict=True))

        def stored(run: Run) -> list[object]:
            mine = [each for each in run.machine.known.values() if each.pe == pe and each.kind is Kind.STORE]
            return [event for each in mine for event in each.events(Stage.PLACED)]

        def arrivals(run: Run) -> list[object]:
            mine = run.visits[team][team.index(pe)]
            return [("arrived", team, each, mine) for each in team]

        yield self._step(arrive, may_arrive, needs=self._behind_quiet if quiet else stored)
        yield self._step(nothing, may_leave, needs=arrivals)
        yield from self._acquire()

    def _barrier_all(self) -> Iterator[Step]:
        return self._meet(tuple(range(self.test.pes)), True)

    def _sync_all(self) -> Iterator[Step]:
        return self._meet(tuple(range(self.test.pes)), False)

    def _barrier(self) -> Iterator[Step]:
        return self._meet(tuple(sorted(set(self.statement.pes))), True)

    def _sync(self) -> Iterator[Step]:
        return self._meet(tuple(sorted(set(self.statement.pes))), False)

    # ---- locks and messages ----

    def _lock_word(self) -> Place:
        place = self.layout.place(0, Word(self.statement.name), 1)
        assert place is not None
        return place

    def _lock(self) -> Iterator[Step]:
        place = self._lock_word()
        yield self._step(
            lambda run: run.machine.set(place, (self.pe + 1).to_bytes(WORD, "little")),
            lambda run: not any(run.machine.memory.read(place)),
            lambda run: stores(run.machine, 0, place),
        )
        yield from self._acquire()

    def _unlock(self) -> Iterator[Step]:
        place = self._lock_word()
        yield self._step(
            lambda run: run.machine.set(place, bytes(WORD)),
            self._quiet_of,
            lambda run: stores(run.machine, 0, place),
            self._behind_quiet,
        )

    def _tell(self) -> Iterator[Step]:
        pair = self.pe, self.statement.pes[0]
        yield self._step(lambda run: run.told.__setitem__(pair, run.told.get(pair, 0) + 1))

    def _hear(self) -> Iterator[Step]:
        pair = self.statement.pes[0], self.pe
        yield self._step(
            lambda run: run.told.__setitem__(pair, run.told[pair] - 1),
            lambda run: run.told.get(pair, 0) > 0,
            needs=lambda run: [("told", pair)],
        )
