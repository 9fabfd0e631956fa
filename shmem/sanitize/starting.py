"""The folder of the streams, made ready before a run."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ArgumentError
from .stream import FIRST_BYTES


def prepare(folder: str, me: int, n: int, start: int, comm: Any) -> tuple[str, str]:
    """Makes the folder and removes streams of earlier runs; the file of this PE, and a name of the run. Collective.

    start: how often shmem has started in this process. Raises ArgumentError on every PE if a PE can't write there.
    """
    from .judging import NAME, stream_name

    run, problem = "", ""
    path = os.path.join(folder, stream_name(me, start))
    try:
        if me == 0:
            os.makedirs(folder, exist_ok=True)
            for name in os.listdir(folder):
                if (parts := NAME.fullmatch(name)) and int(parts[2] or 1) >= start:
                    os.unlink(os.path.join(folder, name))
            run = os.urandom(8).hex()
    except OSError as error:
        problem = f"{folder}: {error.strerror}"
    if comm is not None:
        run, problem = comm.bcast((run, problem))
    if not problem:
        problem = _tried(path)
    problems = [problem] if comm is None else comm.allgather(problem)
    if text := next(filter(None, problems), ""):
        raise ArgumentError(f"SHMEMU_SANITIZE={folder}: no stream can be written there ({text})", pe=me)
    return path, run


def _tried(path: str) -> str:
    """Why there can be no such file, "" if there can."""
    try:
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, FIRST_BYTES)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""
