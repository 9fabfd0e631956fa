"""The table of docs/planted-bugs.md, from the registrations: `python -m tests.check.planted_page` writes it."""

from __future__ import annotations

from pathlib import Path

from .planted_all import PLANTED, Planted
from .planted_rates import saved

PAGE = Path(__file__).parents[2] / "docs" / "planted-bugs.md"
START = "<!-- written by tests/check/planted_page.py -->\n"
HEAD = ("bug", "mistake", "reported in", "profile", "PEs", "rounds", "fails by", "random runs")


def profile(bug: Planted) -> str:
    """A profile and what is changed in it; a unit of 8 bytes is usual here."""
    changes = [f"{key}={value}" for key, value in bug.changes.items() if (key, value) != ("unit", 8)]
    return " ".join([bug.profile, *changes])


def row(name: str, bug: Planted) -> str:
    """A bug."""
    wrong = " ".join([f"{bug.sort[0].upper()}{bug.sort[1:]}.", *(bug.program.__doc__ or "").split()])
    rate = f"{len(saved()[name]['failed'])} of {saved()[name]['runs']}" if bug.rare else ""
    cells = (f"`{name}`", wrong, bug.source, profile(bug), bug.pes, bug.rounds, bug.kind, rate)
    return "| " + " | ".join(map(str, cells)) + " |"


def table() -> str:
    """All of them."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    return "\n".join([*lines, *(row(name, bug) for name, bug in PLANTED.items()), ""])


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(START)[0] + START + "\n" + table(), encoding="utf-8")
