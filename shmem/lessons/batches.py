"""Lesson 9: batches."""

from __future__ import annotations

from ..errors import QueueFull
from .evidence import Evidence
from .lesson import Hint, Lesson, Table

SUBMISSION = Table(
    "posting", "manual",
    ("a batch of 64 rows of 64 bytes", "posting, a row", "the adapter's work, a row", "taking the completion"),
    (
        ("one by one", "`qp.post` for each row"),
        ("each", "`qp.post_many`, a doorbell for each row"),
        ("batch", "`qp.post_many`, one doorbell"),
    ),
)  # fmt: skip
READINESS = Table(
    "messages", "inline",
    ("a message of 64 bytes", "from the post until PE 1 has a copy", "until its answer is back"),
    (
        ("completion first", "WRITE, its completion, then a WRITE of the flag"),
        ("same queue", "WRITE, and a WRITE of the flag behind it"),
        ("data as flag", "`put_lines`, layout LL: the data carry the flag"),
    ),
)  # fmt: skip
REMARK = (
    "In the first table the adapter is stepped by hand between posting and waiting; a doorbell is a store to memory, "
    "so a batch saves calls, and where a doorbell is a write across a bus it saves those, too. In the second one the "
    "adapter works within the calls of PE 0, so a completion costs no round trip; between machines the first row waits "
    "for one more. "
    "No row is without its last column."
)
OURS = 2  # memory that the exercise itself has registered at PE 0


def _full(seen: Evidence) -> bool:
    return isinstance(seen.error, QueueFull)


def _stale(seen: Evidence) -> bool:
    return seen.kind == "assertion"


def _answered(seen: Evidence) -> bool:
    """Whether PE 0 has waited for a word of its own memory."""
    return "wait" in seen.steps


LESSON = Lesson(
    9, "batches", "what a batch speeds up, and what it does not", ("udma", "rc_strict"), ("rc_strict", "udma"),
    (
        Hint(
            "polled once",
            lambda seen: seen.pe is not None and seen.polled and not (seen.usual or seen.waited),
            "in another order this works: cq.poll() takes what is there and never waits, and here the completion had "
            "not come when it looked; cq.wait(n) waits",
        ),
        Hint(
            "answer and no completion",
            lambda seen: _full(seen) and _answered(seen),
            "PE 1 has answered, and the ring is full all the same: what PE 1 sees gives no slot back, only a "
            "completion that is taken does",
        ),
        Hint(
            "quiet and no completion",
            lambda seen: _full(seen) and "quiet of queue pairs" in seen.steps,
            "all has arrived, and the ring is full all the same: shmem.quiet() waits, but takes no completion, and "
            "slots come back with those",
        ),
        Hint(
            "fence",
            lambda seen: (_full(seen) or _stale(seen)) and any(each.fenced for each in seen.requests),
            "shmem.fence() puts what follows behind what went before, at PE 1; it ends no request: rows may not have "
            "been read yet, and no slot is free again",
        ),
        Hint(
            "never signaled",
            lambda seen: not any(each.signaled for each in seen.requests) and bool(seen.requests),
            "no request is signaled, so no completion will ever come: of each batch the last one must be",
        ),
        Hint(
            "waits for too many",
            lambda seen: seen.kind == "deadlock" and seen.where != "",
            "PE 0 waits for more completions than there are: each signaled request gives one, once",
        ),
        Hint(
            "answer under udma",
            lambda seen: _stale(seen) and _answered(seen),
            "PE 1 has the last row, and under rc_strict then all of them; under udma the rows of a batch come in any "
            "order, and one before it may not even have been read. The completion of the last row covers those before "
            "it under both",
        ),
        Hint(
            "two buffers",
            lambda seen: _stale(seen) and seen.segments > OURS,
            "more memory puts it off: also there a row is written again before its request was over",
        ),
        Hint(
            "first completion",
            lambda seen: _stale(seen) and seen.waited and all(each.signaled for each in seen.requests),
            "completions were taken, but not that of the last row before the rows were written again: a completion "
            "says nothing of what was posted behind its request",
        ),
        Hint(
            "room alone",
            lambda seen: _stale(seen) and seen.waited,
            "the ring had room, but the rows were written again before the adapter had read them: a batch is over with "
            "the completion of its own last row, not with that of the batch before",
        ),
        Hint(
            "untouched",
            _full,
            "the third batch finds the ring full: one doorbell for a batch saves doorbells, not slots. They come back, "
            "and rows may be written again, when the completion of the batch's last row is taken",
        ),
        Hint(
            "stopped early",
            lambda seen: len(seen.requests) < 6,
            "fewer than six rows were posted: PE 1 waits for all six",
        ),
    ),
    shows=lambda got: got == [3, 2, 3, 4],
    tables=(SUBMISSION, READINESS), remark=REMARK,
)  # fmt: skip
