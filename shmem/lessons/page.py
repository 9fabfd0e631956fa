"""A lesson as a page: what `shmemu lesson N` prints, and what lies in `docs/lessons`."""

from __future__ import annotations

from .catalogue import LESSONS
from .lesson import GAP, Lesson
from .shown import Shown


def page(lesson: Lesson, shown: Shown) -> str:
    """The text of a lesson, as Markdown."""
    n = lesson.number
    return "\n".join(
        [
            f"# Lesson {n}: {lesson.title}",
            "",
            lesson.text("lesson", ".md"),
            "## The program",
            "",
            f"`{lesson.file('lesson')}`, run by two PEs under the profile `{lesson.profiles[0]}`:",
            "",
            _block(lesson.text("lesson"), "python"),
            "It prints:",
            "",
            _block(shown.printed),
            "## What happened",
            "",
            _LEGEND,
            "",
            _block(shown.rows),
            "All executions together:",
            "",
            _block(shown.ends),
            *(["## Measured", "", lesson.text("measured", ".md")] if lesson.tables else []),
            "## Exercise",
            "",
            f"`shmemu lesson {n} --start` writes `{lesson.file('exercise')}`. `{GAP}` is yours;",
            f"`shmemu lesson {n} --try {lesson.file('exercise')}` explores it under {_listed(lesson.tried)},",
            f"and `shmemu lesson {n} --solution` shows an answer.",
            "",
            _block(lesson.text("exercise"), "python"),
        ]
    )


_LEGEND = """\
A column for each PE, from top to bottom. `~` happens at the adapter of the PE that posted, `<-` is an arrival in the
memory of the column's PE, with the bytes that it changed; the other rows are steps of the program, with their lines.
`*` marks what was kept back."""


def _block(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _listed(profiles: tuple[str, ...]) -> str:
    return " and ".join(f"`{each}`" for each in profiles)


def listing() -> str:
    """All lessons, a line for each."""
    lines = [f"  {each.number}  {each.title}" for each in LESSONS.values()]
    return "\n".join(["shmemu lesson N shows one of them:", *lines])
