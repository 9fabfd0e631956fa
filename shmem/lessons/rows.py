"""The life of work requests in one execution, as text: posted, rung, source read, placed, completed, taken.

It is a story (`check.story`) with what a story leaves out: posts and doorbells, which are no steps. Requests are named
by their numbers. What stands before the first one and after the program is left out, as are steps without effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..check.executions import follow, silenced
from ..check.story import Told, columns, delivery, place
from ..check.surroundings import live
from ..delivery.admission import ended
from ..delivery.facts import Move
from ..delivery.requests import Act, Event, Key, Request
from ..fabric.sim import Job, Program

LEFT_OUT = ("a look at a queue", "import of a segment")
NAMED = {"a wait for completions": "takes completions", "poll_cq": "polls for completions"}
_ORIGIN = re.compile(r"(write|read|atomic|send)( read| once more)? of PE \d+( \([^)]*\))?")


def timeline(program: Program, choices: Sequence[int]) -> str:
    """The rows of an execution in a column for each PE."""
    watcher = _Watcher()
    with silenced(), live(program):
        job, _ = follow(program, choices, watch=watcher.see)
        watcher.notice(job)
        job.close()
    return columns(program.n, watcher.rows)


class _Watcher:
    """Sees each move before it is made."""

    def __init__(self) -> None:
        self.rows: list[Told] = []
        self._numbers: dict[Key, int] = {}  # of the requests of queue pairs
        self._rung: set[Key] = set()

    def see(self, job: Job, move: Move, late: bool) -> None:
        """The next move; what was posted since the last one stands before it."""
        self.notice(job)
        if isinstance(move, Event):
            self._delivery(job, move, late)
            return
        task = job.tasks[move]
        assert task.step is not None
        if task.step.what not in LEFT_OUT and not place(task).startswith("(end)"):
            self._add(Told(task.pe, f"{place(task)} {NAMED.get(task.step.what, task.step.what)}", False))

    def _delivery(self, job: Job, event: Event, late: bool) -> None:
        request, told = job.machine.known[event.key], delivery(job, event, late)
        if event.act is Act.ADMIT and not ended(job.machine, request):
            return  # what it is let in for is told
        if request.ring:
            told.text = _ORIGIN.sub(self._name(request), told.text)
            if event.act is Act.SOURCE:
                told.text = f"~ the source of {self._name(request)} is read"
        self._add(told)

    def _add(self, row: Told) -> None:
        if self.rows and not self.rows[-1].joined(row) and row != self.rows[-1]:
            self.rows.append(row)

    def notice(self, job: Job) -> None:
        """Requests that are new, and those that were rung for."""
        ring = [each for each in job.machine.known.values() if each.ring]
        new = ring[len(self._numbers) :]
        for each in new:
            before = [job.machine.known[key] for key in self._numbers]
            self._numbers[each.key] = sum(other.queue == each.queue for other in before)
        pairs = job.machine.queue_pairs
        rung = [each for each in ring if each.key not in self._rung and each.key not in pairs[each.queue].silent]
        self._rung |= {each.key for each in rung}
        line = os.path.basename(job.lines.get(new[0].key, "")) if new else ""
        self._row(f"{line} posts".lstrip(), new)
        self._row("rings for", rung)

    def _row(self, what: str, requests: Sequence[Request]) -> None:
        if requests:
            names = ", ".join(self._name(each) for each in requests)
            self.rows.append(Told(requests[0].pe, f"{what} {names}", False))

    def _name(self, request: Request) -> str:
        return f"{request.kind.name.lower()} {self._numbers[request.key]}"
