"""Bytes of one operation as this rank sent them, in ledgers that are never mixed.

*logical*: what the caller asked for, one row a selection, own rank included. *physical*: the rows and what
travels with them after deduplication, as far as they crossed to another rank. *wire*: the records as they are
laid out that crossed, with count words and barriers. Upstream's own figure is kept apart under its own name.
"""

from __future__ import annotations

from dataclasses import dataclass

WORD = 8  # bytes of a count word, and of what a barrier costs a rank


@dataclass(frozen=True)
class Traffic:
    """Bytes and records of one dispatch (as its sender) or combine (as the sender of the rows that return).

    `records` went to all ranks, `crossing` of them to another one; `selections` is the number of (token,
    expert) pairs they serve. `upstream` counts all records, own rank included, without padding.
    """

    operation: str
    selections: int
    records: int
    crossing: int
    logical: int
    physical: int
    wire: int
    upstream: int


def count(
    operation: str,
    selections: int,
    records: int,
    crossing: int,
    *,
    row_bytes: int,
    beside_bytes: int,
    record_bytes: int,
    words: int,
) -> Traffic:
    """The ledgers: `row_bytes` of a row, `beside_bytes` of what travels with it (ids, weights),
    `record_bytes` of the record as laid out, `words` count and barrier words sent to other ranks."""
    payload = row_bytes + beside_bytes
    return Traffic(
        operation=operation,
        selections=selections,
        records=records,
        crossing=crossing,
        logical=selections * row_bytes,
        physical=crossing * payload,
        wire=crossing * record_bytes + words * WORD,
        upstream=records * payload,
    )
