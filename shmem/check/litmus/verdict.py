"""Judging a litmus test: what its exhaustive search finds, against what the file says of a profile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ...delivery.profiles import Profile, profile
from ..bounds import Bounds
from ..dpor import Search
from .model import Impossible, Outcome
from .races import Racy, judge_races
from .run import Run
from .syntax import Test

STATES_MAX = 1_000_000
RACES = ("race", "race_some", "clean")  # verdicts of the race detector


@dataclass(frozen=True)
class Judgement:
    """What a search of one test under one profile found. `expected` is "" where the file does not say."""

    test: Test
    profile: str
    expected: str
    outcomes: Counter[Outcome]  # by executions
    hits: int  # executions with the outcome asked about
    states: int
    complete: bool
    races: Racy | None = None  # where the file asks for them
    problem: str = ""  # why the test could not be run, or a PE that was blocked and should not

    @property
    def found(self) -> str:
        """`allowed` or `forbidden`, or what there is of races where the file asks for that; "" if unknown."""
        if self.races is not None:
            return self.races.found
        if self.problem or self.test.outcome is None:
            return ""
        return "allowed" if self.hits else "forbidden" if self.complete else ""

    @property
    def how_often(self) -> str:
        """`always`, `sometimes` or `never`: how many of the different executions have the outcome; "" without one."""
        if self.test.outcome is None:
            return ""
        total = sum(self.outcomes.values())
        return "never" if not self.hits else "always" if self.hits == total else "sometimes"

    @property
    def right(self) -> bool:
        """Whether nothing found contradicts the file."""
        if self.problem or not self.expected:
            return not self.problem
        return self.races.satisfies(self.expected) if self.races is not None else self.found == self.expected


def judge(test: Test, which: str | Profile, max_states: int = STATES_MAX, engine: str = "python") -> Judgement:
    """Searches all executions of a test under a profile.

    The test's `placement` and `units` replace those of the profile. engine: the delivery machine in Python, or the one
    in C, "native"; races are judged in Python. Raises ArgumentError for an unknown profile or engine.
    """
    chosen = profile(which)
    if "placement" in test.settings:
        chosen = replace(chosen, unit=int(test.settings["placement"]))
    chosen = replace(chosen, units=str(test.settings.get("units", chosen.units)))
    expected = test.verdicts.get(chosen.name, "")
    try:
        first = Run(test, chosen, engine)
        found = Search(lambda: Run(test, chosen, engine), bounds=Bounds(states=max_states)).run()
        races = judge_races(test, chosen, max_states) if expected in RACES else None
    except Impossible as error:
        return Judgement(test, chosen.name, expected, Counter(), 0, 0, False, problem=str(error))
    asked = test.outcome
    hits = sum(n for end, n in found.outcomes.items() if asked is not None and end.satisfies(test, first.layout))
    stuck = sorted({pe for end in found.outcomes for pe in end.blocked})
    problem = ""
    if stuck and not test.asks_blocked:
        problem = (
            f"PE {', '.join(map(str, stuck))} waits for ever in some executions, and the outcome does not ask for it"
        )
    ends = Counter(found.outcomes)
    return Judgement(test, chosen.name, expected, ends, hits, found.states, found.complete, races, problem)
