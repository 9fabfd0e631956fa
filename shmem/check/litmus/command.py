"""`shmemu litmus`: runs litmus files and compares what is found with what they say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ...delivery.profiles import NAMED
from ...errors import ArgumentError, LitmusSyntaxError
from ...files import write_whole
from .language import read
from .run import ENGINES
from .syntax import Test
from .verdict import Judgement, judge

SHOWN = 8  # ends of a test under a profile
INTRODUCTION = """# Litmus tests by delivery profiles

How many of the executions that a profile allows have the outcome that a test asks about: all of them (always), some, or
none (never); of a test that asks about races alone, how many have one: all (race), some (race_some), none (clean). An
empty cell: the test says nothing of that profile. The tests are in `tests/litmus`, the profiles in
`shmem/delivery/profiles.py`, the language in [litmus.md](litmus.md). This page is written by

    shmemu litmus tests/litmus --matrix docs/litmus-matrix.md

"""


def register(app: typer.Typer) -> None:
    """Adds the command `litmus` to `app`."""
    app.command()(litmus)


def litmus(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR...", help="Litmus files, or folders of them.")],
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge every test under this profile, named in it or not.")
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option(metavar="OUT.MD", help="Write a table of tests by profiles: always, sometimes, never."),
    ] = None,
    outcomes: Annotated[
        bool, typer.Option("--outcomes", help=f"Show all ends, not the most frequent {SHOWN}.")
    ] = False,
    hardware: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Run each test N times as processes; is what is seen allowed?"),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="The delivery machine: python or native, which judge alike.")
    ] = ENGINES[0],
) -> None:
    """Explore litmus tests; exit code 1 if a verdict does not hold, 2 if a file can't be read."""
    try:
        tests = read_all(paths)
    except LitmusSyntaxError as error:
        typer.echo(f"shmemu: {error}", err=True)  # of several lines: the place is shown
        raise typer.Exit(2) from None
    if hardware is not None:
        if matrix is not None or outcomes or engine != ENGINES[0]:
            raise ArgumentError("--matrix, --outcomes and --engine are for searches: --hardware shows what it saw")
        raise typer.Exit(on_hardware(tests, hardware, profile))
    if matrix is not None:
        check_writable(matrix)  # not after minutes of searching
    judged = []
    for test in tests:
        for name in [profile] if profile else test.verdicts:
            judged.append(found := judge(test, name, engine=engine))
            typer.echo(line(found))
            typer.echo("".join(f"    {each}\n" for each in counted(found, None if outcomes else SHOWN)), nl=False)
    wrong = [each for each in judged if not each.right]
    typer.echo(f"{len(tests)} tests, {len(judged)} verdicts, {len(wrong)} wrong")
    if matrix is not None:
        write_whole(matrix, table(judged))
    raise typer.Exit(1 if wrong else 0)


def on_hardware(tests: list[Test], times: int, profile: str | None) -> int:
    """Runs tests as processes and tells what was seen; the exit code. Raises ArgumentError if none can be run."""
    from .hardware import observe, refusal, told

    refused = [problem for test in tests if (problem := refusal(test))]
    possible = [test for test in tests if not refusal(test)]
    if not possible:
        raise ArgumentError(refused[0] if len(refused) == 1 else "none of these tests can be run on hardware")
    typer.echo("".join(f"--  {problem}\n" for problem in refused), nl=False)
    wrong = 0
    for test in possible:
        seen = observe(test, times, profile)
        wrong += not seen.right
        share = f"{len(seen.ends) - len(seen.strange)} of {len(seen.judged.outcomes)} allowed ends seen"
        typer.echo(f"{'ok  ' if seen.right else 'BAD '}{test.name:8} {seen.judged.profile:20} {times} runs, {share}")
        for end, count in sorted(seen.ends.items()):
            strange = f"  not allowed under {seen.judged.profile}" if end in seen.strange else ""
            typer.echo(f"    {count:6}  {told(test, end)}{strange}")
    typer.echo(f"{len(possible)} tests run, {len(refused)} refused, {wrong} wrong")
    return 1 if wrong else 0


def check_writable(path: Path) -> None:
    """Raises ArgumentError if a file can't be written there."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"{path} can't be written: it is a folder, or its folder is missing or not writable")


def read_all(paths: Iterable[Path]) -> list[Test]:
    """The tests of files and of the `.litmus` files of folders. Raises ArgumentError, LitmusSyntaxError."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("**/*.litmus")) if path.is_dir() else [path]
        if not found or not all(each.is_file() for each in found):
            raise ArgumentError(f"{path}: {'no .litmus file in this folder' if path.is_dir() else 'no such file'}")
        files += found
    return [test for path in files for test in _of_file(path)]


def _of_file(path: Path) -> list[Test]:
    try:
        tests = read(path)
    except OSError as error:
        raise ArgumentError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{path} is no text in UTF-8") from None
    if not tests:
        raise ArgumentError(f"{path}: there is no test in this file")
    return tests


def line(found: Judgement) -> str:
    """One line about a verdict: what was found, what was expected, and how much was searched."""
    mark = "ok  " if found.right else "BAD "
    judged = found.test.outcome is not None or found.races is not None
    told = found.problem or (found.found if judged else "explored")
    if found.expected and not found.right:
        told += f", expected {found.expected}"
    searched = f"{sum(found.outcomes.values())} executions, {found.states} states"
    if (races := found.races) is not None:
        searched = f"a race in {races.racy} of {races.executions} executions"
    more = "" if found.complete and (races is None or races.complete) else ", not complete"
    often = f"{found.how_often}; " if found.how_often else ""
    return f"{mark}{found.test.name:8} {found.profile:20} {told} ({often}{searched}{more})"


def ends(found: Judgement) -> list[tuple[str, int]]:
    """The different ends by what registers and blocked PEs there were, with the executions that had them."""
    counts: dict[str, int] = {}
    for end, n in found.outcomes.items():
        values = [
            f"{pe}:{name}={value}" for pe, each in enumerate(end.registers) for name, value in each if name[0] != "."
        ]
        text = " ".join([*values, *(f"{pe}:blocked" for pe in end.blocked)]) or "-"
        counts[text] = counts.get(text, 0) + n
    return sorted(counts.items())


def counted(found: Judgement, most: int | None) -> list[str]:
    """The different ends with their counts, a line each; of more than `most` those of the most executions."""
    told = ends(found)
    shown = told if most is None else sorted(told, key=lambda each: -each[1])[:most]
    lines = [f"{n:6}  {registers}" for registers, n in sorted(shown)]
    left = len(told) - len(shown)
    return [*lines, f"   ...  {left} more: --outcomes shows all"] if left else lines


def table(judged: list[Judgement]) -> str:
    """The Markdown page of tests by profiles."""
    found = {each.profile for each in judged}
    profiles = [name for name in NAMED if name in found]
    rows: dict[str, dict[str, str]] = {}
    for each in judged:
        name = f"{each.test.name} {each.test.title}"
        rows.setdefault(name, {})[each.profile] = "-" if each.problem else each.how_often or each.found
    lines = ["| test | " + " | ".join(profiles) + " |", "|---" * (len(profiles) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells.get(p, "") for p in profiles) + " |" for name, cells in rows.items()]
    return INTRODUCTION + "\n".join(lines) + "\n"
