"""What the PEs of a run have seen, as rows: program, SQ (posted), NIC (source read), CQ (acknowledged), memory
(placed: on real coherent memory that is visible, too).

Times are of one clock, in nanoseconds; what happens at once is drawn until something follows it, 200 ns at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...trace.timeline import Arrow, Row, Slice, Timeline

POSTED = 100
SHORT_NS = 200
_ROWS = {"posted": "SQ", "source": "NIC", "admit": "NIC", "accept": "NIC", "fetch": "NIC", "retire": "CQ",
         "receive": "CQ", "land": "memory"}  # fmt: skip
_THERE = ("place", "word", "again", "receive")  # at the target
ROWS = ("program", "SQ", "NIC", "CQ", "memory")


class Call(NamedTuple):
    """A call of a PE."""

    name: str
    start: int
    end: int


class Happened(NamedTuple):
    """A step of a request of a PE."""

    at: int
    act: str
    number: int
    kind: str
    target: int
    pair: int  # the queue pair, below 0 for a context
    wr_id: int
    space: int
    lo: int
    hi: int


class Seen(NamedTuple):
    """What one PE has seen."""

    calls: Sequence[Call]
    steps: Sequence[Happened]
    cut: bool


def timeline(everyone: Sequence[Seen], about: Mapping[str, str | int]) -> Timeline:
    """The timeline of a run; `everyone` by PE."""
    cut = {"cut": "the end is missing: there was too much to write down"} if any(each.cut for each in everyone) else {}
    made = Timeline({**about, **cut}, unit_us=1e-3)
    times = [each[0] for seen in everyone for each in seen.steps] + [c.start for seen in everyone for c in seen.calls]
    first = min(times, default=0)
    made.rows = [Row(pe, what) for pe in range(len(everyone)) for what in ROWS]
    bare: list[tuple[Row, int, str, Happened]] = []
    for pe, seen in enumerate(everyone):
        _programs(made, pe, seen.calls, first)
        bare += [(_row(pe, step), step.at - first, _name(pe, step), step) for step in seen.steps]
    _steps(made, bare)
    return made


def _programs(made: Timeline, pe: int, calls: Sequence[Call], first: int) -> None:
    last = 0
    for call in sorted(calls, key=lambda each: each.start):
        start = max(call.start - first, last)
        last = max(call.end - first, start + 1)
        made.slices.append(Slice(Row(pe, "program"), call.name, start, last))


def _row(pe: int, step: Happened) -> Row:
    return Row(step.target if step.act in _THERE else pe, _ROWS.get(step.act, "memory"))


def _name(pe: int, step: Happened) -> str:
    whose = f"WQE {step.wr_id}" if step.pair >= 0 else f"#{step.number}"
    where = f"to PE {step.target}" if step.act == "posted" else f"from PE {pe}" if step.act in _THERE else ""
    return f"{step.act} {step.kind} {whose} {where}".rstrip()


def _steps(made: Timeline, bare: list[tuple[Row, int, str, Happened]]) -> None:
    """Slices that do not overlap, and arrows from where a request was posted to where it was first placed."""
    bare.sort(key=lambda each: each[1])
    starts: dict[Row, list[int]] = {}
    drawn: list[tuple[Row, int, str, Happened]] = []
    for row, at, name, step in bare:
        of_row = starts.setdefault(row, [])
        of_row.append(max(at, of_row[-1] + 1) if of_row else at)
        drawn.append((row, of_row[-1], name, step))
    after = {row: dict(zip(times, [*times[1:], times[-1] + SHORT_NS], strict=True)) for row, times in starts.items()}
    posted: dict[tuple[int, int], tuple[Row, int, str]] = {}
    for row, start, name, step in drawn:
        details: dict[str, str | int] = {"bytes": step.hi - step.lo, "from": hex(step.lo), "request": step.number}
        if step.pair >= 0:
            details |= {"queue pair": step.pair, "WQE": step.wr_id}
        made.slices.append(Slice(row, name, start, min(start + SHORT_NS, after[row][start]), details))
    for row, start, name, step in drawn:
        if step.act == "posted":
            posted[row.pe, step.number] = row, start, name
    for row, start, name, step in drawn:
        if step.act not in ("place", "word"):
            continue
        source = int(name.rsplit(" ", 1)[1])
        if (left := posted.pop((source, step.number), None)) is not None:
            made.arrows.append(Arrow(left[2], left[0], left[1], row, max(start, left[1])))
