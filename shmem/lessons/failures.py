"""Lesson 8: errors and flush."""

from __future__ import annotations

import re

from .evidence import Evidence
from .lesson import Hint, Lesson

REQUESTS = 5


def _told(seen: Evidence) -> list[int] | None:
    """What the answer said of bad requests, where that was wrong."""
    found = re.search(r"send says that \[([\d, ]*)\] are bad", seen.text)
    return None if found is None else [int(each) for each in found[1].split(",") if each.strip()]


def _failed(seen: Evidence) -> int:
    """How many requests were tried and failed."""
    return sum(each.over and each.status not in ("ok", "flush") for each in seen.requests)


def _again(seen: Evidence) -> bool:
    return len(seen.requests) > REQUESTS


LESSON = Lesson(
    8, "failures", "errors and flush", ("rc_strict",), ("rc_strict", "udma"),
    (
        Hint(
            "the bad one again",
            lambda seen: _failed(seen) > 1,
            "the bad request was posted again, and failed again: of the completions that are not ok, the one that "
            "is not `flush` names the request at fault",
        ),
        Hint(
            "no reset",
            lambda seen: _again(seen) and all(each.status == "flush" for each in seen.requests[REQUESTS:] if each.over),
            "what was posted again came back as `flush` again: a queue pair in error takes requests and carries out "
            "none, until qp.reset()",
        ),
        Hint(
            "reset too early",
            lambda seen: seen.kind == "deadlock" and _failed(seen) > 0 and seen.ready,
            "PE 0 waits for completions that do not come: qp.reset() empties the queue, so those that were to be "
            "told as `flush` must be taken before it",
        ),
        Hint(
            "waits for a good end",
            lambda seen: seen.kind == "deadlock",
            "PE 0 waits for more completions than there are: after a failure each request left gives one, `flush`, "
            "and no more come",
        ),
        Hint(
            "flush taken for bad",
            lambda seen: len(_told(seen) or []) > 1,
            "`flush` does not say that a request is bad: it stood behind one that failed, and was not tried",
        ),
        Hint(
            "untouched",
            lambda seen: _told(seen) == [],
            "a completion is not a success: look at `ok` and `status` of each",
        ),
        Hint(
            "not posted again",
            lambda seen: seen.pe == 1 and not _again(seen),
            "the bad request is named, but those behind it were flushed, and nobody has posted them again",
        ),
    ),
)  # fmt: skip
