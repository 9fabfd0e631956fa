"""One result out of what N PEs reported of a test.

A test passed if all N reported that it passed, was skipped if all N skipped it, and failed otherwise: also
if a PE reported another test, or nothing. The text of a failure names the PEs; those that say the same
share a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from .wire import Message


@dataclass
class Heard:
    """What came of one test: reports by PE, who died (in that order), stacks of the silent, the output."""

    test: str
    n_pes: int
    reports: Mapping[int, Message]
    gone: list[int] = field(default_factory=list)
    stacks: Mapping[int, str] = field(default_factory=dict)
    waited_s: float = 0.0
    output: str = ""


@dataclass
class Verdict:
    """The result of a test in a cell; `ends_job`: the ranks may be anywhere, the next test needs others."""

    outcome: str
    text: str = ""
    crash: str = ""
    reason: str = ""
    expected: bool = False
    sections: list[tuple[str, str]] = field(default_factory=list)
    duration_s: float = 0.0
    ends_job: bool = False


def merge(heard: Heard) -> Verdict:
    """The verdict on one test."""
    problems = [*_foreign(heard), *_failed(heard), *_silent(heard)]
    outcomes = {report["outcome"] for report in heard.reports.values()}
    if not problems and len(outcomes) != 1:
        said = {pe: report["outcome"] for pe, report in heard.reports.items()}
        problems = [("PEs disagree", f"the PEs do not agree on the outcome: {said}")]
    duration_s = max((report["duration"] for report in heard.reports.values()), default=heard.waited_s)
    if not problems:
        first = heard.reports[min(heard.reports)]
        return Verdict(first["outcome"], reason=first["reason"], expected=first["expected"], duration_s=duration_s)
    kept = _only_leaked(heard)
    if not kept and heard.output.strip():
        problems.append(("", f"the job's own output:\n{heard.output.strip()}"))
    return Verdict(
        "failed",
        text="\n\n".join(text for _, text in problems),
        crash="; ".join(crash for crash, _ in problems if crash),
        sections=_sections(heard.reports),
        duration_s=duration_s,
        ends_job=not kept,
    )


Problem = tuple[str, str]


def _only_leaked(heard: Heard) -> bool:
    """Whether all that is wrong is memory that every PE left alike: they can free it together and go on."""
    left = [report["leaked"] for report in heard.reports.values()]
    return len(left) == heard.n_pes and left[0] != [] and all(other == left[0] for other in left)


def _foreign(heard: Heard) -> list[Problem]:
    others = {pe: report["id"] for pe, report in heard.reports.items() if report["id"] != heard.test}
    if not others:
        return []
    listed = "\n".join(f"  {names([pe], heard.n_pes)}: {test}" for pe, test in others.items())
    return [("PEs ran different tests", f"asked for {heard.test}, but there is a report of\n{listed}")]


def _failed(heard: Heard) -> list[Problem]:
    failed = {pe: report for pe, report in heard.reports.items() if report["outcome"] == "failed"}
    problems = []
    for pes, text in _alike(failed, lambda pe: failed[pe]["text"]):
        who = names(pes, heard.n_pes)
        problems.append((f"{who}: {failed[pes[0]]['crash']}", f"{who}:\n{text}"))
    return problems


def _silent(heard: Heard) -> list[Problem]:
    problems = []
    if heard.gone:
        first, *rest = heard.gone
        text = f"{names([first], heard.n_pes)} ended without a report"
        text += f", then {names(rest, heard.n_pes)}" if rest else ""
        text += f"\n{stack}" if (stack := own_frames(heard.stacks.get(first, ""))) else ""
        problems.append((f"{names([first], heard.n_pes)} ended without a report", text))
    missing = [pe for pe in range(heard.n_pes) if pe not in heard.reports and pe not in heard.gone]
    for pes, stack in _alike(missing, lambda pe: own_frames(heard.stacks.get(pe, ""))):
        who = names(pes, heard.n_pes)
        text = f"{who}: no report within {heard.waited_s:.1f} s; it was here:\n{stack or '  (no stack)'}"
        problems.append((f"{who}: no report", text))
    return problems


def _alike(pes: Iterable[int], text: Callable[[int], str]) -> list[tuple[list[int], str]]:
    """PEs that say the same, addresses aside, and what they say (in the words of the first)."""
    groups: dict[str, list[int]] = {}
    for pe in sorted(pes):
        groups.setdefault(re.sub("0x[0-9a-f]+", "0x", text(pe)), []).append(pe)
    return [(members, text(members[0])) for members in groups.values()]


def own_frames(dump: str) -> str:
    """faulthandler's stacks without the frames of pytest, which are most of them and say nothing."""
    foreign = ("/_pytest/", "/pluggy/", "/tests/launcher/", "<frozen runpy>")
    lines = [line for line in dump.splitlines() if not any(part in line for part in foreign)]
    return "\n".join(lines).strip()


def _sections(reports: Mapping[int, Message]) -> list[tuple[str, str]]:
    return [
        (f"{title} of PE {pe}", content)
        for pe, report in sorted(reports.items())
        for title, content in report["sections"]
        if content.strip()
    ]


def names(pes: list[int], n_pes: int) -> str:
    """`PE 1 of 4`, `PEs 0, 2, 3 of 4`."""
    return f"PE{'s' if len(pes) > 1 else ''} {', '.join(map(str, pes))} of {n_pes}"
