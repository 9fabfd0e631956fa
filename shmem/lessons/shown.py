"""What a lesson's program does, found by running it: what it prints, a timeline, and how it can end."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..check import timeline as traces
from ..check.executions import follow, silenced
from ..check.exploration import explore, prepare
from ..check.surroundings import live
from ..fabric.sim import Program
from .lesson import Lesson
from .placing import loaded
from .rows import timeline


@dataclass(frozen=True)
class Shown:
    """printed: by the execution that is shown. rows: its timeline. ends: a line for each profile."""

    printed: str
    rows: str
    ends: str


def shown(lesson: Lesson, trace: Path | None = None) -> Shown:
    """Runs the program of a lesson. trace: a file for the timeline of the execution that is shown, as Trace Event JSON.

    Raises ArgumentError if it can't be written.
    """
    with loaded(lesson.file("lesson"), lesson.text("lesson")) as (main, _):
        program = prepare(main, 2, lesson.profiles[0], ())
        choices = _choices(program, lesson.shows)
        if trace is not None:
            traces.prepare(trace)
            about: dict[str, str | int] = {"program": lesson.file("lesson"), "n_pes": 2}
            about["profile"] = program.profile.name
            with silenced(), live(program):
                traces.write(program, choices, trace, about)
        printed = _printed(program, choices)
        rows = timeline(program, choices)
        return Shown(printed, rows, "\n".join(_end(main, profile) for profile in lesson.profiles))


def _printed(program: Program, choices: Sequence[int]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), live(program):
        follow(program, choices)[0].close()
    return out.getvalue().rstrip()


def _choices(program: Program, wanted: Callable[[Any], bool] | None) -> list[int]:
    """An execution in which PE 1 returns what is wanted: the usual one, or one in which a single move is kept back."""
    if wanted is None:
        return []
    with silenced(), live(program):
        job, made = follow(program, [])
        job.close()
        for i in range(len(made)):
            choices = [0] * i + [1]
            job, _ = follow(program, choices)
            got = job.tasks[1].result
            job.close()
            if wanted(got):
                return choices
    raise AssertionError("no execution with one move kept back ends as the lesson says")


def _end(main: Callable[..., Any], profile: str) -> str:
    """How the program can end under a profile, in all orders."""
    report = explore(main, 2, profile)
    assert report.ok, report
    assert report.complete, report
    got = sorted(end[1] for end in report.outcomes if end[1] is not None)
    what = "PE 1 gets " + " or ".join(str(list(each)) for each in got) if got else "it always ends well"
    return f"{profile}, in every order: {what}"
