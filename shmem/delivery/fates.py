"""Moves that are several ways in which one thing may go: where a search tries one, it has to try the others."""

from __future__ import annotations

from typing import Any

from .requests import Act, Event

_FATES = ((Act.BELL, Act.LOSE), (Act.RETIRE, Act.UNTOLD), (Act.ACCEPT, Act.GIVE_UP, Act.ADMIT))
_FORKED = frozenset(act for fates in _FATES for act in fates)


def forked(move: Any) -> bool:
    """Whether a move is one of several ways in which a thing may go."""
    return isinstance(move, Event) and move.act in _FORKED


def alternative(one: Any, other: Any) -> bool:
    """Whether two moves are two ways in which one thing may go: where one is tried, so must be the other."""
    if not (isinstance(one, Event) and isinstance(other, Event)) or (one.key, one.unit) != (other.key, other.unit):
        return False
    return any(one.act in fates and other.act in fates for fates in _FATES)
