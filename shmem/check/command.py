"""`shmemu check`: explores a function of a file, or replays one of its executions."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ArgumentError
from .bounds import STATES_MAX
from .exploration import explore
from .exploration import replay as again
from .instrument.asked import instrumented
from .loading import load, parted
from .report import Report
from .saved import is_file, read, save

COMMAND = "shmemu check"


def register(app: typer.Typer) -> None:
    """Adds the command `check` to `app`."""
    app.command()(check)


def check(
    program: Annotated[
        str | None, typer.Argument(metavar="FILE[::FUNCTION]", help="What each PE runs; FUNCTION is main by default.")
    ] = None,
    pes: Annotated[int | None, typer.Option("-n", "--pes", help="PEs, 2 by default.", show_default=False)] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="How messages may arrive; openshmem by default.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="exhaustive, eager, random, pct or delay.")
    ] = "exhaustive",
    budget: Annotated[
        str | None, typer.Option(metavar="TIME|N", help="Stop after 60s, 5m, or a number of executions.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of random and pct.")] = 0,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Look for more than the first failure.")] = False,
    replay: Annotated[
        str | None, typer.Option(metavar="TOKEN|FILE", help="Run one execution again: of a token or a saved failure.")
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Exit code 3 if there was more to look at than the budget allowed.")
    ] = False,
    twice: Annotated[
        bool, typer.Option("--twice", help="Make every execution a second time: one that differs is told.")
    ] = False,
    leaks: Annotated[
        bool, typer.Option("--leaks", help="Symmetric memory that is not freed at the end is a failure.")
    ] = False,
    races: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Two accesses that nothing orders are a failure: lenient or strict."),
    ] = None,
    max_states: Annotated[int, typer.Option(help="States to look at, in all.")] = STATES_MAX,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="OUT.json", help="Write the timeline of the failure, or of the usual order."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Failures are saved in DIR/failures; SHMEMU_OUT by default.")
    ] = None,
) -> None:
    """Explore what a program can do; exit code 1 if it can fail, 2 for wrong use."""
    if replay is not None:
        with instrumented():
            report = _replayed(program, pes, profile, replay, trace, leaks, races)
    else:
        with instrumented():
            report = explore(
                load(_given(program)), 2 if pes is None else pes, profile, strategy,
                budget=budget, seed=seed, keep_going=keep_going, max_states=max_states, twice=twice, trace=trace,
                leaks=leaks, races=races or False,
            )  # fmt: skip
        report.program = "::".join(parted(_given(program)))
    _tell(report, out, fresh=replay is None)
    if trace is not None:
        typer.echo(f"trace: {trace}")
    if not report.ok:
        raise typer.Exit(1)
    raise typer.Exit(3 if complete and replay is None and not report.complete else 0)


def _given(program: str | None) -> str:
    if program is None:
        raise ArgumentError("a program to check is missing: FILE::FUNCTION")
    return program


def _replayed(
    program: str | None, pes: int | None, profile: str | None, replay: str, trace: Path | None, leaks: bool,
    races: str | None,
) -> Report:  # fmt: skip
    """Runs the execution of a token, or of a saved failure, which knows the rest as well."""
    token = replay
    if is_file(replay):
        saved = read(replay)
        if program is None and not saved.command.startswith(COMMAND):
            raise ArgumentError(f"this failure was not found by {COMMAND}: run {saved.command}")
        token, program = saved.token, program or saved.program
        pes, profile = saved.n_pes if pes is None else pes, profile or saved.profile
        leaks = leaks or saved.kind == "leak"
        if saved.kind == "race":
            races = races or saved.races
    options: dict[str, Any] = {"trace": trace, "leaks": leaks, "races": races or False}
    report = again(load(_given(program)), token, 2 if pes is None else pes, profile, **options)
    report.program = "::".join(parted(_given(program)))
    return report


def named_commands(report: Report) -> None:
    """Gives each failure of a file's function the command that replays it."""
    for failure in report.failures:
        n, profile = report.n_pes, report.profile
        words = [report.program, "-n", str(n), "--profile", profile, "--replay", failure.token]
        words += ["--leaks"] if failure.kind == "leak" else []
        words += ["--races", report.races] if failure.kind == "race" else []
        failure.command = f"{COMMAND} {shlex.join(words)}"


def _tell(report: Report, out: Path | None, fresh: bool) -> None:
    """Prints the report. Failures that are new are saved."""
    named_commands(report)
    typer.echo(str(report))
    for failure in report.failures if fresh else []:
        typer.echo(f"saved: {save(report, failure, out)}")
