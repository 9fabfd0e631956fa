"""How an answer fails: the execution that the explorer found, looked at from outside.

Hints are chosen by this and by nothing else: the kind of failure, where in the file it is, and what became of the work
requests that PE 0 had posted by then.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..check.executions import run, silenced
from ..check.report import Report
from ..check.story import raised_at
from ..check.surroundings import live
from ..delivery.facts import Move
from ..delivery.requests import Kind, Request
from ..fabric.sim import Job, Program, TaskKey

MOVES_MAX = 600  # of one execution: a right answer takes less than 100


@dataclass(frozen=True)
class Posted:
    """A work request of PE 0, as it was when the execution ended."""

    kind: str  # "write", "read", "atomic", "send"
    rung: bool
    signaled: bool
    inline: bool
    over: bool  # completed, in good or bad ways
    fenced: bool  # a fence came while it was under way
    status: str  # "ok", or with what it ended or will end


@dataclass(frozen=True)
class Evidence:
    """A failing execution.

    kind: "assertion", "exception", "deadlock", or "cut" (it goes on for ever). usual: it fails as well where
    everything arrives at once. where: the function of the file in which PE 0 failed or waits, "" if it did neither.
    taken: how many completions PE 0 took. flags: puts and signals of PE 0 besides its queue pairs. segments: how
    often PE 0 has registered memory. ready: no queue pair of PE 0 is in error. steps: what PE 0 did, or waits for,
    by names of steps.
    """

    profile: str
    kind: str
    text: str = ""
    error: BaseException | None = None
    pe: int | None = None
    usual: bool = True
    where: str = ""
    requests: Sequence[Posted] = field(default_factory=tuple)
    taken: int = 0
    flags: int = 0
    segments: int = 0
    ready: bool = True
    steps: frozenset[str] = frozenset()

    @property
    def polled(self) -> bool:
        """Whether PE 0 has polled a completion queue."""
        return "poll_cq" in self.steps

    @property
    def waited(self) -> bool:
        """Whether PE 0 has waited for completions."""
        return "a wait for completions" in self.steps

    def last_rung(self) -> bool:
        """Whether the last request was rung for."""
        return bool(self.requests) and self.requests[-1].rung


def gathered(program: Program, report: Report, file: Path) -> Evidence:
    """What there is to see of the first failure of a report, or, if it has none, of an execution without an end."""
    failure = report.failures[0] if report.failures else None
    with silenced(), live(program):
        usual = _seen(program, [], file, report.profile)
        if failure is None:
            return usual
        return replace(_seen(program, failure.choices, file, report.profile), usual=usual.kind != "")


def _seen(program: Program, choices: Sequence[int], file: Path, profile: str) -> Evidence:
    """An execution up to a failure, or until it is long enough."""
    job, given, steps = Job(program), iter(choices), set[str]()

    def note(move: Move, late: bool) -> None:
        if move == 0 and (step := job.tasks[0].step) is not None:
            steps.add(step.what)

    def choose(moves: Sequence[Move]) -> int:
        return min(next(given, 0), len(moves) - 1)

    run(job, choose, MOVES_MAX, watch=note, stop=lambda: job.failure)
    if (step := job.tasks[0].step) is not None:
        steps.add(step.what)
    end, machine = job.end(), job.machine
    mine = [each for each in machine.known.values() if each.pe == 0]
    found = Evidence(
        profile, end.kind, end.text, end.error, _pe(end.who), True, _where(job, file),
        [_posted(job, each) for each in mine if each.ring],
        sum(ring.taken for name, ring in machine.rings.items() if isinstance(name, tuple) and name[1] == 0),
        sum(not each.ring and each.kind is not Kind.STORE for each in mine), sum(pe == 0 for pe, _ in job.segments),
        not any(pair.failed for name, pair in machine.queue_pairs.items() if isinstance(name, tuple) and name[1] == 0),
        frozenset(steps),
    )  # fmt: skip
    job.close()
    return found


def _pe(who: TaskKey | None) -> int | None:
    return who[0] if isinstance(who, tuple) else who


def _posted(job: Job, request: Request) -> Posted:
    now = job.machine.flight.get(request.key, request)
    over = request.key not in job.machine.queue_pairs[request.queue].waiting
    return Posted(
        request.kind.name.lower(), now.rung, request.signaled, request.source is None, over, now.fenced,
        request.bad or "ok",
    )  # fmt: skip


def _where(job: Job, file: Path) -> str:
    """The function of the file that PE 0 is in."""
    task = job.tasks[0]
    place = raised_at(task.error) if task.error is not None else task.where if task.step is not None else ""
    name, _, line = place.rpartition(":")
    if not line.isdigit() or Path(name) != file:
        return ""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = [node for node in functions if node.lineno <= int(line) <= (node.end_lineno or 0)]
    return inside[0].name if inside else ""
