"""An execution as a timeline: what each PE's program did, what came to its memory when, and who had sent it.

The n-th move of an execution takes from n to n + 1; before it all programs run up to their first steps, from 0 to 1.
A program posts requests between two steps: their arrows begin where the move before was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ..delivery.facts import Move
from ..delivery.requests import Event, Key
from ..errors import ArgumentError
from ..fabric.sim import Job, Program, Task
from ..fabric.sim.words import waiting
from ..trace import perfetto
from ..trace.timeline import Arrow, Details, Mark, Row, Slice, Timeline
from .executions import follow
from .story import delivery, missing, place, raised_at


def write(program: Program, choices: Sequence[int], path: str | os.PathLike[str], about: Details) -> None:
    """Writes the timeline of an execution up to where a PE fails, else to its end, as Trace Event JSON.

    about: what the file says of itself. Raises ArgumentError if it can't be written.
    """
    try:
        perfetto.write(follow_along(program, choices, about), path)
    except OSError as error:
        raise ArgumentError(f"the trace can't be written to {path}: {error.strerror}") from None


def prepare(path: str | os.PathLike[str]) -> None:
    """Makes the folder of a trace before a long search. Raises ArgumentError if there can be no such file."""
    folder = Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"the trace can't be written to {path}: {error.strerror}") from None
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise ArgumentError(f"the trace can't be written to {path}: it is a folder, or its folder is not writable")


def follow_along(program: Program, choices: Sequence[int], about: Details) -> Timeline:
    """The timeline of an execution."""
    watcher = _Watcher(program.n, about)
    job, _ = follow(program, choices, watch=watcher.see, to_failure=True)
    watcher.end(job)
    job.close()
    return watcher.timeline


class _Watcher:
    """Sees each move before it is made."""

    def __init__(self, n: int, about: Details) -> None:
        self.timeline = Timeline(about)
        self._n = n
        self._now = 0  # when the next move is made
        self._last: Move = None
        self._posted: dict[Key, tuple[Row, int]] = {}  # by whom, when
        self._rested: dict[Row, int] = {}  # since when a task is before its step

    def see(self, job: Job, move: Move, late: bool) -> None:
        """The next move."""
        self._behind(job)
        if isinstance(move, Event):
            self._delivery(job, move, late)
        else:
            self._step(job.tasks[move])
        self._last = move

    def _behind(self, job: Job) -> None:
        """What the move before has left: requests, and tasks at their next steps."""
        if self._now == 0:
            for task in job.tasks.values():
                self.timeline.slices.append(Slice(_row(task), "start", 0, 1))
        for key in islice(job.machine.known, len(self._posted), None):
            self._posted[key] = _row(job.tasks[key[0] if self._now == 0 else self._last]), self._now
        self._now += 1
        for task in job.tasks.values():
            self._rested.setdefault(_row(task), self._now)

    def _step(self, task: Task) -> None:
        step, row = task.step, _row(task)
        assert step is not None
        since = self._rested.pop(row)
        if since < self._now and step.ready is not None:
            self.timeline.slices.append(Slice(row, f"{place(task)} waits in {step.what}", since, self._now))
        self.timeline.slices.append(Slice(row, f"{place(task)} {step.what}", self._now, self._now + 1))

    def _delivery(self, job: Job, event: Event, late: bool) -> None:
        told = delivery(job, event, late)
        target = Row(told.pe, "memory")
        details = {} if told.key is None else {"bytes": f"{told.lo:#x}..{told.hi:#x}"}
        if late:
            details["late"] = "kept back"
        self.timeline.slices.append(Slice(target, told.text, self._now, self._now + 1, details))
        source, left = self._posted[event.key]
        self.timeline.arrows.append(Arrow(told.text.lstrip("<-~ "), source, left, target, self._now))

    def end(self, job: Job) -> None:
        """Where a PE failed, or those that have not ended wait; what has not arrived; and which rows there are."""
        self._behind(job)
        failed = job.failure
        if failed is not None and failed.error is not None:
            line = os.path.basename(raised_at(failed.error))
            name = f"{line} {type(failed.error).__name__}".lstrip()
            self.timeline.marks.append(Mark(_row(failed), name, self._now, {"text": failed.text}))
        else:
            for task, _ in job.waiting():
                since = self._rested[_row(task)]
                name = f"{place(task)} {waiting(task)}"
                self.timeline.slices.append(Slice(_row(task), name, since, self._now + 1))
        for pe, what, where in missing(job):
            self.timeline.marks.append(Mark(Row(pe, "memory"), what, self._now, {"bytes": where}))
        self.timeline.rows = [row for pe in range(self._n) for row in self._rows(job, pe)]

    @staticmethod
    def _rows(job: Job, pe: int) -> list[Row]:
        return [*(_row(task) for task in job.tasks.values() if task.pe == pe), Row(pe, "memory")]


def _row(task: Task) -> Row:
    return Row(task.pe, f"worker {task.key[1]}" if isinstance(task.key, tuple) else "program")
