"""How long a search may go on, and what it does with each execution."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..delivery.facts import Move
from ..errors import ArgumentError
from .found import Found
from .system import System

_BUDGET = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|)\s*")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
STATES_MAX = 1_000_000
MOVES_MAX = 20_000  # of one execution


@dataclass
class Bounds:
    """Limits of a search: seconds, executions, states in all, moves of one execution (then it counts as cut off)."""

    seconds: float | None = None
    executions: int | None = None
    states: int = STATES_MAX
    moves: int = MOVES_MAX
    start: float = field(default_factory=time.monotonic)

    def met(self, found: Found) -> bool:
        """Whether one of them is reached; a clock is looked at now and then."""
        if found.states > self.states or (self.executions is not None and found.executions >= self.executions):
            return True
        return self.late()

    def late(self) -> bool:
        """Whether the time is up."""
        return self.seconds is not None and time.monotonic() - self.start > self.seconds


# Called at the end of an execution with the system and the moves made; True ends the search.
Ended = Callable[[System, Sequence[Move]], bool]


def parse_budget(text: object) -> tuple[float | None, int | None]:
    """Seconds and executions that a budget means: "60s", "5m", seconds as a float, executions as an int or text.

    Raises ArgumentError for anything else.
    """
    if text is None:
        return None, None
    if isinstance(text, bool) or not isinstance(text, (int, float, str)):
        raise ArgumentError(f"budget={text!r}: seconds (60.0 or '60s', '5m') or a number of executions (1000)")
    if isinstance(text, str):
        found = _BUDGET.fullmatch(text)
        if not found:
            raise ArgumentError(f"budget={text!r}: say '60s', '5m' or a number of executions")
        number, unit = found.groups()
        if unit:
            return float(number) * _SECONDS[unit], None
        text = int(number) if number.isdigit() else float(number)
    if not text > 0:  # nan as well
        raise ArgumentError(f"budget={text!r}: must be above 0")
    return (None, text) if isinstance(text, int) else (text, None)
