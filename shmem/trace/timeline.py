"""A timeline as data: rows of PEs with slices and marks on them, and arrows between rows.

Times are whole numbers, of microseconds from the start unless the timeline says otherwise. Slices of a row follow one
another and do not overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Details = Mapping[str, "str | int"]


class Row(NamedTuple):
    """A row of a PE, by what it is about: "program", "memory", "worker 1"."""

    pe: int
    what: str


@dataclass(frozen=True)
class Slice:
    """Something that takes from `start` to `end`."""

    row: Row
    name: str
    start: int
    end: int
    details: Details = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """Something that happens at once."""

    row: Row
    name: str
    at: int
    details: Details = field(default_factory=dict)


@dataclass(frozen=True)
class Arrow:
    """What one slice has caused: from a time within it to a time within another, not before."""

    name: str
    source: Row
    left: int
    target: Row
    arrived: int


@dataclass
class Timeline:
    """What is drawn. `about` says what it shows, for readers; `unit_us`: microseconds of a unit of its times."""

    about: Details
    unit_us: float = 1.0
    rows: list[Row] = field(default_factory=list)  # from top to bottom
    slices: list[Slice] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
