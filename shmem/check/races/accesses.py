"""The accesses that are compared: what each needs to be over, and what is written of it."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass

from ...fabric.events import Kind, Level, Span, Task, pe_of
from .clocks import Clock
from .rules import Verdict, domains_verdict, origin_verdict, target_verdict


@dataclass(slots=True, eq=False)
class Made:
    """One access. `over`: what has to have happened before it is: "step", its task has gone on; "store", others see
    its task's stores; else a completion of its operation: of its "source", its "result", or its "effect"."""

    task: Task
    where: str
    kind: Kind
    at: Span
    what: str
    over: str
    clock: Clock  # what comes before it
    point: int  # of its task
    ctx: int = 0
    target: int = 0
    id: Hashable = None
    type: str = ""
    domain: str = ""
    part: str = "at"  # of an operation: what it does to its target; or "source" or "result", the buffers of its PE

    @property
    def role(self) -> str:
        """What it is to a buffer of its PE; "" for what other PEs do, and for what a PE does to others."""
        if self.part != "at":
            return self.part if self.over == self.part else {"source": "load", "result": "store"}[self.part]
        own = self.at.space == pe_of(self.task) or not isinstance(self.at.space, int)
        return {Kind.LOAD: "load", Kind.STORE: "store"}.get(self.kind, "") if own else ""

    def before(self, clock: Clock, lenient: bool) -> bool:
        """Whether it is over at a point of a program. lenient: what has arrived was read."""
        task, point, over = self.task, self.point, self.over
        if over == "step":
            return clock.steps(task) >= point
        if over == "store":
            return clock.stores(task, pe_of(clock.task)) >= point
        if (over, self.id) in clock.seen:
            return True
        if over == "result":
            return clock.complete(Level.RESULT, task, self.ctx, self.target) >= point
        if over == "source" and clock.complete(Level.SOURCE, task, self.ctx, self.target) >= point:
            return True
        arrived = clock.complete(Level.VISIBLE, task, self.ctx, self.target) >= point or self.id in clock.seen
        return arrived and (over == "effect" or lenient)

    def told(self) -> str:
        """What it was, in words."""
        line = os.path.basename(self.where)
        whose = f"PE {self.task[0]} worker {self.task[1]}" if isinstance(self.task, tuple) else f"PE {self.task}"
        how = {"source": " reads its source", "result": " writes its result"}.get(self.part, "")
        return f"{self.what}{how} ({whose}, {line or '?'})"


@dataclass(slots=True, eq=False)
class Race:
    """Two accesses that nothing orders, in the order of the run, and the edge that is missing."""

    first: Made
    second: Made
    why: str

    @property
    def ends(self) -> tuple[Made, Made]:
        """Both accesses."""
        return self.first, self.second

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same two accesses of the program, whichever came first, on any PEs."""
        ends = sorted((one.where, one.what, one.part) for one in (self.first, self.second))
        return tuple(ends)

    @property
    def shared(self) -> Span:
        """The bytes that both touch."""
        one, other = self.first.at, self.second.at
        return Span(one.space, max(one.lo, other.lo), min(one.hi, other.hi))

    def __str__(self) -> str:
        space, lo, hi = self.shared
        private = not isinstance(space, int)
        pe = pe_of(self.first.task) if private else space
        where = f"{hi - lo} private bytes of PE {pe}" if private else f"bytes {lo:#x}..{hi:#x} of PE {pe}"
        return f"{self.first.told()} and {self.second.told()}: {where}: {self.why}"


def conflict(first: Made, second: Made, lenient: bool) -> bool:
    """Whether two accesses that share bytes may not go unordered."""
    if first.id is not None and first.id == second.id:
        return False
    if not isinstance(first.at.space, int) and first.task != second.task:
        return False  # what a program's own threads do to its memory is not judged
    roles = first.role, second.role
    if all(roles) and pe_of(first.task) == pe_of(second.task):
        verdict = origin_verdict(*roles)
    else:
        verdict = target_verdict(first.kind, second.kind)
        if verdict is Verdict.OK and unlike(first, second):
            verdict = domains_verdict(first.domain, second.domain) if _alike(first, second) else Verdict.RACE
    return verdict is Verdict.RACE or (verdict is Verdict.DISPUTED and not lenient)


def unlike(first: Made, second: Made) -> str:
    """Why two atomics do not exclude each other, "" if they do or are none, or both only read."""
    kinds = {first.kind, second.kind}
    if not (kinds <= {Kind.FETCH, Kind.UPDATE} and Kind.UPDATE in kinds):
        return ""
    if not _alike(first, second):
        return f"atomics of different types ({first.type}, {second.type}) do not exclude each other"
    if first.domain != second.domain and first.domain and second.domain:
        return f"atomics of different domains ({first.domain}, {second.domain}) do not exclude each other"
    return ""


def _alike(first: Made, second: Made) -> bool:
    """Whether two atomics are of one type, as far as that is known. Adapters know the bits of a word alone."""
    one, other = first.type, second.type
    return not (one and other) or one == other or one.endswith(other) or other.endswith(one)
