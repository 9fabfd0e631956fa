"""Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte 2010), over PEs and deliveries.

Every task and every unit in flight has a priority, drawn at random; the highest that can go on does, and at d - 1
moves, drawn as well, the one about to go on falls to the bottom. Units that the profile orders are never possible
together, so those of a queue are one chain where it keeps an order, and chains of their own where it keeps none (as in
the form for partial orders by Yuan, Yang, Gu 2018).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...delivery.requests import Act, Event
from ..bounds import Bounds, Ended
from ..found import Found
from ..system import System
from .walk import walk

DEPTH = 3
_LATER = (Act.AGAIN, Act.SHOW)  # what is possible as soon as a unit is placed, and may come long after


def search(start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended, depth: int = DEPTH) -> Found:
    """Executions by random priorities; how long they are is learnt from those before."""
    longest = 16

    def choices(i: int) -> Callable[[Sequence[Any]], int]:
        rng = random.Random(f"{seed}.{i}")
        drops = {rng.randrange(longest): -1 - k for k in range(depth - 1)}
        priorities: dict[Hashable, float] = {}
        at = 0

        def best(chains: list[Hashable]) -> int:
            return max(range(len(chains)), key=lambda k: priorities[chains[k]])

        def choose(moves: Sequence[Any]) -> int:
            nonlocal at
            chains = [_chain(move) for move in moves]
            for chain in chains:
                if chain not in priorities:
                    priorities[chain] = rng.random()
            if at in drops:
                priorities[chains[best(chains)]] = drops[at]
            at += 1
            return best(chains)

        return choose

    def after(moves: int) -> None:
        nonlocal longest
        longest = max(longest, moves)

    return walk(start, bounds, ended, choices, after)


def _chain(move: Any) -> Hashable:
    """What a move belongs to: a task, or a request's units. Units that the profile orders are never enabled together,
    so one priority for each unit is the partial-order form."""
    return (move.key, move.unit, move.act if move.act in _LATER else None) if isinstance(move, Event) else move
