"""`shmemu race`: judges the streams of a run that was recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from .judging import Verdict, judged, runs

BLOCKS_MAX = 12


def register(app: typer.Typer) -> None:
    """Adds the command `race` to `app`."""
    app.command()(race)


def race(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What SHMEMU_SANITIZE was when the program ran.")],
    strict: Annotated[bool, typer.Option("--strict", help="What is disputed counts as a race.")] = False,
) -> None:
    """Look for races in a run that was recorded; exit code 1 if there are any, 2 if the streams can't be read."""
    mode = "strict" if strict else "lenient"
    found = [judged(readers, mode) for readers in runs(str(folder))]
    for verdict in found:
        typer.echo(_told(str(folder), mode, verdict))
    raise typer.Exit(1 if any(verdict.races for verdict in found) else 0)


def _told(folder: str, mode: str, verdict: Verdict) -> str:
    lines = [f"{folder}, {verdict.n} PEs, {mode}: {verdict.events} events"]
    lines += [f"  PE {pe} did not end: its stream is judged as far as it goes" for pe in verdict.cut]
    for found in verdict.races:
        space = found.shared.space
        of = f" of PE {space}" if isinstance(space, int) else ""
        lines.append(f"race{of}: {found}")
        lines += [f"    {line}" for line in _blocks(verdict, found.shared.lo, found.shared.hi) if of]
    return "\n".join(lines if verdict.races else [*lines, "no races in this run"])


def _blocks(verdict: Verdict, lo: int, hi: int) -> list[str]:
    """What lay at some bytes: of blocks at the same place all, since nobody says which it was."""
    there = [each for each in verdict.blocks if each.offset < hi and lo < each.offset + each.nbytes]
    lines = [f"{each.offset:#x}: {each.text} at {os.path.basename(each.where)}" for each in there]
    return list(dict.fromkeys(lines))[:BLOCKS_MAX]
