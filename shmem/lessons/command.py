"""`shmemu lesson`: lessons on queue pairs, with exercises that are explored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArgumentError
from .catalogue import lesson as numbered
from .judge import tried
from .lesson import Lesson
from .measured import measured
from .page import listing, page
from .shown import shown


def register(app: typer.Typer) -> None:
    """Adds the command `lesson` to `app`."""
    app.command()(lesson)


def lesson(
    number: Annotated[int | None, typer.Argument(metavar="N", help="Which; without it all are listed.")] = None,
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="Where --start writes.")] = None,
    start: Annotated[bool, typer.Option("--start", help="Write the exercise, into DIR; never over a file.")] = False,
    answer: Annotated[
        str | None, typer.Option("--try", metavar="FILE", help="Explore an answer; exit code 1 if it can fail.")
    ] = None,
    solution: Annotated[bool, typer.Option("--solution", help="Print an answer.")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="OUT.json", help="Write the timeline of the lesson's program, for Perfetto.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure again what the lesson measures.")] = False,
) -> None:
    """Lessons on queue pairs: a claim, a program that shows it, an exercise."""
    asked = [start, answer is not None, solution, trace is not None, measure]
    if number is None:
        if any(asked):
            raise ArgumentError("say which lesson: shmemu lesson N")
        typer.echo(listing())
        return
    if sum(asked) > 1 or (folder is not None and not start):
        raise ArgumentError("one of --start [DIR], --try FILE, --solution, --trace OUT.json, --measure at a time")
    chosen = numbered(number)
    if start:
        _start(chosen, folder or Path())
    elif answer is not None:
        _try(chosen, answer)
    elif solution:
        typer.echo(chosen.text("solution"), nl=False)
    elif measure:
        typer.echo(measured(chosen), nl=False)
    elif trace is not None:
        shown(chosen, trace)
        typer.echo(f"trace: {trace}")
    else:
        typer.echo(page(chosen, shown(chosen)), nl=False)


def _start(chosen: Lesson, folder: Path) -> None:
    """Writes the exercise. Raises ArgumentError if it can't, or if such a file is there."""
    file = folder / chosen.file("exercise")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(chosen.text("exercise"))
    except FileExistsError:
        raise ArgumentError(f"{file} is there already, and is left as it is: name another folder") from None
    except OSError as error:
        raise ArgumentError(f"{file} can't be written: {error.strerror}") from None
    typer.echo(f"{file}: then shmemu lesson {chosen.number} --try {file}")


def _try(chosen: Lesson, file: str) -> None:
    verdict = tried(chosen, file)
    typer.echo(verdict.text)
    if not verdict.ok:
        raise typer.Exit(1)
    if not verdict.complete:
        raise typer.Exit(3)
