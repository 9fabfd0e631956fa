"""A test without its ordering tool: what the tool was for shows as an outcome that the weaker test allows.

What can go: a fence, a quiet or a pe_quiet; the quiet in a barrier, of which the sync stays; a signal's order behind
its data (put_signal becomes a put and a signal of its own); a wait; the value that a fetching atomic waits for; locks;
a flag of a work request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .syntax import Statement, Test

ORDERING = ("fence", "quiet", "pe_quiet")
WAITS = ("wait", "signal_wait", "poll", "poll_line", "poll_cq", "poll_recv")
UNFETCHED = {"fetch_add": "atomic_add", "swap": "atomic_set"}
REQUEST_FLAGS = ("fence", "strong", "inline")
BARRIERS = {"barrier_all": "sync_all", "barrier": "sync"}
LOCKS = ("lock", "unlock")


@dataclass(frozen=True)
class Weaker:
    """A weakened test, and in words what was taken from it."""

    test: Test
    without: str


def weaker(test: Test) -> Iterator[Weaker]:
    """The tests that result when one kind of tool is taken from all PEs, and from each PE alone."""
    kinds = list(dict.fromkeys(kind for pe in test.programs for each in test.programs[pe] if (kind := _kind(each))))
    for kind in kinds:
        users = [pe for pe, given in test.programs.items() if any(_kind(each) == kind for each in given)]
        yield Weaker(_without(test, kind, users), kind)
        if len(users) > 1 and kind not in (*BARRIERS, "lock"):
            for pe in users:
                yield Weaker(_without(test, kind, [pe]), f"{kind} of PE {pe}")


def _kind(statement: Statement) -> str:
    """The tool that a statement is or holds; "" where there is none."""
    verb = statement.verb
    if verb in LOCKS:
        return "lock"
    if verb in ORDERING or verb in BARRIERS or verb in WAITS or verb in UNFETCHED:
        return verb
    if verb.startswith("put_signal"):
        return "put_signal"
    return next((f"{{{flag}}}" for flag in REQUEST_FLAGS if statement.flags.get(flag)), "")


def _without(test: Test, kind: str, pes: list[int]) -> Test:
    programs = {
        pe: tuple(new for each in given for new in (_weakened(each) if pe in pes and _kind(each) == kind else [each]))
        for pe, given in test.programs.items()
    }
    return replace(test, programs=programs)


def _weakened(statement: Statement) -> list[Statement]:
    """What is left of a statement without its tool."""
    verb = statement.verb
    if verb in BARRIERS:
        return [replace(statement, verb=BARRIERS[verb])]
    if verb in UNFETCHED:
        return [replace(statement, verb=UNFETCHED[verb], word=None)]
    if verb.startswith("put_signal"):
        data = "put_nbi" if verb.endswith("_nbi") else "put"
        return [
            replace(statement, verb=data, signal=None, update=None),
            replace(statement, verb="signal", remote=statement.signal, source=None, signal=None),
        ]
    if statement.flags:
        return [replace(statement, flags={k: v for k, v in statement.flags.items() if k not in REQUEST_FLAGS})]
    return []
