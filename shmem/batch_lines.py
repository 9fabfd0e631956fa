"""The methods of `Batch` for messages that carry their flags: see `lines.py`, whose records these add."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import ArgumentError
from .layout import Layout
from .lines import awaited_lines, contiguous, poll_record, put_record, seen_lines
from .records import Records
from .rma import reach
from .runtime import PE
from .views import Array, check_target

Await = tuple[str, Callable[[], str]]  # what a wait wants, and what it sees


class LinesInBatch:
    """Part of `Batch`, which has the rest."""

    _pe: PE
    _awaits: dict[int, Await]

    def __len__(self) -> int:
        raise NotImplementedError

    def _add(self, ops: Records, *keep: object) -> None:
        raise NotImplementedError

    def _target(self, target: object) -> tuple[Array, int]:
        raise NotImplementedError

    def put_lines(
        self, target: Array, payload: Array, pe: int, layout: Layout, flag: int, lines: int | None = None
    ) -> None:
        """Stores payload as lines that carry flag into target on PE `pe`. As `shmem.put_lines`, with a C-contiguous
        payload outside target."""
        to, offset = self._target(target)
        what = contiguous(payload, "payload", self._pe.me)
        if np.may_share_memory(to, what):
            raise ArgumentError("payload overlaps target", pe=self._pe.me)
        self._add(put_record(self._pe, to, offset, what, reach(self._pe, pe), layout, flag, lines), to, what, layout)

    def poll_lines(self, view: Array, layout: Layout, flag: int, out: Array) -> None:
        """Waits for lines that carry flag in an own symmetric view and fills `out` with their payload. As
        `shmem.poll_lines`."""
        to, offset = self._target(view)
        filled = check_target(contiguous(out, "out", self._pe.me), "out", self._pe.me)
        op = poll_record(self._pe, to, offset, filled, layout, flag)
        wanted = awaited_lines(offset, filled.nbytes, layout, flag)
        self._awaits[len(self)] = wanted, lambda: seen_lines(to, filled.nbytes, layout, flag)
        self._add(op, to, filled, layout)
