"""Happens-before as a graph: a judge of races that writes down every edge of an execution and asks who reaches whom.

It shares nothing with `shmem.check.races` but the events. A node is a step of a task, or one of the moments of an
operation that has them apart: the effect begins (IN) and is over (OUT), the source was read, the result is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shmem.fabric.events import (
    Access,
    Acquire,
    Answered,
    Event,
    Fence,
    Kind,
    Landed,
    Level,
    Operation,
    Quiet,
    Release,
    Span,
    Waited,
)

WRITES = {Kind.STORE, Kind.PUT, Kind.UPDATE}
ATOMIC = {Kind.FETCH, Kind.UPDATE, Kind.WAIT}
Node = Any


def pe(task: Any) -> int:
    """The PE of a task."""
    return int(task if isinstance(task, int) else task[0])


@dataclass(frozen=True)
class Touch:
    """One access: the node at which it begins, those of which one tells that it is over, and what it is."""

    event: int
    part: str  # "at", "source", "result"
    begins: Node
    over: tuple[Node, ...]
    own: tuple[Node, ...]  # the same, seen from its own PE
    task: Any
    kind: Kind
    at: Span
    operation: Any
    type: str
    domain: str


class Closure:
    """The graph of one execution."""

    def __init__(self, events: Sequence[Event], lenient: bool) -> None:
        self.events, self.lenient = list(events), lenient
        self.edges: dict[Node, set[Node]] = {}  # to each node those right before it
        self.touches: list[Touch] = []
        self.mine = [i for i, event in enumerate(self.events) if hasattr(event, "task")]
        self.fences = [i for i in self.mine if isinstance(self.events[i], Fence) and not self._of_meeting(i)]
        self._program()
        for i in self.mine:
            self._event(i, self.events[i])
        self._order()

    # ---- nodes and edges ----

    def _edge(self, before: Node, after: Node) -> None:
        self.edges.setdefault(after, set()).add(before)
        self.edges.setdefault(before, set())

    def _of_meeting(self, i: int) -> bool:
        """Whether a fence is a sync's own: the next thing its task does is to arrive."""
        task = self.events[i].task  # type: ignore[union-attr]
        following = next((e for e in self.events[i + 1 :] if getattr(e, "task", None) == task), None)
        return isinstance(following, Release) and following.meeting

    def _program(self) -> None:
        last: dict[Any, int] = {}
        for i in self.mine:
            task = self.events[i].task  # type: ignore[union-attr]
            self.edges.setdefault(("step", i), set())
            if task in last:
                self._edge(("step", last[task]), ("step", i))
            last[task] = i

    def _looks(self, i: int) -> Node:
        """Where a wait begins: it looks before it has seen what ends it."""
        before = [k for k in self.mine if k < i and self.events[k].task == self.events[i].task]  # type: ignore[union-attr]
        for k in before[-1:]:
            self._edge(("step", k), ("looks", i))
        self._edge(("looks", i), ("step", i))
        return "looks", i

    def _event(self, i: int, event: Any) -> None:
        step = ("step", i)
        if isinstance(event, Access):
            seen = (("stored", i),) if event.kind is Kind.STORE and isinstance(event.at.space, int) else (step,)
            if seen != (step,):
                self._edge(step, seen[0])
            self._touch(i, "at", step, seen, (step,), event, event.kind, event.at)
        elif isinstance(event, Operation):
            self._operation(i, event)
        elif isinstance(event, Waited):
            self._touch(i, "at", self._looks(i), (step,), (step,), event, event.kind, event.at)
            self._saw(i, event.at, i)
        elif isinstance(event, Answered) and self.lenient:
            at = next(k for k, e in enumerate(self.events) if isinstance(e, Landed) and e.id == event.id)
            self._saw(at, self.events[at].at, i)  # type: ignore[union-attr]
        elif isinstance(event, Acquire):
            for token in event.tokens:
                released = [k for k in self.mine if k < i and getattr(self.events[k], "token", None) == token]
                for k in released[-1:]:
                    self._edge(("step", k), step)

    def _operation(self, i: int, event: Operation) -> None:
        step, begins, ends = ("step", i), ("in", i), ("out", i)
        self._edge(step, begins)
        self._edge(begins, ends)
        if event.answered:
            ends = step
        elif event.kind is Kind.GET:
            ends = ("result", i)
            self._edge(step, ends)
        for name, span, kind in (("source", event.source, Kind.LOAD), ("result", event.result, Kind.STORE)):
            node = (name, i)
            if span is not None:
                self._edge(step, node)
                over = (node, ("out", i)) if name == "source" and self.lenient else (node,)
                over = self.ends(i, over) if event.late else (step,)
                for each in (span, *event.rest):
                    self._touch(i, name, self.starts(i, name), over, over, event, kind, each)
        if event.at.lo < event.at.hi:
            over = self.ends(i, (ends,))
            self._touch(i, "at", begins, over, over, event, event.kind, event.at)
        for k, other in enumerate(self.events[:i]):
            if event.carries is not None and isinstance(other, Operation) and other.group == event.carries:
                self._edge(("out", k), begins)

    def starts(self, i: int, part: str) -> Node:
        """The node at which a part of an operation, "source" or "result", begins."""
        return "step", i

    def ends(self, i: int, over: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes of which one tells that a part of an operation is over."""
        return over

    def _touch(self, i: int, part: str, begins: Node, over: Any, own: Any, event: Any, kind: Kind, at: Span) -> None:
        more = getattr(event, "id", None), getattr(event, "type", ""), getattr(event, "domain", "")
        self.touches.append(Touch(i, part, begins, over, own, event.task, kind, at, *more))

    def _saw(self, upto: int, at: Span, by: int) -> None:
        """What made each byte before event `upto` comes before step `by`."""
        for byte in range(at.lo, at.hi):
            for k in range(upto - 1, -1, -1):
                event: Any = self.events[k]
                if isinstance(event, Access) and event.kind is Kind.STORE and _has(event.at, at.space, byte):
                    break
                if not isinstance(event, Landed) or not _has(event.at, at.space, byte):
                    continue
                made = next(n for n, e in enumerate(self.events) if isinstance(e, Operation) and e.id == event.id)
                operation: Any = self.events[made]
                if operation.kind is Kind.FETCH:
                    continue
                if operation.kind is Kind.UPDATE or self.lenient:
                    self._edge(("in", made), ("step", by))
                    if at.lo <= operation.at.lo and operation.at.hi <= at.hi:
                        self._edge(("out", made), ("step", by))
                if event.replaces:
                    break

    # ---- what fences and completions order: by what their task knows then ----

    def _order(self) -> None:
        """Adds these edges event by event, since each may lead to more."""
        operations = [i for i in self.mine if isinstance(self.events[i], Operation)]
        for i in self.mine:
            event: Any = self.events[i]
            known = self.before(("step", i)) | {("step", i)}
            same = [k for k in self.mine if k <= i and ("step", k) in known]
            same = [k for k in same if pe(self.events[k].task) == pe(event.task)]  # type: ignore[union-attr]
            self._more(i, event, known, same)
            if not isinstance(event, (Fence, Quiet, Operation)) and not getattr(event, "meeting", False):
                continue
            shows = isinstance(event, Release) or (isinstance(event, Fence) and event.stores)
            if shows or (isinstance(event, Quiet) and event.target is None and event.level is Level.VISIBLE):
                for k in same:
                    if ("stored", k) in self.edges:
                        self._edge(("stored", k), ("step", i))
            for k in operations:
                posted: Any = self.events[k]
                if k not in same or k == i or not hasattr(event, "ctx") or posted.ctx != event.ctx:
                    continue
                if isinstance(event, Quiet) and event.target in (None, posted.target):
                    levels = {"source": Level.SOURCE, "result": Level.RESULT, "out": Level.VISIBLE}
                    for name, level in levels.items():
                        if (name, k) in self.edges and event.level in (level, Level.VISIBLE):
                            self._edge((name, k), ("step", i))
                if isinstance(event, Operation) and event.kind is not Kind.GET and event.target == posted.target:
                    between = [f for f in self.fences if ("step", f) in known and self.events[f].ctx == event.ctx]  # type: ignore[union-attr]
                    if posted.kind is not Kind.GET and any(
                        ("step", k) in self.before(("step", f)) and pe(self.events[f].task) == pe(event.task)  # type: ignore[union-attr]
                        for f in between
                    ):
                        self._edge(("out", k), ("in", i))

    def _more(self, i: int, event: Any, known: set[Node], same: list[int]) -> None:
        """What else an event adds."""

    def before(self, node: Node) -> set[Node]:
        """All nodes from which there is a way to this one."""
        found: set[Node] = set()
        left = list(self.edges.get(node, ()))
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += self.edges.get(one, ())
        return found

    # ---- races ----

    def races(self) -> set[tuple[tuple[int, str], tuple[int, str]]]:
        """Pairs of accesses, each as (event, part), that conflict and are not ordered."""
        found = set()
        order = {"source": 0, "result": 1, "at": 2}
        touches = sorted(self.touches, key=lambda one: (one.event, order[one.part]))
        for n, second in enumerate(touches):
            known = self.before(second.begins) | {second.begins}
            for first in touches[:n]:
                over = first.own if pe(first.task) == pe(second.task) else first.over
                if self.conflict(first, second) and not any(node in known for node in over):
                    found.add(((first.event, first.part), (second.event, second.part)))
        return found

    def exclusive(self, one: Touch, other: Touch) -> bool:
        """Whether two atomics are of types or domains that do not exclude each other."""
        if one.type and other.type and one.type != other.type and one.type[-2:] != other.type[-2:]:
            return True
        named = [each.type for each in (one, other)]
        if all(named) and named[0] != named[1] and not any(each.isdigit() for each in named):
            return True
        domains = {one.domain, other.domain} - {""}
        return len(domains) == 2 and (domains != {"adapter", "TEAM_WORLD"} or not self.lenient)

    def conflict(self, one: Touch, other: Touch) -> bool:
        """Whether two accesses may not go unordered."""
        private = not isinstance(one.at.space, int)
        if one.at.space != other.at.space or one.at.hi <= other.at.lo or other.at.hi <= one.at.lo:
            return False
        if (one.operation is not None and one.operation == other.operation) or (private and one.task != other.task):
            return False
        kinds = {one.kind, other.kind}
        if kinds <= ATOMIC:
            return Kind.WAIT not in kinds and Kind.UPDATE in kinds and self.exclusive(one, other)
        if kinds == {Kind.WAIT, Kind.PUT}:
            return not self.lenient
        if kinds & WRITES:
            return True
        return Kind.FETCH in kinds and not self.lenient


def _has(span: Span, space: Any, byte: int) -> bool:
    return span.space == space and span.lo <= byte < span.hi
