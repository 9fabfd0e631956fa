"""Lesson 3: selective signaling, and the ring that is full for good."""

from __future__ import annotations

from ..errors import QueueFull
from .evidence import Evidence
from .lesson import Hint, Lesson


def _full(seen: Evidence) -> bool:
    return isinstance(seen.error, QueueFull)


def _signaled(seen: Evidence) -> int:
    return sum(each.signaled for each in seen.requests)


LESSON = Lesson(
    3, "signaling", "selective signaling, and a ring that is full for good", ("rc_strict",), ("rc_strict", "udma"),
    (
        Hint(
            "untouched",
            lambda seen: _full(seen) and not _signaled(seen),
            "the ring is full of requests that are not signaled: no completion will ever give their slots back",
        ),
        Hint(
            "not taken",
            lambda seen: _full(seen) and seen.usual and seen.taken == 0,
            "a signaled request gives nothing back by being over: its slot, and those of all before it, come back "
            "when its completion is taken (cq.wait, cq.poll)",
        ),
        Hint(
            "polled once",
            lambda seen: seen.pe == 0 and seen.polled and not (seen.usual or seen.waited),
            "the ring still holds requests that are over, though in another order it does not: cq.poll() never "
            "waits, and here the completion had not come when it looked; cq.wait(1) waits for it",
        ),
        Hint(
            "signals too seldom",
            _full,
            "the ring fills up behind the last signaled request: signal at least one in every half of the ring, and "
            "take its completion before the next",
        ),
        Hint(
            "waits for an unsignaled request",
            lambda seen: seen.kind == "deadlock" and seen.where == "send",
            "PE 0 waits for a completion that does not come: every signaled request gives one, and no other does",
        ),
        Hint(
            "the last is not signaled",
            lambda seen: seen.kind == "assertion" and "given back" in seen.text,
            "the requests after the last completion are still in the ring, and nothing tells that they are over: "
            "the last one must be signaled, and its completion taken",
        ),
        Hint(
            "too many completions",
            lambda seen: seen.kind == "assertion" and _signaled(seen) > 4,
            "all arrives, but with more than four completions: one completion stands for all requests before it",
        ),
        Hint(
            "stopped early",
            lambda seen: len(seen.requests) < 8,
            "fewer than eight requests were posted: PE 1 waits for all eight words",
        ),
    ),
)  # fmt: skip
