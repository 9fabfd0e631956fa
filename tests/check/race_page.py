"""The tables of docs/races.md, from the programs that the tests run: `python -m tests.check.race_page` writes them."""

from __future__ import annotations

from pathlib import Path

from . import race_edges as race_edges
from . import race_no_edges as race_no_edges
from . import race_programs
from . import race_queue_pairs as race_queue_pairs
from .race_programs import CASES, Case, Lines

PAGE = Path(__file__).parents[2] / "docs" / "races.md"
START = "<!-- written by tests/check/race_page.py -->\n"
WORDS = {"ok": "", "race": "race", "strict": "strict"}


def program(lines: Lines | None) -> str:
    """A program in a cell: what each PE does."""
    if lines is None:
        return ""
    found = []
    for pe, each in lines.items():
        text = ""
        for line in each:
            space = " " if text.endswith(":") else "; " if text else ""
            text += space + (
                ("*" if line.startswith("*") else "") + line.replace("*", "", line.startswith("*")).strip()
            )
        found.append(f"{pe}: `{text}`")
    return "<br>".join(found)


def row(case: Case) -> str:
    """A rule."""
    racy = program(case.racy) if case.modes else ""
    clean = program(case.clean) if case.modes or case.clean else program(case.racy)
    if not case.modes and case.racy:
        clean = program(case.racy).replace("*", "")
    how = ("" if case.always else "in some executions") if case.modes != ("strict",) else "strict only"
    named = case.profile in case.rule or not case.section.startswith("Queue pairs")
    return f"| {case.rule}{'' if named else f' (`{case.profile}`)'} | {racy} | {clean} | {how} |"


def matrix() -> list[str]:
    """The two tables of the contract."""
    columns = race_programs._COLUMNS
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, verdicts in race_programs._TABLE.items():
        lines.append(f"| {name} | " + " | ".join(WORDS[verdict] for verdict in verdicts) + " |")
    seconds = list(race_programs._SECOND)
    lines += ["", "| own buffer, first not complete | " + " | ".join(seconds) + " |", "|---" * (len(seconds) + 1) + "|"]
    for first in race_programs._FIRST:
        cells = [next(each for each in CASES if each.rule == f"{first}, then {second}") for second in seconds]
        lines.append(f"| {first} | " + " | ".join("race" if each.modes else "" for each in cells) + " |")
    return lines


def tables() -> str:
    """All that is written."""
    lines = [*matrix(), ""]
    for section in dict.fromkeys(case.section for case in CASES):
        cases = [case for case in CASES if case.section == section]
        lines += [f"### {section}", "", "| rule | race between `*` and `*` | no race | |", "|---|---|---|---|"]
        lines += [*map(row, cases), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(START)[0] + START + "\n" + tables(), encoding="utf-8")
