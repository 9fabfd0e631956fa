"""What a task has looked at: a loop that only looks goes round without end, unless it waits for a change."""

from __future__ import annotations

from collections.abc import Sequence

from ...delivery.requests import Place

Seen = Sequence[tuple[Place, bytes]]
IDLE_MAX = 1000  # who spins so often in a row, and does nothing else, would do so for ever


class Polls:
    """The looks of one task."""

    def __init__(self) -> None:
        self._seen: dict[Place, bytes] = {}  # since it last spun
        self._same: dict[tuple[str, Place], tuple[bytes, int]] = {}  # by line: what was found there, how often
        self.idle = 0  # calls of `spun` since the task last made a step or posted a request
        self._posted = 0

    def note(self, line: str, seen: Seen) -> int:
        """Notes a look; how often this line has found the same there, while nothing that the task looks at changed."""
        if any(before[0] != data for at, data in seen if (before := self._same.get((line, at)))):
            self._same.clear()
        for at, data in seen:
            self._same[line, at] = data, self._same.get((line, at), (data, 0))[1] + 1
        return min((self._same[line, at][1] for at, _ in seen), default=0)

    def look(self, line: str, seen: Seen) -> int:
        """The same, of a look that `spun` gives."""
        self._seen.update(seen)
        return self.note(line, seen)

    def met(self) -> None:
        """Others have gone on: what was found again and again may be another thing now."""
        self._same.clear()

    def spun(self, posted: int) -> dict[Place, bytes]:
        """What was looked at since the last call. posted: how many requests so far."""
        seen, self._seen = self._seen, {}
        self._same.clear()
        self.idle = self.idle + 1 if posted == self._posted else 1
        self._posted = posted
        return seen
