"""What a search saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Found:
    """What a search saw. `complete`: no bound was met."""

    outcomes: dict[Any, int] = field(default_factory=dict)  # how many executions ended so
    states: int = 0
    executions: int = 0
    complete: bool = True
    cut: int = 0  # executions that were cut off for their length

    def end(self, outcome: Any) -> None:
        """Counts an execution."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.executions += 1
