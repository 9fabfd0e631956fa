"""The races of many executions: each pair of lines once, with how often it showed."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ArgumentError
from ...fabric.sim import Job
from .accesses import Race
from .judge import Judge
from .rules import MODES

MORE = 200  # executions that are looked at after the first race, if no more was asked for


def mode_of(races: object) -> str:
    """How races are judged, "" for not at all. Raises ArgumentError for what is no way to."""
    if races is None or races is False:
        return ""
    if races not in MODES:
        raise ArgumentError(f"races={races!r}: say {' or '.join(map(repr, MODES))}, or False")
    return str(races)


def races_of(job: Job) -> list[Race]:
    """The races of an execution, each pair of lines once."""
    return [] if job.observed is None else Judge(job.program.races).run(job.observed.events)


@dataclass
class _Pair:
    race: Race
    executions: int


class Races:
    """What a search saw."""

    def __init__(self) -> None:
        self.executions = 0
        self.racy = 0  # with any race
        self._pairs: dict[tuple[object, ...], _Pair] = {}

    def add(self, job: Job) -> list[Race]:
        """Counts an execution; the races that were not seen before."""
        found, new = races_of(job), []
        self.executions += 1
        self.racy += bool(found)
        for race in found:
            if race.key in self._pairs:
                self._pairs[race.key].executions += 1
            else:
                self._pairs[race.key] = _Pair(race, 1)
                new.append(race)
        return new

    def how_often(self, race: Race) -> str:
        """In how many executions a race showed, in words."""
        return f"shows in {self._pairs[race.key].executions} of {self.executions} executions"
