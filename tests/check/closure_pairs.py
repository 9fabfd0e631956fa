"""The closure of an execution with queue pairs: what their requests, completions and receives add to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from shmem.fabric.events import Ended, Event, Kind, Landed, Level, Operation, Received, Rung

from .closure import Closure, Node, pe

PAIRS = -2  # contexts from here down are queue pairs


class PairedClosure(Closure):
    """The graph of one execution. An operation has three more nodes: from where on it may read its source (SRC), take
    effect (AT) and leave its result (RES); and one that tells that it is over without having happened (GONE)."""

    def __init__(self, events: Sequence[Event], lenient: bool) -> None:
        self.number = {event.id: i for i, event in enumerate(events) if isinstance(event, Operation)}
        self.bells = {each: i for i, event in enumerate(events) if isinstance(event, Rung) for each in event.ids}
        super().__init__(events, lenient)

    def starts(self, i: int, part: str) -> Node:
        """The node at which a part of an operation begins."""
        return {"source": "src", "result": "res"}[part], i

    def _operation(self, i: int, event: Operation) -> None:
        chain = [("step", i), ("src", i), ("at", i), ("res", i)]
        for one, other in pairwise(chain):
            self._edge(one, other)
        self._edge(("at", i), ("in", i))
        for part in ("source", "result"):
            self._edge(("step", i), (part, i))
        self._edge(("step", i), ("gone", i))
        super()._operation(i, event)
        for each in event.after:
            k, node = self.number[each.id], {"source": "src", "at": "at", "result": "res"}[each.part]
            self._edge(("out", k), (node, i))
            if each.answered:
                self._edge(("result", k), (node, i))

    def ends(self, i: int, over: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes of which one tells that a part of an operation is over."""
        return (*over, ("gone", i))

    def _more(self, i: int, event: Any, known: set[Node], same: list[int]) -> None:
        """What an event adds to the graph, once it is known what comes before it."""
        if isinstance(event, Received):
            for each in (event.id, *event.covers):
                self._edge(("out", self.number[each]), ("step", i))
        elif isinstance(event, Ended):
            for each in event.ids:
                self._ended(i, event, self.number[each], known)
        elif isinstance(event, Operation):
            self._posted(i, event, known, same)

    def _ended(self, i: int, event: Ended, k: int, known: set[Node]) -> None:
        if event.told:
            self._edge(("step", k), ("step", i))
        elif ("step", k) not in known:
            return
        if event.level is Level.SOURCE:
            self._edge(("source", k), ("step", i))
        elif event.failed:
            self._edge(("gone", k), ("step", i))
        else:
            for name in ("out", "source", "result"):
                self._edge((name, k), ("step", i))
            self._read(i, self.events[k])

    def _read(self, i: int, event: Any) -> None:
        """The answer of an atomic is there: what made the value that it has read comes before."""
        if self.lenient and event.result is not None and event.kind is Kind.UPDATE:
            at = next(k for k, e in enumerate(self.events) if isinstance(e, Landed) and e.id == event.id)
            before = {step for step in self.edges[("step", i)] if step[0] in ("in", "out")}
            self._saw(at, event.at, i)
            assert before <= self.edges[("step", i)]

    def _posted(self, i: int, event: Operation, known: set[Node], same: list[int]) -> None:
        """What fences of the default context put before an operation, on queue pairs or that context."""
        if event.stores:
            for k in self.mine:
                if (
                    ("stored", k) in self.edges
                    and ("step", k) in self.before(("at", i))
                    and pe(self.events[k].task) == pe(event.task)
                ):  # type: ignore[union-attr]
                    self._edge(("stored", k), ("in", i))
        if event.kind is Kind.GET or not (event.ctx == 0 or event.ctx <= PAIRS):
            return
        fences = [f for f in self.fences if self.events[f].ctx == 0 and ("step", f) in known]  # type: ignore[union-attr]
        fences = [f for f in fences if pe(self.events[f].task) == pe(event.task)]  # type: ignore[union-attr]
        for k, first in enumerate(self.events[:i]):
            if not isinstance(first, Operation) or pe(first.task) != pe(event.task) or first.kind is Kind.GET:
                continue
            if first.target != event.target or not (first.ctx == 0 or first.ctx <= PAIRS):
                continue
            across = first.ctx <= PAIRS and first.ctx != event.ctx
            ready = self.bells.get(first.id) if across else k
            if ready is not None and any(("step", ready) in self.before(("step", f)) for f in fences):
                self._edge(("out", k), ("in", i))
