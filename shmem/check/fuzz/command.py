"""`shmemu fuzz`: a program as processes over the fabric `nic`, with one seed after the other."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ... import config
from ...delivery.profiles import profile as profile_named
from ..bounds import parse_budget
from ..saved import save
from .found import Failure, Tally, ended_by
from .runs import Bar, Clock, Plan, Run, check, run
from .twin import look

AGAIN = 20
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


class OptionsAround(TyperCommand):
    """Options stand before the program or right behind it; from the first other word, or from `--`, all is its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual, with the options moved to the front."""
        before = self._options(args)
        words = args[before:]
        if words[:1] == ["--"] or not words:
            return super().parse_args(ctx, args)
        program = words[: 2 if words[0] == "-m" else 1]
        rest = words[len(program) :]
        behind = self._options(rest)
        own = rest[behind + 1 :] if rest[behind : behind + 1] == ["--"] else rest[behind:]
        return super().parse_args(ctx, [*args[:before], *rest[:behind], "--", *program, *own])

    def _options(self, words: list[str]) -> int:
        """How many words at the start are options of this command and their values."""
        flags = {name for each in self.params if getattr(each, "is_flag", False) for name in each.opts}
        valued = {name for each in self.params for name in each.opts if name.startswith("-")} - flags
        at = 0
        while at < len(words):
            word = words[at]
            joined = word.partition("=")[0] in valued and "=" in word
            if word in flags or word == "--help" or joined or (word[:2] in valued and word[:2] != word):
                at += 1
            elif word in valued:
                at += 2
            else:
                break
        return min(at, len(words))


def register(app: typer.Typer) -> None:
    """Adds the command `fuzz` to `app`."""
    app.command(cls=OptionsAround, context_settings=SETTINGS)(fuzz)


def fuzz(
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROG.PY | -m MODULE [OPTIONS] [--] [ARGS]...", help="The program and its arguments."),
    ] = None,
    pes: Annotated[int, typer.Option("-n", "--pes", min=1, help="PEs to start.")] = 2,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="What may arrive when: SHMEMU_PROFILE, else openshmem.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="End after so many.")] = 1000,
    minutes: Annotated[float, typer.Option(metavar="M", help="End after so long, with one seed at least.")] = 5.0,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="S", help="The first; those after it follow. Random by default.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Deadline of a run: SHMEMU_TIMEOUT_S.")
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME|N", help="After a failure: how long, or how often, to look for it on sim.")
    ] = "20s",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Failures are saved in DIR/failures; SHMEMU_OUT by default.")
    ] = None,
) -> None:
    """Run a program as processes over an emulated NIC, seed after seed, until one fails; exit code 1 if one did."""
    settings = config.read()
    parse_budget(budget)
    plan = Plan(
        tuple(program or []), pes, profile_named(profile or settings.profile).name,
        secrets.randbelow(1 << 32) if seed is None else seed, seeds, minutes,
        settings.timeout_s if timeout is None else timeout,
    )  # fmt: skip
    check(plan)
    typer.echo(f"{plan.program}, {plan.n} PEs, profile {plan.profile}, nic: seeds from {plan.first} on")
    bar, tally = Bar(sys.stderr), Tally()
    last = _campaign(plan, tally, bar)
    failure = Failure(plan, last) if last.failed else None
    if failure is not None:
        _look_closer(failure, budget, bar)
        if failure.twin is not None and failure.twin.report is not None:
            failure.twin_saved = save(failure.twin.report, failure.twin.report.failures[0], out)
    bar.hide()
    typer.echo(f"{_verdict(tally, last)}\n  {tally}")
    if failure is not None:
        typer.echo(str(failure))
        typer.echo(f"saved: {failure.save(None if out is None else str(out))}")
        raise typer.Exit(1)
    raise typer.Exit(128 + last.stopped if last.stopped else 0)


def _verdict(tally: Tally, last: Run) -> str:
    how = f"in {tally.seconds:.1f} s"
    if last.stopped:
        return f"{ended_by(last.stopped)} {how}, no failure until then"
    return f"seed {last.seed} fails, {how}" if last.failed else f"no failure {how}"


def _campaign(plan: Plan, tally: Tally, bar: Bar) -> Run:
    """Runs seeds until one fails or a bound is met; the last run."""
    clock = Clock(plan.minutes)
    while True:
        part = max(tally.runs / plan.seeds, clock.part)
        bar.say("fuzz", part, f"seeds {tally.runs}, orders {len(tally.orders)}")
        last = run(plan, plan.first + tally.runs, bar)
        tally.seconds = clock.seconds
        if last.stopped:
            return last
        tally.add(last)
        if last.failed or tally.runs == plan.seeds or clock.part >= 1:
            return last


def _look_closer(failure: Failure, budget: str, bar: Bar) -> None:
    """How often it fails, whether without a seed, and whether on `sim`; as long as nobody ends it."""
    plan, seed = failure.plan, failure.run.seed
    assert seed is not None
    clock, again = Clock(max(plan.minutes, plan.timeout_s / 60)), list[Run]()
    failure.again = again
    while len(again) < AGAIN and (not again or clock.part < 1):
        bar.say("again", len(again) / AGAIN, f"{sum(run.failed for run in again)} of {len(again)} fail")
        if (once_more := run(plan, seed, bar)).stopped:
            return
        again.append(once_more)
    failure.without = run(plan, None, bar)
    if failure.without.stopped:
        failure.without = None
        return
    failure.twin = look(plan, seed, budget, bar)
