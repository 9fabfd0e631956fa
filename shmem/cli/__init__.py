"""The command `shmemu`. Each subcommand is an entry point of the group `shmemu.commands`: a function
`register(app: typer.Typer) -> None` in the package that has the command, so that nothing here imports upwards.

Only the command that is asked for is imported. One whose import fails says so in a line, and the others work. Wrong
use, and every ShmemError that reaches this place, is one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated

import typer

from shmem.errors import ShmemError

GROUP = "shmemu.commands"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"shmemu {version('shmemu')}")
        raise typer.Exit


def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Symmetric memory, its protocols and expert parallelism, on the PEs of this machine."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _register(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        entry.load()(app)
    except Exception as error:  # whatever a broken package raises must not take the other commands along
        reason = f"{type(error).__name__}: {error}"
        _register_broken(app, entry.name, reason.splitlines()[0])


def _register_broken(app: typer.Typer, name: str, reason: str) -> None:
    @app.command(
        name,
        help=f"Not available: {reason}",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    def broken() -> None:
        typer.echo(f"shmemu {name} is not available: {reason}", err=True)
        raise typer.Exit(2)


def build(argv: Sequence[str]) -> typer.Typer:
    """The application with the command that `argv` asks for, or with all of them if that is none."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True)(_root)
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    asked = next((word for word in argv if not word.startswith("-")), "")
    for entry in [entries[asked]] if asked in entries else entries.values():
        _register(app, entry)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: of this process); the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        code = build(argv)(list(argv), prog_name="shmemu", standalone_mode=False)
    except ShmemError as error:
        return _wrong(str(error))
    except typer.Abort:
        return 130
    except Exception as error:
        # Wrong use as the parser sees it. Its class has moved between releases of typer, its method hasn't.
        if not hasattr(error, "format_message"):
            raise
        return _wrong(error.format_message())
    return code if isinstance(code, int) else 0


def _wrong(sentence: str) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"shmemu: {' '.join(sentence.split())}\n")
    return 2
