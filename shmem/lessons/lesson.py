"""What a lesson is, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .evidence import Evidence

DATA = Path(__file__).parent / "data"
GAP = "send"  # the function of an exercise that is the reader's


@dataclass(frozen=True)
class Hint:
    """What to say to an answer that fails in a certain way. name: of the mistake, for tests and readers."""

    name: str
    when: Callable[[Evidence], bool]
    text: str


@dataclass(frozen=True)
class Table:
    """What a lesson measures. name: what its program `measure` is told. progress: SHMEMU_PROGRESS of the job. columns:
    headings, first that of the rows' names, then microseconds. rows: name in the result, and what to call it."""

    name: str
    progress: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Lesson:
    """One lesson. profiles: those its program is shown under, the first one with prints and a timeline. shows: which
    execution that is, by what PE 1 returns there; None: the usual order. tried: those an answer is explored under.
    hints: the first that fits is given. tables: what the program `measure` finds, if the lesson has one; remark: what
    stands below them."""

    number: int
    name: str  # of its page
    title: str
    profiles: tuple[str, ...]
    tried: tuple[str, ...]
    hints: tuple[Hint, ...]
    shows: Callable[[Any], bool] | None = None
    tables: tuple[Table, ...] = ()
    remark: str = ""

    def text(self, what: str, suffix: str = ".py") -> str:
        """A file of it: "lesson", "exercise", "solution"; with ".md" "lesson" are the claims, "measured" the tables."""
        return (DATA / f"{what}{self.number}{suffix}").read_text(encoding="utf-8")

    @property
    def page(self) -> str:
        """The file of its page in `docs/lessons`."""
        return f"{self.number}-{self.name}.md"

    def file(self, what: str) -> str:
        """What such a file is called."""
        return f"{what}{self.number}.py"
