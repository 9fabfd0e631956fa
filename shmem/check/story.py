"""How a failing execution is told: a column for each PE, what it did line by line, what arrived when."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..delivery.admission import ended
from ..delivery.facts import Move
from ..delivery.requests import Act, Event, Kind, Request
from ..fabric.sim import Job, Program, Task
from ..fabric.sim.words import waiting
from ..memory import OURS
from .executions import follow

if TYPE_CHECKING:
    from .report import Failure

WIDTH = 44
LINES_MAX = 60
BLOCKS_MAX = 12


def tell(program: Program, failure: Failure) -> None:
    """Runs a failure once more and writes its story, and what it says in this execution, which may be a shorter one."""
    rows: list[Told] = []

    def watch(job: Job, move: Move, late: bool) -> None:
        row = delivery(job, move, late) if isinstance(move, Event) else _step(job, move, late)
        if isinstance(move, Event) and move.act is Act.ADMIT and not ended(job.machine, job.machine.known[move.key]):
            return  # what it is let in for is told
        if not (rows and rows[-1].joined(row)):
            rows.append(row)

    job, _ = follow(program, failure.choices, watch=watch, to_failure=True)
    rows += _last(job)
    end = job.end()
    if failure.kind != "race":
        failure.text, failure.error = end.text, end.error
    failure.story = "\n".join([columns(program.n, rows), *_missing(job), *_blocks(job)])
    job.close()


def _last(job: Job) -> list[Told]:
    """Where the PE that failed raised, or else where those that have not ended wait."""
    if (task := job.failure) is not None and task.error is not None:
        return [Told(task.pe, f"{os.path.basename(raised_at(task.error))} {type(task.error).__name__}".lstrip(), False)]
    return [Told(task.pe, f"{place(task)} {waiting(task)}".lstrip(), False) for task, _ in job.waiting()]


def raised_at(error: BaseException) -> str:
    """'file.py:12' of the program's line that raised, or that called what did; "" where there is none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return next((f"{file}:{line}" for file, line in reversed(frames) if not file.startswith(OURS)), "")


def place(task: Task) -> str:
    """The line of the program at which a task rests, as it is told."""
    if isinstance(task.key, tuple):
        return f"[{task.key[1]}] {os.path.basename(task.where)}".rstrip()
    return os.path.basename(task.where) or "(end)"


def missing(job: Job) -> list[tuple[int, str, str]]:
    """What had not arrived at the end: at which PE, what it is, and which bytes."""
    found = []
    for request in job.machine.flight.values():
        left = [unit for i, unit in enumerate(request.units) if not request.placed >> i & 1]
        if left:
            where = ", ".join(f"{lo:#x}..{hi:#x}" for lo, hi in _merged(left))
            how = "not arrived" if request.rung else "posted, never rung"
            found.append((request.target, f"{how}: {_origin(job, request)}", where))
    return found


def _missing(job: Job) -> list[str]:
    return [f"    {what} at PE {pe} {where}" for pe, what, where in missing(job)]


