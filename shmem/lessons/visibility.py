"""Lesson 4: a completion is not visibility."""

from __future__ import annotations

from .evidence import Evidence
from .lesson import Hint, Lesson


def _kinds(seen: Evidence) -> list[str]:
    return [each.kind for each in seen.requests]


def _stale(seen: Evidence) -> bool:
    return seen.kind == "assertion"


LESSON = Lesson(
    4, "visibility", "a completion is not visibility", ("rc_strict", "rc_relaxed", "udma", "tso"),
    ("rc_strict", "rc_relaxed"),
    (
        Hint(
            "tells nobody",
            lambda seen: seen.kind == "deadlock" and not seen.where,
            "PE 1 waits for the flag, and nobody has set it",
        ),
        Hint(
            "READ before the WRITE",
            lambda seen: _stale(seen) and _kinds(seen)[:1] == ["read"],
            "the READ stands before the WRITE: its answer says nothing of what was posted later",
        ),
        Hint(
            "READ not waited for",
            lambda seen: _stale(seen) and "read" in _kinds(seen),
            "a READ behind the WRITE is right, but the flag was set before its answer had come: its own completion "
            "must be taken first, not that of the WRITE",
        ),
        Hint(
            "flag on the same queue pair",
            lambda seen: _stale(seen) and not seen.flags and seen.profile == "rc_relaxed",
            "rc_strict places the requests of a queue pair in the order posted, so this is right there; with "
            "relaxed ordering the flag may be placed before the data, also after the completion of those",
        ),
        Hint(
            "completion taken",
            lambda seen: _stale(seen) and seen.taken > 0,
            "the completion says that the adapter of PE 1 has the data; they may still be on their way to memory "
            "when the flag, which comes on another way, is there already. A READ of the same words behind the WRITE "
            "is answered after they were placed",
        ),
        Hint(
            "untouched",
            lambda seen: _stale(seen) and _kinds(seen) == ["write"],
            "the flag was set right after the WRITE was posted: nothing at all is known of it then",
        ),
    ),
    shows=lambda got: got == [7, 0],
)  # fmt: skip
