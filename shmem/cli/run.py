"""`shmemu run`: a Python program on several PEs, under the right mpiexec with the right flags, or as tasks on `sim`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

# Options end at the program's name; what follows is the program's. `-m` is then such a name, as it is for Python.
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    """Adds the command `run` to `app`."""
    app.command(context_settings=SETTINGS)(run)


def run(
    pes: Annotated[int, typer.Option("-n", "--pes", help="PEs to start.")],
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROG.PY | -m MODULE [ARGS]...", help="The program and its arguments."),
    ] = None,
    survive: Annotated[
        bool, typer.Option("--survive", help="A PE that dies doesn't end the job: the others get PeerDied.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End the job after so long, with exit code 124.")
    ] = None,
    mpi: Annotated[
        str | None, typer.Option(metavar="KIND", help="auto, mpich, openmpi, or the path of an mpiexec.")
    ] = None,
    fabric: Annotated[str | None, typer.Option(metavar="NAME", help="How bytes travel: SHMEMU_FABRIC.")] = None,
    heap: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Symmetric heap of each PE, such as 512M: SHMEMU_HEAP_SIZE.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="On sim and nic: how messages may arrive, SHMEMU_PROFILE.")
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="On sim and nic: draws what arrives when, SHMEMU_SEED.")
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(metavar="NAME | FILE.toml", help="On sim: virtual time by a model of what communication costs."),
    ] = None,
) -> None:
    """Run a Python program on several PEs: processes, or, on the fabric sim, tasks of this one."""
    from shmem import config
    from shmem.errors import ArgumentError

    env = {"SHMEMU_FABRIC": fabric, "SHMEMU_HEAP_SIZE": heap, "SHMEMU_PROFILE": profile, "SHMEMU_SEED": seed}
    given = {name: value for name, value in env.items() if value is not None}
    settings = config.read({**os.environ, **given}, warn=False)
    if settings.fabric == "sim":
        if survive or mpi is not None:
            raise ArgumentError("--survive and --mpi are about processes, and the PEs of sim are tasks of one")
        from shmem.check.main_program import run_main

        config.read()  # warns
        raise typer.Exit(run_main(pes, program or [], settings, timeout, clock))
    if clock is not None:
        raise ArgumentError(f"--clock is for --fabric sim: {settings.fabric} has the time of this machine")
    if (profile is not None or seed is not None) and settings.fabric != "nic":
        raise ArgumentError(f"--profile and --seed are for --fabric sim and nic: {settings.fabric} knows neither")
    from shmem.launch import run_job

    raise typer.Exit(run_job(pes, program or [], survive=survive, timeout=timeout, env=given, mpi=mpi))
