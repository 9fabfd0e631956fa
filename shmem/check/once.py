"""One execution of a program, for its results: `shmem.run`, and `shmemu run --fabric sim`.

Without a seed moves are made in the usual order (`executions`): what is sent arrives at once. With one they are drawn;
it is the first execution of `explore(..., strategy="random", seed=...)`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..delivery.model import Model
from ..delivery.profiles import Profile
from ..errors import ArgumentError, ShmemTimeout
from ..fabric.sim import Job, Program, name_of
from ..fabric.sim.words import waiting as in_words
from ..fabric.sim.world import JobExit
from .executions import Possible, run
from .exploration import prepare
from .strategies.random import drawn
from .surroundings import live


def results(
    program: Callable[..., Any], n_pes: int, profile: str | Profile | None = None, seed: int | None = None,
    clock: str | Model | None = None,
) -> list[Any]:  # fmt: skip
    """Runs a program once; what its PEs returned. Raises what a PE raised, ShmemTimeout for a deadlock."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ArgumentError(f"seed={seed!r}: a whole number, or None for the usual order")
    with once(prepare(program, n_pes, profile, (), clock=clock, ties=seed), seed) as job:
        raise_failure(job)
        return [job.tasks[pe].result for pe in range(n_pes)]


@contextlib.contextmanager
def once(program: Program, seed: int | None) -> Iterator[Job]:
    """The job at its end, which is also where a PE fails."""
    with live(program):
        job = Job(program)
        try:
            if job.clock is not None:
                job.clock.run()
            elif seed is None:
                _as_usual(job)
            else:
                run(job, drawn(seed, 0), sys.maxsize, stop=lambda: job.failure, order=Possible())
            yield job
        finally:
            job.close()


def _as_usual(job: Job) -> None:
    """Makes moves in the usual order: what `run` does with the first one each time, but large transfers as a whole."""
    while not job.failure:
        job.deliver()
        if not (moves := job.moves()):
            return
        job.perform(moves[0])


def raise_failure(job: Job) -> None:
    """Raises what ended a job that did not end well: the exception of the PE that failed, which is noted in it, or
    ShmemTimeout where all PEs wait. `global_exit` is a SystemExit."""
    if (task := job.failure) is None:
        if waits := waiting(job):
            raise deadlock(waits)
        return
    assert task.error is not None
    if isinstance(task.error, JobExit):
        raise SystemExit(task.error.args[0])
    _note(task.error, f"raised by {name_of(task.key)} of {job.program.n}")
    raise task.error


def _note(error: BaseException, text: str) -> None:
    """As `add_note`, which Python 3.10 does not have."""
    error.__notes__ = [*getattr(error, "__notes__", []), text]  # type: ignore[attr-defined, unused-ignore]


def waiting(job: Job) -> list[tuple[int, str]]:
    """The PEs that have not ended, and what each waits in, at which line."""
    found = []
    for task, _ in job.waiting():
        where = f" at {task.where}" if task.where else ""
        found.append((task.pe, f"{name_of(task.key)} {in_words(task)}{where}"))
    return found


def deadlock(waits: list[tuple[int, str]]) -> ShmemTimeout:
    """The error of a job in which nothing can happen any more."""
    text = "; ".join(wait for _, wait in waits)
    return ShmemTimeout(
        f"deadlock: nothing can happen any more, and {text}",
        awaited=text, seen=None, in_flight=None, waited_s=0.0, pe=waits[0][0],
    )  # fmt: skip
