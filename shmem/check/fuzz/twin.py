"""The same program on `sim`, where a failure has a replay: all that happens is chosen there.

A file with a function `main` that needs no arguments is explored as `shmemu check` does, with priorities and at random.
Any other program, or one with arguments, runs whole, seed after seed, as `shmemu run --fabric sim` runs it.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from ... import config
from ...errors import ArgumentError
from ...launch import TIMED_OUT
from ..bounds import parse_budget
from ..command import named_commands
from ..exploration import call_of, explore
from ..loading import load, parted
from ..main_program import run_main
from ..report import Report
from .printed import failed
from .runs import TAIL, Bar, Plan

STRATEGIES = ("pct", "random")


@dataclass(frozen=True)
class Twin:
    """What was seen there. looked: at what; text: what failed, "" if nothing did; command: what replays that."""

    looked: str
    text: str = ""
    command: str = ""
    report: Report | None = None


def look(plan: Plan, seed: int, budget: str, bar: Bar) -> Twin:
    """Looks for a failure within a budget for each strategy."""
    try:
        if (main := _main(plan)) is not None:
            return _explored(plan, main, seed, budget, bar)
        return _ran(plan, seed, budget, bar)
    except Exception as error:  # whatever it is, what was found on nic is to be told
        return Twin(f"not possible: {type(error).__name__}: {error}")


def _main(plan: Plan) -> Callable[..., Any] | None:
    """The function `main` of a file, if it is all that the program is."""
    if plan.arguments or plan.words != 1:
        return None
    try:
        main = load(plan.argv[0])
        call_of(main, ())
    except ArgumentError:
        return None
    return main


def _explored(plan: Plan, main: Callable[..., Any], seed: int, budget: str, bar: Bar) -> Twin:
    looked = []
    for i, strategy in enumerate(STRATEGIES):
        bar.say(f"sim, {strategy}", (i + 1) / (len(STRATEGIES) + 1))
        report = explore(
            main, plan.n, plan.profile, strategy, budget=budget, seed=seed, shrink=False
        )  # that is minutes
        report.program = "::".join(parted(plan.argv[0]))
        looked.append(f"{strategy}, {report.executions} executions")
        if not report.ok:
            named_commands(report)
            failure = report.failures[0]
            return Twin("; ".join(looked), f"{failure.kind}: {failure.text}", failure.command, report)
    return Twin("; ".join(looked))


def _ran(plan: Plan, first: int, budget: str, bar: Bar) -> Twin:
    """Runs the program with seeds from the first one on, each in a process that leaves nothing behind in this one."""
    seconds, executions = parse_budget(budget)
    end = None if seconds is None else time.monotonic() + seconds
    begin, done = time.monotonic(), 0
    while not done or ((executions is None or done < executions) and (end is None or time.monotonic() < end)):
        of = done / executions if executions else (time.monotonic() - begin) / (seconds or 1)
        bar.say("sim, random", of)
        with tempfile.TemporaryFile(buffering=0) as output:
            code = _forked(plan, first + done, output)
            output.seek(max(output.seek(0, os.SEEK_END) - TAIL, 0))
            said = output.read().decode("utf-8", "replace")
        done += 1
        if code == TIMED_OUT:
            return Twin(f"{_seeds(first, done)}, of which the last took too long")
        if code:
            words = ["-n", str(plan.n), "--fabric", "sim", "--profile", plan.profile, "--seed", str(first + done - 1)]
            pe, text = failed(said, code)
            text = text if pe is None else f"PE {pe}: {text}"
            return Twin(_seeds(first, done), text, shlex.join(["shmemu", "run", *words, *plan.argv]))
    return Twin(_seeds(first, done))


def _seeds(first: int, done: int) -> str:
    return f"random, seeds {first} to {first + done - 1}" if done > 1 else f"random, seed {first}"


def _forked(plan: Plan, seed: int, output: BinaryIO) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which NumPy's BLAS may have and looks after
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    with suppress(BaseException):
        code = _child(plan, seed, output)
    os._exit(code)


def _child(plan: Plan, seed: int, output: BinaryIO) -> int:
    """The program's exit code, with its output in a file."""
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for fd in (1, 2):
        os.dup2(output.fileno(), fd)
    os.environ.update({"SHMEMU_FABRIC": "sim", "SHMEMU_PROFILE": plan.profile, "SHMEMU_SEED": str(seed)})
    timeout = None if plan.timeout_s == float("inf") else plan.timeout_s
    with open(1, "w", buffering=1, closefd=False) as out, open(2, "w", buffering=1, closefd=False) as err:
        sys.stdout, sys.stderr = out, err
        try:
            return run_main(plan.n, plan.argv, config.read(warn=False), timeout)
        except BaseException:
            traceback.print_exc()
            return 1
