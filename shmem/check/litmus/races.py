"""Litmus tests judged for races: the same statements as calls of `shmem`, explored on `sim`.

What races does not depend on when bytes land, so units below a word are taken to be words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import shmem

from ... import config
from ...delivery.profiles import Profile
from ...fabric.sim import Job, Program
from ..bounds import Bounds
from ..dpor import Search
from ..executions import silenced
from ..races.found import Races
from ..surroundings import live
from ..system import System
from . import as_program
from .model import WORD, Impossible
from .syntax import Test


@dataclass(frozen=True)
class Racy:
    """How many of the executions of a test had a race."""

    racy: int
    executions: int
    complete: bool

    @property
    def found(self) -> str:
        """The strongest verdict that holds: `race`, `race_some`, `clean`; "" where the search does not tell."""
        if self.racy:
            return "race" if self.racy == self.executions else "race_some"
        return "clean" if self.complete else ""

    def satisfies(self, expected: str) -> bool:
        """Whether a verdict of a file holds."""
        return expected == self.found or (expected == "race_some" and self.found == "race")


def judge_races(test: Test, profile: Profile, max_states: int) -> Racy:
    """Explores a test for races under a profile. Raises Impossible where a statement has no call."""
    if problem := as_program.missing(test):
        raise Impossible(f"races are not judged: {problem}")
    for each in (each for given in test.programs.values() for each in given):
        if each.verb == "poll_line":
            raise Impossible(f"races are not judged: line {each.line}: poll_line reads lines that put_lines wrote")
    settings = replace(config.read(warn=False), fabric="sim")
    program = Program(
        lambda pe: _run(test, pe), test.pes, replace(profile, unit=max(profile.unit, WORD)), settings, races="lenient"
    )
    races = Races()

    def ended(system: System, moves: object) -> bool:
        assert isinstance(system, Job)
        races.add(system)
        return False

    with silenced(), live(program):
        found = Search(lambda: Job(program), bounds=Bounds(states=max_states), ended=ended).run()
    return Racy(races.racy, races.executions, found.complete)


def _run(test: Test, pe: int) -> None:
    """What a PE runs."""
    arrays = as_program.memory(test)
    names = sorted({each.context for given in test.programs.values() for each in given if each.context})
    contexts = {name: shmem.ctx_create() for name in names}
    team_of = {members: shmem.team_from_pes(members) for members in as_program.teams(test)}
    shmem.barrier_all()
    here = as_program.Translated(arrays, as_program.private(test), {}, contexts, team_of)
    for statement in test.programs[pe] if pe in test.programs else as_program.meetings(test, pe):
        here.do(statement)
