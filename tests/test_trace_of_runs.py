"""The timeline of a run on `nic`: a sound file, in which each transfer of the program is found with all its steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from .test_launch import shmemu
from .trace_files import check

PROGRAM = Path(__file__).parent / "programs" / "transfers.py"
Step = tuple[str, float, int]  # what, when, bytes
PUT, SIGNALLED, WRITTEN = 512, 32, 32  # bytes of the program's transfers


@pytest.mark.parametrize("seed", ["", "5"], ids=["friendly", "seeded"])
@pytest.mark.parametrize("profile", ["openshmem", "rc_strict"])
def test_each_transfer_is_there(profile: str, seed: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    env = {"SHMEMU_TRACE": str(path), "SHMEMU_SEED": seed}
    ended = shmemu("run", "-n", 2, "--fabric", "nic", "--profile", profile, PROGRAM, env=env)
    assert ended.code == 0, ended.err
    names, rows, whole = check(path)
    assert whole["otherData"]["profile"] == profile
    assert sorted(names.values()) == sorted(2 * ["program", "SQ", "NIC", "CQ", "memory"])
    for pe in (0, 1):
        steps = _steps(pe, rows)
        kinds = Counter(_life(events) for events in steps.values())
        assert kinds[PUT, ("placed",)] == kinds[PUT, ("source",)] == 0
        assert kinds[PUT, ("placed", "posted", "source")] == 5
        assert kinds[SIGNALLED, ("placed", "posted", "word")] == 5
        assert kinds[WRITTEN, ("admit", "placed", "posted", "retired", "source")] == 4
        for events in steps.values():
            _in_order(events)


def _steps(pe: int, rows: dict[Any, list[dict[str, Any]]]) -> dict[int, list[Step]]:
    """The steps of a PE's requests, wherever they are drawn."""
    found = defaultdict(list)
    for (where, _), events in rows.items():
        for event in events:
            if event["ph"] != "B" or "request" not in event["args"]:
                continue
            what, _, rest = event["name"].partition(" ")
            there = what in ("place", "word")
            if (int(rest.rsplit("PE ", 1)[1]) if there else where) == pe:
                found[event["args"]["request"]].append((what, event["ts"], event["args"]["bytes"]))
    return found


def _life(events: list[Step]) -> tuple[int, tuple[str, ...]]:
    """The bytes that were placed, and which kinds of steps there were."""
    placed = sum(nbytes for what, _, nbytes in events if what == "place")
    names = {"place": "placed", "retire": "retired"}
    return placed, tuple(sorted({names.get(what, what) for what, _, _ in events}))


def _in_order(events: list[Step]) -> None:
    """posted, then read, then placed, the word last; acknowledged after it was read."""
    at = defaultdict(list)
    for what, when, _ in events:
        at[what].append(when)
    assert len(at["posted"]) == 1
    posted = at["posted"][0]
    read = at.get("source", [posted])[0]
    assert posted <= read
    assert all(read <= when for when in at["place"])
    assert all(max(at["place"]) <= when for when in at.get("word", []))
    assert all(read <= when for when in at.get("retire", []))
