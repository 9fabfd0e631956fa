"""Exhaustive search that tries only orders that can be told apart (dynamic partial-order reduction).

Source sets of Abdulla, Aronis, Jonsson and Sagonas (2014) with sleep sets: after an execution step the search looks for
earlier steps that conflict with it and are not ordered before it otherwise, and notes at the state before them to try
the other order. Each unit in flight is a process of one step of its own, so a delivery is tried early or late only
where somebody could see the difference. Steps that wait are looked at while they are disabled as well: what they would
conflict with may have come first.

Executions are told apart by their traces, not by their values; but a placement of what memory holds already conflicts
with no load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..delivery.facts import Could, Facts, Move, Undone, alternative, forked
from .bounds import Bounds, Ended
from .found import Found
from .path import Piece, Steps, pieces
from .system import System, Trail


@dataclass(slots=True)
class Node:
    """A state on the path, and what is still to be tried there."""

    sleep: dict[Move, Facts]
    enabled: Sequence[Move]
    todo: list[Move] = field(default_factory=list)
    done: set[Move] = field(default_factory=set)
    # of the step taken from here:
    facts: Facts | None = None
    before: int = 0  # the steps that happen before it, and itself, as bits


class Search:
    """One exhaustive search."""

    def __init__(
        self, start: Callable[[], System], *, sleep: bool = True, bounds: Bounds | None = None,
        ended: Ended = lambda system, moves: False,
    ) -> None:  # fmt: skip
        self.found = Found()
        self.with_sleep = sleep
        self.bounds, self.ended = bounds or Bounds(), ended
        self.stop = False
        self.path: list[Node] = []
        self.steps = Steps()
        self.trail = Trail(start)

    def run(self) -> Found:
        """Explores everything, unless a bound is met."""
        self._enter({})
        while self.path and not self.stop:
            node = self.path[-1]
            if not self._advance(node):
                self.path.pop()
                if self.path:
                    last = self.path[-1]
                    assert last.facts is not None
                    self.steps.remove()
                    if self.with_sleep:
                        last.sleep[last.facts.move] = last.facts
        self.found.complete = not self.found.cut and not any(set(node.todo) - node.done for node in self.path)
        self.trail.close()
        return self.found

    def _enter(self, sleep: dict[Move, Facts]) -> None:
        """Puts the state of the trail on the path, with the one move that is tried first."""
        system = self.trail.here
        node = Node(sleep, system.moves())
        if len(self.path) >= self.bounds.moves and node.enabled:
            node.enabled, self.found.cut = [], self.found.cut + 1
        self.found.states += 1
        self.path.append(node)
        if not node.enabled:
            self.found.end(system.outcome())
            self.stop = self.ended(system, self.trail.moves)
        self.stop = self.stop or self.bounds.met(self.found)
        for move in node.enabled:
            if move not in sleep:
                node.todo.append(move)
                break
        last = self.path[-2].facts if len(self.path) > 1 else None
        for facts in system.blocked():
            # What touches nothing races with nothing; what the last step does not concern was looked at before it.
            if facts.touches and (last is None or facts.move == last.move or facts.conflicts(last)):
                self._races(facts, pieces(facts.touches), len(self.path) - 1)

    def _advance(self, node: Node) -> bool:
        """Takes the next move to try from a state; False when there is none."""
        while node.todo:
            move = node.todo.pop(0)
            if move in node.done or move in node.sleep:
                continue
            node.done.add(move)
            if forked(move):
                node.todo += [other for other in node.enabled if alternative(move, other)]
            at = len(self.path) - 1
            self.trail.back(at)
            node.facts = self.trail.here.facts(move)
            where = pieces(node.facts.touches)
            node.before = 1 << at | self._races(node.facts, where, at)
            self.steps.add(move, where, self.trail.forward(move))
            sleep = {
                other: facts for other, facts in node.sleep.items() if other != move and not facts.conflicts(node.facts)
            }
            self._enter(sleep)
            return True
        return False

    def _ordered(self, facts: Facts) -> int:
        """The steps that happen before a move, whatever is tried: its task's own, and what makes it possible."""
        found, path = 0, self.path
        for i in self.steps.before(facts.move, facts.needs()):
            found |= path[i].before
        return found

    def _races(self, facts: Facts, where: list[Piece], upto: int) -> int:
        """Notes what is to be tried in the other order; returns the steps that happen before the move by conflict.

        A step that waits for a value can't come before a write that it could not do without, but perhaps before others.
        """
        found = turned = self._ordered(facts)
        held = 0
        writes: list[int] = []  # steps that the move waits for, as far as is known
        for i in self.steps.near(where):
            if turned >> i & 1:
                continue
            node = self.path[i]
            assert node.facts is not None
            if not facts.conflicts(node.facts):
                continue
            if facts.locks and not node.facts.locks and node.facts.unlocks:
                held |= node.before  # it could not have come between the two steps of that atomic, but before both
                continue
            writes.append(i)
            if facts.could is None or self._could_before(facts.could, writes):
                self._turn(i, upto, facts, found)
                turned |= node.before
            found |= node.before
        return found | held

    def _could_before(self, could: Could, writes: list[int]) -> bool:
        """Whether a step that waits could happen before the last of these steps, which goes with those after it."""
        undone: Undone = []
        for k in writes:
            node = self.path[k]
            assert node.facts is not None
            if node.before >> writes[-1] & 1:
                for touch in node.facts.touches:
                    if touch.writes and touch.old is None:
                        return True
                    if touch.writes and touch.old is not None:
                        undone.append((touch.place, touch.old))
        return could(undone)

    def _turn(self, i: int, upto: int, facts: Facts, ordered: int) -> None:
        """Makes the state before step `i` try a move that leads to `facts` before that step. `ordered`: the later steps
        that happen before it."""
        node = self.path[i]
        later = [k for k in range(i + 1, upto) if not self.path[k].before >> i & 1]
        firsts = [
            step.move
            for k in later
            if (step := self.path[k].facts) and not any(self.path[k].before >> j & 1 for j in later if j < k)
        ]
        if not any(ordered >> k & 1 for k in later):
            firsts.append(facts.move)
        if any(move in node.done or move in node.todo or move in node.sleep for move in firsts):
            return
        possible = [move for move in firsts if move in node.enabled]
        if not possible:  # a receive that is not there yet can't be taken, but waiting for it can end
            possible = [move for move in node.enabled if any(alternative(move, first) for first in firsts)]
        node.todo += [move for move in possible[:1] if move not in node.done and move not in node.todo]
