"""``shmemu demo``: checks what it is given, launches the ranks, shows their report.

Exit codes: 0 the result equals the oracle bit for bit, 1 it doesn't or the job failed, 2 wrong use or bad
input or no room for the heaps, with one sentence on stderr.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moe_ep.demo.inputs import Job

PROGRAM = ("-m", "moe_ep.demo.job")
SIGNALLED = 128  # and above: exit codes of a job that a signal ended


def register(app: typer.Typer) -> None:
    """Adds the command ``demo`` to ``app``."""
    app.command()(demo)


def demo(
    pes: Annotated[int, typer.Option("-n", "--pes", help="PEs (ranks) to start.")] = 4,
    text: Annotated[Path | None, typer.Option(help="A UTF-8 file; each byte is a token.")] = None,
    routing: Annotated[
        Path | None,
        typer.Option(help="A recorded router trace (npz) instead: topk_idx and topk_weights [T,K], x [T,H]."),
    ] = None,
    experts: Annotated[int, typer.Option(help="Experts, a multiple of the PEs.")] = 64,
    topk: Annotated[int | None, typer.Option(help="Experts of a token. [default: 6, or the trace's]")] = None,
    hidden: Annotated[
        int | None, typer.Option(help="Elements of a row, a multiple of 256. [default: 1024, or the trace's]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every table.")] = 0,
    tokens: Annotated[int | None, typer.Option(help="Take only the first so many tokens.")] = None,
    repeat: Annotated[int, typer.Option(help="Timed repetitions of the layer.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder for demo.json. [default: $SHMEMU_OUT, or out]")] = None,
) -> None:
    """Run a mixture-of-experts layer over expert parallelism and compare it with an oracle, bit for bit."""
    from moe_ep.demo.inputs import BadInput, prepare

    try:
        job = prepare(pes, text, routing, experts, topk, hidden, seed, tokens, repeat)
        folder = output_folder(out)
    except BadInput as error:
        raise typer.Exit(_say(str(error), 2)) from None
    raise typer.Exit(run_demo(job, folder))


def output_folder(out: Path | None) -> Path:
    """The folder for output, which is made if it isn't there; raises BadInput where that can't be."""
    from moe_ep.demo.inputs import BadInput

    folder = out or Path(os.environ.get("SHMEMU_OUT") or "out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the output folder {folder} can't be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise BadInput(f"the output folder {folder} can't be written to")
    return folder


def run_demo(job: Job, out: Path, program: Sequence[str] | None = None) -> int:
    """Launches ``job``, shows its report, leaves it as ``out/demo.json``; the exit code of the command.

    ``program`` is what each rank runs, by default this package's job; the job's folder is its last argument.
    """
    import json

    from rich.console import Console

    from moe_ep.demo.table import render
    from shmem.launch import run_job

    with tempfile.TemporaryDirectory(prefix="shmemu-demo-") as name:
        folder = Path(name)
        job.save(folder)
        status = run_job(job.pes, [*(program or PROGRAM), name])
        if (folder / "refused").exists():
            return _say((folder / "refused").read_text(), 2)
        if status >= SIGNALLED:  # the user, or who else ended the job, knows
            return status
        if status != 0 or not (folder / "report.json").exists():
            return _say(f"the job ended with status {status} and without a result", 1)
        text = (folder / "report.json").read_text()
    unfinished = out / "demo.json.part"
    unfinished.write_text(text)
    os.replace(unfinished, out / "demo.json")
    report = json.loads(text)
    render(report, Console())
    return 0 if report["equal"] else 1


def _say(sentence: str, status: int) -> int:
    sys.stderr.write(f"shmemu demo: {sentence}\n")
    return status
