"""Exploring a program: `explore` runs it under a strategy, `replay` runs one of its executions again."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from .. import config
from ..delivery.facts import Move
from ..delivery.model import Model, model
from ..delivery.profiles import Profile
from ..delivery.profiles import profile as profile_named
from ..errors import ArgumentError, StateLimit
from ..fabric.sim import Job, Program
from . import story, timeline, tokens
from .bounds import MOVES_MAX, STATES_MAX, Bounds, parse_budget
from .executions import choices_of, follow, silenced
from .instrument.asked import is_asked
from .races.accesses import Race
from .races.found import MORE, Races, mode_of, races_of
from .report import Failure, Report
from .shrink import shrunk
from .strategies import STRATEGIES
from .surroundings import Surroundings, live
from .system import System


def explore(
    program: Callable[..., Any], n_pes: int = 2, profile: str | Profile | None = None, strategy: str = "exhaustive", *,
    args: Sequence[Any] = (), budget: float | str | None = None, seed: int = 0, keep_going: bool = False,
    max_states: int = STATES_MAX, max_moves: int = MOVES_MAX, max_polls: int = 3, shrink: bool = True,
    twice: bool = False, trace: str | os.PathLike[str] | None = None, leaks: bool = False,
    races: str | bool = False, complete: bool = False,
) -> Report:  # fmt: skip
    """Runs a program with n PEs on `sim`, again and again, and tells what can happen.

    program: a function of no arguments, of the PE's number, or of `args`; what it returns, as a value that can be
    compared, is the PE's outcome. profile: a delivery profile, by name or as one, default `openshmem`. strategy:
    "exhaustive" (every order that can be told apart), "eager" (every order, slow), "random", "pct", "delay". budget:
    seconds ("60s", 60.0) or executions (1000); without one, sampling takes 1000 executions. keep_going: look for more
    than the first failure. max_states, max_moves: bounds of the search and of one execution. max_polls: how often a
    loop may look without `shmem.spin()` and see the same, before it is taken to wait for a change. shrink: make
    failures short. twice: make every execution a second time and compare (the first one and failures always are).
    leaks: symmetric memory that was not freed at the end is a failure of kind "leak". races: "lenient" or "strict": two
    accesses that nothing orders are a failure of kind "race"; such a failure does not end the search, but without
    `keep_going` it ends 200 executions later.
    trace: a file for the timeline of the first failure, else of the usual order, as Trace Event JSON.
    complete: nothing but all of it will do.
    Returns when the search is over. Raises ArgumentError, NondeterministicProgram for a program that does something
    else when it is run again, and with `complete` StateLimit where no failure was found and a bound was met; what the
    program raises is a failure in the report. What it prints is not shown: `replay` shows it.
    """
    _count("max_moves", max_moves)
    made = prepare(
        program, n_pes, profile, args, max_polls, leaks=leaks, races=races, max_calls=min(max_moves, CALLS_MAX)
    )
    if strategy not in list(STRATEGIES):
        raise ArgumentError(f"there is no strategy {strategy!r}: there are {', '.join(STRATEGIES)}")
    seconds, executions = parse_budget(budget)
    if seconds is None and executions is None and strategy in ("random", "pct"):
        executions = 1000
    bounds = Bounds(seconds, executions, _count("max_states", max_states), max_moves)
    if trace is not None:
        timeline.prepare(trace)
    report = _Exploration(made, bounds, strategy, seed, keep_going, shrink, twice, named(program)).run()
    if trace is not None:
        _trace(made, report, report.failures[0].choices if report.failures else [], trace)
    if complete and report.ok and not report.complete:
        raise StateLimit(f"the search was not complete\n{report}", report=report)
    return report


def _trace(program: Program, report: Report, choices: Sequence[int], path: str | os.PathLike[str]) -> None:
    """Writes the timeline of an execution."""
    said = report.failures[0] if report.failures else None
    what: dict[str, str | int] = {"failure": f"{said.kind}: {said.text}", "token": said.token} if said else {}
    about = {"program": report.program, "n_pes": report.n_pes, "profile": report.profile, **what}
    with silenced(), live(program):
        timeline.write(program, choices, path, about)


def prepare(
    program: Callable[..., Any], n_pes: int, profile: str | Profile | None, args: Sequence[Any], max_polls: int = 3, *,
    clock: str | Model | None = None, ties: int | None = None, leaks: bool = False, races: str | bool = False,
    max_calls: int = 0,
) -> Program:  # fmt: skip
    """A program as `sim` runs it. Raises ArgumentError."""
    if not callable(program):
        raise ArgumentError(f"{program!r} is no function")
    if inspect.iscoroutinefunction(program) or inspect.isgeneratorfunction(program):
        raise ArgumentError(f"{named(program)} is asynchronous or a generator: calling it would run nothing of it")
    _count("n_pes", n_pes)
    _count("max_polls", max_polls)
    settings = replace(config.read(warn=False), fabric="sim")
    if leaks and settings.log == "error":  # then finalize would not tell
        settings = replace(settings, log="warning")
    chosen = profile_named(profile if profile is not None else None)
    call = call_of(program, args)
    mode = mode_of(races)
    around = Surroundings(program, n_pes, instrument=bool(mode) and is_asked())
    identity = tokens.digest(_source(program), n_pes, _spelled(chosen), args, max_polls)
    timed = None if clock is None else model(clock)
    body = lambda pe: call(around.function(pe), pe)  # noqa: E731
    return Program(body, n_pes, chosen, settings, max_polls, identity, around, timed, ties, leaks, mode, max_calls)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{name}={value!r}: must be a number from 1 up")
    return value


def call_of(program: Callable[..., Any], args: Sequence[Any]) -> Callable[[Callable[..., Any], int], Any]:
    """How a PE calls its version of the program. Raises ArgumentError if it takes other arguments."""
    try:
        signature = inspect.signature(program)
    except (TypeError, ValueError):
        return lambda own, pe: own(*args)
    for given in [tuple(args)] if args else [(), (0,)]:
        try:
            signature.bind(*given)
        except TypeError:
            continue
        if args or not given:
            return lambda own, pe: own(*args)
        return lambda own, pe: own(pe)
    raise ArgumentError(f"{named(program)}{signature} takes neither {'args' if args else 'nothing nor the PE'}")


def named(program: Callable[..., Any]) -> str:
    """What a program is called."""
    return getattr(program, "__qualname__", repr(program)).replace("<locals>.", "")


def _source(program: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(program)
    except (OSError, TypeError):
        return repr(program)


def _spelled(profile: Profile) -> list[tuple[str, object]]:
    """A profile in the same words in every process: sets have another order in each. What is off is left out, so that
    tokens outlive new fields."""
    values = sorted((name, value) for name, value in asdict(profile).items() if profile.stripes > 1 or name not in _OFF)
    return [(name, sorted(value) if isinstance(value, frozenset) else value) for name, value in values]


_OFF = ("stripes", "stripe_bytes")
CALLS_MAX = 500  # of a PE in one go
LINES = "lines ask more than OpenSHMEM promises: they were judged by what the profile {} places at once"


class _Exploration:
    """One call of `explore`."""

    def __init__(
        self,
        program: Program,
        bounds: Bounds,
        strategy: str,
        seed: int,
        keep_going: bool,
        shrink: bool,
        twice: bool,
        name: str,
    ) -> None:
        self.program, self.bounds, self.strategy, self.seed = program, bounds, strategy, seed
        self.keep_going, self.shrink, self.twice = keep_going, shrink, twice
        self.report = Report(name, program.n, program.profile.name, strategy, seed, program.races)
        self.unspun: set[str] = set()
        self.endless: set[str] = set()
        self.held = 0  # executions in which a PE was, for it called and called
        self.kinds: set[tuple[object, ...]] = set()
        self.races = Races()
        self.asks_more = False
        self.last = 0  # execution that is looked at, once there was a race
        self.found: list[tuple[Race, Failure]] = []

    def run(self) -> Report:
        with silenced(), live(self.program):
            return self._run()

    def _run(self) -> Report:
        report, start = self.report, time.monotonic()
        found = STRATEGIES[self.strategy](lambda: Job(self.program), self.bounds, self.seed, self._ended)
        report.executions, report.states, report.cut = found.executions, found.states, found.cut + self.held
        report.complete, report.chance = found.complete and not (self.unspun or self.endless), found.chance
        report.delays = found.delays
        if found.cut:
            report.notes.append(f"{found.cut} executions were cut off after {self.bounds.moves} moves")
        for line in sorted(self.unspun):
            report.notes.append(f"{line}: a loop looks without shmem.spin(), and was not followed for ever")
        for line in sorted(self.endless):
            calls = self.program.max_calls
            report.notes.append(f"{line}: {calls} calls that nobody else could see, and was not followed for ever")
        if self.asks_more:
            report.notes.append(LINES.format(report.profile))
        for race, failure in self.found:
            failure.text = f"{race}; {self.races.how_often(race)}"
        for failure in report.failures:
            story.tell(self.program, failure)
        report.seconds = time.monotonic() - start
        return report

    def _ended(self, system: System, moves: Sequence[Move]) -> bool:
        """Counts an execution, and looks closer at a failure; whether to stop."""
        assert isinstance(system, Job)
        self.unspun |= system.unspun
        self.endless |= system.endless
        self.held += bool(system.endless) and not system.moves()  # else it was cut off besides
        enough = self._judge(system, moves)
        end = system.end()
        if not end.kind:
            self.report.outcomes[end.what] += 1
            if self.twice or self.report.outcomes.total() == 1:
                choices_of(self.program, moves, system)
            return enough
        if end.kind == "cut" or end.what in self.kinds:
            return enough
        self.kinds.add(end.what)
        choices = choices_of(self.program, moves, system)
        if self.shrink:
            choices = shrunk(self.program, choices, end)
        token = tokens.encode(self.program.identity, choices)
        self.report.failures.append(Failure(end.kind, end.who, end.text, token, choices, end.error))
        return not self.keep_going

    def _judge(self, job: Job, moves: Sequence[Move]) -> bool:
        """Counts the races of an execution; whether there were enough executions."""
        if job.observed is None:
            return False
        self.asks_more = self.asks_more or job.observed.asks_more
        if new := self.races.add(job):
            choices = choices_of(self.program, moves, job)
            token = tokens.encode(self.program.identity, choices)
            for race in new:
                self.found.append((race, failure := Failure("race", race.second.task, "", token, choices)))
                self.report.failures.append(failure)
            self.last = self.last or self.races.executions + MORE
        return not self.keep_going and 0 < self.last <= self.races.executions


def replay(
    program: Callable[..., Any], token: str, n_pes: int = 2, profile: str | Profile | None = None, *,
    args: Sequence[Any] = (), max_polls: int = 3, trace: str | os.PathLike[str] | None = None, leaks: bool = False,
    races: str | bool = False,
) -> Report:  # fmt: skip
    """Runs the execution that a token names once more. Arguments as `explore`; the timeline is that of this execution.

    Raises ReplayMismatch if the program changed since, ArgumentError for what is no token.
    """
    made = prepare(program, n_pes, profile, args, max_polls, leaks=leaks, races=races)
    choices = tokens.decode(token, made.identity)
    if trace is not None:
        timeline.prepare(trace)
    report = Report(named(program), n_pes, made.profile.name, "replay", 0, made.races, executions=1)
    with live(made):
        job, _ = follow(made, choices)
        end, pairs = job.end(), races_of(job)
        job.close()
        if job.observed is not None and job.observed.asks_more:
            report.notes.append(LINES.format(report.profile))
        for race in pairs:
            failure = Failure("race", race.second.task, str(race), token, choices)
            with silenced():
                story.tell(made, failure)
            report.failures.append(failure)
        if end.kind:
            failure = Failure(end.kind, end.who, end.text, token, choices, end.error)
            with silenced():
                story.tell(made, failure)
            report.failures.append(failure)
        elif not pairs:
            report.outcomes[end.what] += 1
    if trace is not None:
        _trace(made, report, choices, trace)
    return report
