"""Trying an answer: the file is explored under the lesson's profiles, and a failure gets the hint that fits it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ..check.exploration import explore, prepare
from ..check.report import Report
from ..check.story import raised_at
from ..errors import ArgumentError, QueueError
from .evidence import MOVES_MAX, Evidence, gathered
from .frame import check_frame
from .lesson import GAP, Lesson
from .placing import loaded

SECONDS_MAX = 60.0  # for all of an answer: a right one takes about two
NO_HINT = "no hint fits this failure: read from the top what happened, up to the line that failed"

OWN = f"{GAP} raises this itself, at the line that ends the column of PE 0"


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. ok: it can't fail. complete: everything was looked at. hint: the name of the one given,
    "" if none fits or none is needed."""

    ok: bool
    complete: bool
    text: str
    hint: str = ""


class Endless(KeyboardInterrupt):
    """The answer did not end. (An interrupt is what no PE of `sim` keeps for itself.)"""


def tried(lesson: Lesson, file: str, seconds: float = SECONDS_MAX) -> Verdict:
    """Explores an answer. Raises ArgumentError for a file that is no answer: see `check_frame`."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{file} is no text in UTF-8") from None
    check_frame(file, text, lesson)
    try:
        with deadline(seconds, os.path.basename(file)):
            return _explored(lesson, file, text)
    except Endless as error:
        where = raised_at(error).rpartition(":")[2] or "?"
        text = f"{file}:{where}: still running after {seconds:g} s: a loop that never ends?"
        return Verdict(False, False, text, "endless")


def _explored(lesson: Lesson, file: str, text: str) -> Verdict:
    lines, notes, complete = [], list[str](), True
    with loaded(os.path.basename(file), text) as (main, place):
        for profile in lesson.tried:
            report = explore(main, 2, profile, max_moves=MOVES_MAX, budget=SECONDS_MAX)
            if report.failures or report.cut:
                evidence = gathered(prepare(main, 2, profile, ()), report, place)
                return _failed(lesson, report, evidence)
            if any(None in each for each in report.outcomes):
                raise ArgumentError(f"{file}: main did not come to its end on every PE: `send` must return to it")
            complete = complete and report.complete
            notes += report.notes
            lines.append(f"  {profile}: no failure, {report.looked()}")
    if not complete:
        return Verdict(
            True, False, "\n".join(["no failure was found, but not all of it was looked at:", *lines, *notes])
        )
    return Verdict(True, True, "\n".join([f"{file} is right:", *lines]))


def _failed(lesson: Lesson, report: Report, evidence: Evidence) -> Verdict:
    own = (evidence.pe, evidence.where) == (0, GAP) and not isinstance(evidence.error, QueueError)
    hint = None if own else next((each for each in lesson.hints if each.when(evidence)), None)
    said = [f"under {report.profile}, {report.looked()}"]
    if report.failures:
        failure = report.failures[0]
        whose = "" if failure.pe is None else f" of PE {failure.pe}"
        said += [f"{failure.kind}{whose}: {failure.text}", failure.story]
    else:
        said.append(f"it goes on for ever: {'; '.join(report.notes)}")
    said.append(f"hint: {hint.text if hint else OWN if own else NO_HINT}")
    return Verdict(False, report.complete, "\n".join(said), hint.name if hint else "")


@contextlib.contextmanager
def deadline(seconds: float, name: str) -> Iterator[None]:
    """Ends what runs in it, by an Endless, again and again if need be; but only in code that the file of that name has
    called, or is: not while the explorer puts back what an execution has changed."""

    def end(_signal: int, frame: FrameType | None) -> None:
        while frame is not None:
            if os.path.basename(frame.f_code.co_filename) == name:
                raise Endless
            frame = frame.f_back

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
