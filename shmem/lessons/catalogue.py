"""All lessons, by number. Numbers leave room: 5 to 7 are about flags."""

from __future__ import annotations

from ..errors import ArgumentError
from . import batches, failures, signaling, slots, sources, visibility
from .lesson import Lesson

LESSONS = {
    each.number: each
    for each in (slots.LESSON, sources.LESSON, signaling.LESSON, visibility.LESSON, failures.LESSON, batches.LESSON)
}  # fmt: skip


def lesson(number: int) -> Lesson:
    """A lesson. Raises ArgumentError if there is none of that number."""
    if number not in LESSONS:
        raise ArgumentError(f"there is no lesson {number}: there are {', '.join(map(str, LESSONS))}")
    return LESSONS[number]
