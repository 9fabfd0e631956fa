"""What a queue pair remembers of its requests: their kind, and where they lie in the ring."""

from __future__ import annotations

from bisect import bisect_right

from .work import Opcode


class Requests:
    """Requests by their numbers 0, 1, 2, ..., in runs of one kind."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._runs: list[tuple[Opcode, int, int]] = []  # what they are, the first block, blocks of each
        self._next = 0

    def add(self, n: int, opcode: Opcode, position: int, blocks: int = 1) -> range:
        """The next n requests, from a position of the ring on; their numbers."""
        made = range(self._next, self._next + n)
        if n:
            self._starts.append(made.start)
            self._runs.append((opcode, position, blocks))
            self._next = made.stop
        return made

    def _run(self, number: int) -> tuple[int, tuple[Opcode, int, int]]:
        i = bisect_right(self._starts, number) - 1
        return self._starts[i], self._runs[i]

    def opcode(self, number: int) -> Opcode:
        """What a request is."""
        return self._run(number)[1][0]

    def last_block(self, number: int) -> int:
        """The position of its last block."""
        start, (_, position, blocks) = self._run(number)
        return position + (number - start + 1) * blocks - 1

    def forget(self, before: int) -> None:
        """Nobody asks for requests before this one any more."""
        while len(self._starts) > 1 and self._starts[1] <= before:
            del self._starts[0], self._runs[0]
