"""Lesson 1: a slot of the ring, two positions, a doorbell."""

from __future__ import annotations

from ..errors import QueueFull
from .lesson import Hint, Lesson

LESSON = Lesson(
    1, "slots", "a slot, two positions, a doorbell", ("rc_strict",), ("rc_strict", "udma"),
    (
        Hint(
            "untouched",
            lambda seen: not seen.requests,
            "nothing was posted: qp.post(request) puts a request into the ring",
        ),
        Hint(
            "no doorbell",
            lambda seen: not any(each.rung for each in seen.requests),
            "the requests lie in the ring, and the adapter does not know: qp.doorbell() tells it how far it may go",
        ),
        Hint(
            "doorbell before the post",
            lambda seen: not isinstance(seen.error, QueueFull) and not seen.last_rung(),
            "the last request was posted and never rung for: a doorbell carries the producer position of that "
            "moment, so it is good for what was posted before it and for nothing later",
        ),
        Hint(
            "not taken",
            lambda seen: isinstance(seen.error, QueueFull) and seen.usual,
            "the ring is full: its slots come back when completions are taken (cq.wait, cq.poll), not when the "
            "requests are over",
        ),
        Hint(
            "polled once",
            lambda seen: isinstance(seen.error, QueueFull) and not seen.usual,
            "the ring is full, though in another order it was not: cq.poll() takes what is there and never waits, "
            "and here the completion had not come; cq.wait(1) waits for it",
        ),
        Hint(
            "waits for too many",
            lambda seen: seen.kind == "deadlock" and seen.where != "",
            "PE 0 waits for a completion that can't come: each request gives one, once, and only after it was rung "
            "for",
        ),
    ),
)  # fmt: skip
