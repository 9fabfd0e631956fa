"""What a profile demands between two requests of one PE, as tables.

`Rules(profile).between(first, second)` lists (stage of the first, stage of the second): the second may not reach its
stage before the first has reached its own. Everything that orders deliveries is here: the order of kinds on a queue,
flags of requests, `shmem.fence`, and the program order of an ordered machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from .profiles import Profile
from .requests import Kind, Order, Request, Stage

Rule = tuple[Stage, Stage]

EFFECTS = (Kind.STORE, Kind.WRITE, Kind.ATOMIC, Kind.SEND)  # what changes the target's memory
_IN_EFFECT: Rule = (Stage.PLACED, Stage.PLACED)
_FENCED: dict[str, tuple[Kind, Stage]] = {
    "read": (Kind.READ, Stage.ANSWERED),
    "atomic": (Kind.ATOMIC, Stage.ANSWERED),
    "write": (Kind.WRITE, Stage.PLACED),
}


def _same_queue(profile: Profile) -> dict[tuple[Kind, Kind], Rule]:
    """Rules between requests of one queue pair (or of one context to one PE) without flags."""
    rules: dict[tuple[Kind, Kind], Rule] = {}
    if profile.requests == "post":
        rules |= {(first, second): _IN_EFFECT for first in EFFECTS for second in EFFECTS}
    if profile.responder:
        at_once = (Kind.ATOMIC, Kind.SEND)  # what an adapter executes in the order of arrival, relaxed or not
        rules |= {(first, second): _IN_EFFECT for first in at_once for second in (*at_once, Kind.READ)}
        rules[Kind.WRITE, Kind.READ] = _IN_EFFECT
        rules[Kind.READ, Kind.READ] = (Stage.ANSWERED, Stage.ANSWERED)
        if profile.write_atomic == "ordered":
            rules[Kind.WRITE, Kind.ATOMIC] = _IN_EFFECT
        else:
            rules.pop((Kind.WRITE, Kind.ATOMIC), None)
    return rules


class Rules:
    """The tables of a profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._same = _same_queue(profile)
        self._program_order = profile.program_order
        # On one queue pair only fences and receives order.
        self._free = not self._same and profile.requests not in ("flag", "program")
        self._fenced = [_FENCED[name] for name in sorted(profile.fence_flag)]

    def concerning(self, second: Request, earlier: Iterable[Request]) -> Iterable[Request]:
        """Those of earlier requests that a new one may have to wait for: `between` has nothing for the others."""
        store = Kind.STORE
        if not self._free or second.fence or second.kind is store or second.put is not None:
            return earlier
        return [first for first in earlier if first.fenced or first.needs_receive or first.kind is store]

    def between(self, first: Request, second: Request) -> list[Rule]:
        """What the second, posted later by the same PE, must wait for of the first."""
        if self._program_order:
            return [_IN_EFFECT] if first.kind is not Kind.READ and second.kind is not Kind.READ else []
        if second.kind is Kind.STORE or first.kind is Kind.STORE:
            return self._of_stores(first, second)
        if first.target != second.target:
            return []
        if first.queue != second.queue:
            across = first.spread and second.default and first.kind in EFFECTS and second.kind in EFFECTS
            return [_IN_EFFECT] if across else []
        return self._on_queue(first, second)

    def _of_stores(self, first: Request, second: Request) -> list[Rule]:
        """A PE's stores: of one word in order, and those to its own memory before what it does to that word in another
        way."""
        same_memory = first.target == second.target
        overlap = first.at.lo < second.at.hi and second.at.lo < first.at.hi
        by_hand = first.kind is Kind.STORE and (second.kind is Kind.STORE or second.target == second.pe)
        fenced = first.fenced and first.kind in EFFECTS and second.kind in EFFECTS
        return [_IN_EFFECT] if same_memory and (fenced or (overlap and by_hand)) else []

    def _on_queue(self, first: Request, second: Request) -> list[Rule]:
        free = self._free and not (first.needs_receive or second.fence)
        found = [] if free or first.stripe != second.stripe else self._on_queue_pair(first, second)
        if first.fenced and first.kind in EFFECTS and second.kind in EFFECTS:
            found.append(_IN_EFFECT)
        if second.word is not None and second.put is not None and first.put == second.put:
            found.append(_IN_EFFECT)
        return found

    def _on_queue_pair(self, first: Request, second: Request) -> list[Rule]:
        found = []
        if rule := self._same.get((first.kind, second.kind)):
            found.append(rule)
        if first.needs_receive:
            found.append((Stage.ACCEPTED, Stage.SOURCE))
        if second.fence:
            found += [(stage, Stage.SOURCE) for kind, stage in self._fenced if kind is first.kind]
        if self.profile.requests == "flag" and second.order is Order.STRONG and first.order is not Order.NONE:
            found.append((Stage.ANSWERED if first.kind is Kind.READ else Stage.PLACED, Stage.PLACED))
        return found
