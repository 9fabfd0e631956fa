"""Lesson 2: the source is read late."""

from __future__ import annotations

from .lesson import Hint, Lesson

OURS = 2  # memory that the exercise itself has registered at PE 0

LESSON = Lesson(
    2, "sources", "the source is read late", ("rc_strict",), ("rc_strict", "udma"),
    (
        Hint(
            "waits for an unsignaled request",
            lambda seen: seen.kind == "deadlock" and not all(each.signaled for each in seen.requests),
            "PE 0 waits for a completion of a request that is not signaled: only its failure would be told",
        ),
        Hint(
            "stopped early",
            lambda seen: len(seen.requests) < 4,
            "fewer than four requests were posted: PE 1 waits for all four words",
        ),
        Hint(
            "too late",
            lambda seen: seen.kind == "assertion" and seen.waited,
            "completions were waited for, but after the word was changed: the word may be changed only after the "
            "completion of the request that sends it",
        ),
        Hint(
            "polled once",
            lambda seen: seen.kind == "assertion" and seen.polled,
            "in this order the completion had not come when cq.poll() looked, and the word was changed all the "
            "same: cq.wait(1) waits for it",
        ),
        Hint(
            "two buffers",
            lambda seen: seen.kind == "assertion" and seen.segments > OURS,
            "more memory puts it off: also there a word is used again before its request was over",
        ),
        Hint(
            "untouched",
            lambda seen: seen.kind == "assertion",
            "the word was changed before the adapter had read it: post copies nothing, unless the request is inline",
        ),
    ),
    shows=lambda got: got == [3, 2, 3],
)  # fmt: skip
