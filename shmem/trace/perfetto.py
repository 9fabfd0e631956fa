"""A timeline as Trace Event JSON, which ui.perfetto.dev and chrome://tracing open.

A PE is a process there, and each of its rows a thread. Slices are pairs of "B" and "E", marks "i", arrows pairs of "s"
and "f" of one id; "M" names processes and threads. Events stand in the order of their times, an end before a beginning.

The viewer knows a thread by its number alone, whatever its process, takes number 0 for the idle one, and one with the
number of its process for that one's main thread: threads are numbered on behind the processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..files import write_whole
from .timeline import Row, Timeline

SCHEMA = "shmemu-trace/1"
_ORDER = {"E": 0, "B": 1, "s": 2, "f": 3, "i": 4}  # at one time


def as_json(timeline: Timeline) -> dict[str, Any]:
    """The whole file, ready for `json`."""
    numbers = _numbers(timeline.rows)
    events = [*_slices(timeline, numbers), *_arrows(timeline, numbers), *_marks(timeline, numbers)]
    events.sort(key=lambda event: (event["ts"], _ORDER[event["ph"]]))
    if timeline.unit_us != 1:
        for event in events:
            event["ts"] = round(event["ts"] * timeline.unit_us, 3)
    return {
        "schema": SCHEMA,
        "displayTimeUnit": "ns",
        "otherData": dict(timeline.about),
        "traceEvents": [*_names(numbers), *events],
    }


def write(timeline: Timeline, path: str | os.PathLike[str]) -> None:
    """Writes the file, whole or not at all. Raises OSError."""
    write_whole(path, json.dumps(as_json(timeline), indent=1) + "\n")


def _numbers(rows: list[Row]) -> dict[Row, int]:
    """Each row's thread."""
    first = max((row.pe for row in rows), default=0) + 1
    return {row: first + i for i, row in enumerate(rows)}


def _names(numbers: Mapping[Row, int]) -> list[dict[str, Any]]:
    found, named = [], set()
    for row, number in numbers.items():
        where = {"ph": "M", "pid": row.pe, "tid": number}
        if row.pe not in named:
            named.add(row.pe)
            found.append({**where, "name": "process_name", "args": {"name": f"PE {row.pe}"}})
            found.append({**where, "name": "process_sort_index", "args": {"sort_index": row.pe}})
        found.append({**where, "name": "thread_name", "args": {"name": row.what}})
        found.append({**where, "name": "thread_sort_index", "args": {"sort_index": number}})
    return found


def _event(phase: str, row: Row, numbers: Mapping[Row, int], name: str, at: int, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "cat": row.what, "pid": row.pe, "tid": numbers[row], "ts": at, **more}


def _slices(timeline: Timeline, numbers: Mapping[Row, int]) -> list[dict[str, Any]]:
    found = []
    for each in timeline.slices:
        found.append(_event("B", each.row, numbers, each.name, each.start, args=dict(each.details)))
        found.append(_event("E", each.row, numbers, each.name, each.end))
    return found


def _arrows(timeline: Timeline, numbers: Mapping[Row, int]) -> list[dict[str, Any]]:
    found = []
    for i, arrow in enumerate(timeline.arrows):
        both = {"id": i, "cat": "request"}
        found.append(_event("s", arrow.source, numbers, arrow.name, arrow.left) | both)
        found.append(_event("f", arrow.target, numbers, arrow.name, arrow.arrived, bp="e") | both)
    return found


def _marks(timeline: Timeline, numbers: Mapping[Row, int]) -> list[dict[str, Any]]:
    return [
        _event("i", mark.row, numbers, mark.name, mark.at, s="t", args=dict(mark.details)) for mark in timeline.marks
    ]
