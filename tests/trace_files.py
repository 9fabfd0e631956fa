"""The rules of a trace file: Trace Event JSON that a viewer shows as it is meant."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

PHASES = {"M", "B", "E", "s", "f", "i"}
Row = tuple[int, int]


def check(path: Path) -> tuple[dict[Row, str], dict[Row, list[dict[str, Any]]], dict[str, Any]]:
    """Checks a trace file by its rules; its rows' names, their events, and the whole."""
    whole = json.loads(path.read_text())
    assert whole["schema"] == "shmemu-trace/1"
    names, processes, rows = dict[Row, str](), set[int](), dict[Row, list[dict[str, Any]]]()
    for event in whole["traceEvents"]:
        assert event["ph"] in PHASES, event
        row = event["pid"], event["tid"]
        if event["ph"] == "M":
            names |= {row: event["args"]["name"]} if event["name"] == "thread_name" else {}
            processes |= {event["pid"]} if event["name"] == "process_name" else set()
        else:
            assert isinstance(event["ts"], (int, float))
            assert event["ts"] >= 0
            assert event["name"]
            rows.setdefault(row, []).append(event)
    assert set(rows) <= set(names)
    assert {pe for pe, _ in names} == processes
    threads = [thread for _, thread in names]
    assert len({*threads, *processes, 0}) == len({*processes, 0}) + len(threads), "a viewer would merge two rows"
    for events in rows.values():
        assert all(one["ts"] <= other["ts"] for one, other in pairwise(events))
        balanced(events)
    arrows(rows)
    return names, rows, whole


def balanced(events: list[dict[str, Any]]) -> None:
    """Each slice ends as it began, later, before the next one."""
    inside = None
    for event in events:
        if event["ph"] == "B":
            assert inside is None, event
            inside = event
        elif event["ph"] == "E":
            assert inside is not None, event
            assert inside["name"] == event["name"]
            assert inside["ts"] < event["ts"]
            inside = None
        elif event["ph"] in "sf":
            assert inside is not None, f"{event} hangs in the air"
    assert inside is None


def arrows(rows: dict[Row, list[dict[str, Any]]]) -> None:
    """Every arrow has both ends, in the order of time."""
    ends: dict[str, dict[int, dict[str, Any]]] = {"s": {}, "f": {}}
    for events in rows.values():
        for event in events:
            if event["ph"] in "sf":
                assert event["id"] not in ends[event["ph"]]
                ends[event["ph"]][event["id"]] = event
    assert ends["s"].keys() == ends["f"].keys()
    for number, left in ends["s"].items():
        assert left["ts"] < ends["f"][number]["ts"]
        assert left["name"] == ends["f"][number]["name"]


def slices(rows: dict[Row, list[dict[str, Any]]], names: dict[Row, str], what: str) -> list[str]:
    return [e["name"] for row, events in rows.items() if names[row].startswith(what) for e in events if e["ph"] == "B"]