def _merged(units: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for lo, hi in sorted(units):
        if found and found[-1][1] == lo:
            found[-1] = found[-1][0], hi
        else:
            found.append((lo, hi))
    return found


def _blocks(job: Job) -> list[str]:
    """What lies where in the heaps: the same on all PEs."""
    for process in (task.process for task in job.tasks.values()):
        pe = process.current or process.ended
        if pe is not None:
            live = pe.heap.allocations()
            return [
                f"    {each.offset:#x}: {each.text} at {os.path.basename(each.where)}" for each in live[:BLOCKS_MAX]
            ]
    return []


@dataclass
class Told:
    """A line of a story: what happened to which PE, and whether it was kept back."""

    pe: int
    text: str
    late: bool
    key: object = None  # of the request whose units it tells of
    lo: int = 0
    hi: int = 0

    def joined(self, other: Told) -> bool:
        """Takes the next unit of the same request into this line."""
        same = self.key is not None and (self.key, self.late, self.pe) == (other.key, other.late, other.pe)
        if same and self.hi == other.lo:
            self.hi = other.hi
            return True
        return False

    def __str__(self) -> str:
        span = f" {self.lo:#x}..{self.hi:#x}" if self.key is not None else ""
        return f"{self.text}{span}{' (late)' if self.late else ''}"


def _step(job: Job, move: Move, late: bool) -> Told:
    task = job.tasks[move]
    step = task.step
    assert step is not None
    return Told(task.pe, f"{place(task)} {step.what}", False)


_WHAT = {Kind.STORE: "store", Kind.WRITE: "put", Kind.READ: "get", Kind.ATOMIC: "atomic", Kind.SEND: "send"}


_ON_QUEUE = {Kind.WRITE: "write", Kind.READ: "read"}  # as work requests of a queue pair


_MORE = {Act.PLACE: "", Act.FETCH: " read", Act.AGAIN: " once more"}


def _origin(job: Job, request: Request, more: str = "") -> str:
    """What a request is, of which PE, and the line that posted it."""
    line = os.path.basename(job.lines.get(request.key, ""))
    what = _ON_QUEUE.get(request.kind, _WHAT[request.kind]) if request.ring else _WHAT[request.kind]
    return f"{what}{more} of PE {request.pe}{f' ({line})' if line else ''}"


def delivery(job: Job, event: Event, late: bool) -> Told:
    """What a delivery does, in the column of the PE whose memory it is about."""
    request = job.machine.known[event.key]
    if event.act is Act.SHOW and job.machine.views and (piece := job.machine.views.find(event)):
        return Told(piece.at.space, f"~ sees {_origin(job, request)}", late, (event.key, event.act), *piece.at[1:])  # type: ignore[arg-type]
    if event.act is Act.SOURCE:
        return Told(request.pe, "~ a source is read", late)
    if event.act is Act.LAND:
        return Told(request.pe, f"~ a result from PE {request.target}", late)
    if event.act in _MORE:
        what = f"<- {_origin(job, request, _MORE[event.act])}"
        lo, hi = request.units[event.unit]
        return Told(request.target, what, late, (event.key, event.act), lo, hi)
    if event.act in _AT_SENDER:
        status = request.bad or "ok" if event.act is Act.RETIRE else ""
        patient = event.act is Act.GIVE_UP and job.machine.queue_pairs[request.queue].patient
        what = "finds no receive" if patient else _AT_SENDER[event.act]
        return Told(request.pe, f"~ {what}: {_origin(job, request)} {status}".rstrip(), late)
    refused = event.act is Act.ADMIT and ended(job.machine, request)
    names = {Act.WORD: "signal", Act.RECEIVE: "receive completion", Act.ACCEPT: "takes a receive"}
    names[Act.ADMIT] = "refused, its segment has ended" if refused else "let in"
    what = names.get(event.act, event.act.name.lower())
    return Told(request.target, f"<- {what}: {_origin(job, request)}", late)


_AT_SENDER = {
    Act.RETIRE: "completion", Act.UNTOLD: "gives up, not acknowledged", Act.GIVE_UP: "gives up, no receive",
    Act.BELL: "a doorbell arrives", Act.LOSE: "a doorbell is lost",
}  # fmt: skip


def columns(n: int, rows: list[Told]) -> str:
    """The last lines in columns; what is late is marked."""
    lines = ["    " + "".join(f"PE {pe}".ljust(WIDTH) for pe in range(n)).rstrip()]
    if len(rows) > LINES_MAX:
        lines.append(f"    ... {len(rows) - LINES_MAX} lines before")
    lines += [("  * " if row.late else "    ") + " " * (WIDTH * row.pe) + str(row) for row in rows[-LINES_MAX:]]
    return "\n".join(lines)
