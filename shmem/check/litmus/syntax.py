"""A litmus test as data: what reading a file gives. Values are unsigned 64-bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VALUES = 1 << 64
OF_OUTCOMES = ("allowed", "forbidden")
VERDICTS = (*OF_OUTCOMES, "race", "race_some", "clean")
STATUSES = (
    "ok", "full", "flush", "loc_len", "loc_op", "loc_access", "bad_resp", "rem_inv_req", "rem_access", "rem_op",
    "retry", "rnr_retry", "unsupported",
)  # fmt: skip
STATUS_VALUES = {name: VALUES + i for i, name in enumerate(STATUSES)}  # no number that a program can have


@dataclass(frozen=True)
class Word:
    """`x`, `v[2]` or `v[0:4]`: a name and which of its words."""

    name: str
    lo: int = 0
    hi: int = 1
    whole: bool = True  # without an index


@dataclass(frozen=True)
class Sum:
    """A sum of constants and words."""

    words: tuple[Word, ...] = ()
    constant: int = 0


@dataclass(frozen=True)
class Remote:
    """A word of a PE."""

    word: Word
    pe: int


@dataclass(frozen=True)
class Source:
    """What is sent: a value, or the bytes of a word."""

    value: Sum | None = None
    buffer: Word | None = None


@dataclass(frozen=True)
class Update:
    """What happens to a signal: `set` or `add`."""

    op: str
    value: Sum


@dataclass(frozen=True)
class Statement:
    """One statement; what its verb does not have is None."""

    verb: str
    line: int
    column: int
    word: Word | None = None
    remote: Remote | None = None
    source: Source | None = None
    signal: Remote | None = None
    update: Update | None = None
    values: tuple[Sum, ...] = ()
    op: str = ""
    pes: tuple[int, ...] = ()
    context: str = ""
    flags: Mapping[str, int] = field(default_factory=dict)
    into: str = ""
    count: int = 1
    name: str = ""


@dataclass(frozen=True)
class Test:
    """One test: its programs, the outcome asked about, and what the profiles say of it."""

    __test__ = False  # for pytest: no class of tests

    name: str
    title: str
    line: int
    symmetric: Mapping[str, tuple[int, int]]  # name: (words, first value)
    private: Mapping[str, tuple[int, int]]
    settings: Mapping[str, int | str]
    programs: Mapping[int, tuple[Statement, ...]]
    outcome: Any  # nested tuples: ("or", ...), ("compare", left, op, right), ...
    verdicts: Mapping[str, str]
    pes: int

    @property
    def asks_blocked(self) -> bool:
        """Whether the outcome names a PE that is blocked."""
        return "blocked" in repr(self.outcome)
