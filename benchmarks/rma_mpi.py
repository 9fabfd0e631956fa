"""The calls of `benchmarks/rma.py` as mpi4py's one-sided communication makes them, tuned.

One window for all, locked for the whole run; buffers and their descriptions are made once. A put is complete at the
target after its flush, and a rate is of up to 64 messages before one flush, as with quiet in shmem.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from rma_shmem import ATOMICS, OTHER, SIZES, WINDOW, Loop, label

INT = MPI.INT64_T


class MpiCalls:
    """The loops over a window of int64: the target, and after it the word of the atomics."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm, self.me = comm, comm.rank
        n = SIZES[-1] // 8
        hints = MPI.Info.Create({"alloc_shm": "true", "same_disp_unit": "true", "accumulate_ordering": "none"})
        self.win = MPI.Win.Allocate(SIZES[-1] + 64, 8, hints, comm)
        memory = np.frombuffer(self.win.tomemory(), np.int64)  # type: ignore[call-overload]
        memory[:] = 0
        self.target, self.word, self.word_at = memory[:n], memory[n : n + 1], n
        self.source = np.arange(1, n + 1)
        self.landing = np.zeros(n, np.int64)
        comm.Barrier()
        self.win.Lock_all(MPI.MODE_NOCHECK)

    def barrier(self) -> None:
        """All PEs, and what each sees of its own window is what is there."""
        self.win.Sync()
        self.comm.Barrier()
        self.win.Sync()

    def free(self) -> None:
        """Collective."""
        self.win.Unlock_all()
        del self.target, self.word
        self.win.Free()

    def loops(self) -> dict[str, Loop]:
        """Every case of `case_names`."""
        loops: dict[str, Loop] = {}
        for size in SIZES:
            n = size // 8
            put, get = (self.win.Put, [self.source, n, INT], n), (self.win.Get, [self.landing, n, INT], n)
            loops[f"put, {label(size)}"] = self._flushed(*put, 1)
            loops[f"get, {label(size)}"] = self._flushed(*get, 1)
            loops[f"put rate, {label(size)}"] = self._flushed(*put, WINDOW)
            loops[f"get rate, {label(size)}"] = self._flushed(*get, WINDOW)
        for name in ATOMICS:
            loops[f"{name}, 8 B"] = getattr(self, f"_{name}")()
        loops["add rate, 8 B"] = self._accumulate(WINDOW)
        return loops

    def _flushed(self, call: Any, buffer: list[Any], n: int, window: int) -> Loop:
        flush, there = self.win.Flush, [0, n, INT]

        def loop(times: int) -> None:
            for first in range(0, times, window):
                for _ in range(min(window, times - first)):
                    call(buffer, OTHER, there)
                flush(OTHER)

        return loop

    def _fetching(self, op: MPI.Op, value: int) -> Loop:
        fetch, flush, at = self.win.Fetch_and_op, self.win.Flush, self.word_at
        operand, result = np.array([value]), np.zeros(1, np.int64)
        given, got = [operand, 1, INT], [result, 1, INT]

        def loop(times: int) -> Any:
            for _ in range(times):
                fetch(given, got, OTHER, at, op)
                flush(OTHER)
            return result[0]

        return loop

    def _fetch_add(self) -> Loop:
        return self._fetching(MPI.SUM, 1)

    def _swap(self) -> Loop:
        return self._fetching(MPI.REPLACE, 7)

    def _fetch(self) -> Loop:
        return self._fetching(MPI.NO_OP, 0)

    def _compare_swap(self) -> Loop:
        compare, flush, at = self.win.Compare_and_swap, self.win.Flush, self.word_at
        seven, eight, result = np.array([7]), np.array([8]), np.zeros(1, np.int64)
        old, new, got = [seven, 1, INT], [eight, 1, INT], [result, 1, INT]

        def loop(times: int) -> Any:
            for _ in range(0, times, 2):
                compare(new, old, got, OTHER, at)
                flush(OTHER)
                compare(old, new, got, OTHER, at)
                flush(OTHER)
            return result[0]

        return loop

    def _add(self) -> Loop:
        return self._accumulate(1)

    def _accumulate(self, window: int) -> Loop:
        accumulate, flush, there = self.win.Accumulate, self.win.Flush, [self.word_at, 1, INT]
        one = [np.array([1]), 1, INT]

        def loop(times: int) -> None:
            for first in range(0, times, window):
                for _ in range(min(window, times - first)):
                    accumulate(one, OTHER, there, MPI.SUM)
                flush(OTHER)

        return loop
