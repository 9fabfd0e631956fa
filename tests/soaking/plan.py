"""What a random program does: steps that every PE draws alike from the seed.

A step is an allocation, a free, a collective, or a round: operations of every PE that may run in any order, because no
two of them touch the same cells unless both only add to them. Nothing here knows `shmem`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DTYPES = ("i4", "i8", "u4", "u8", "f4", "f8", "c16", "i2", "u1")
WORDS = ("i4", "i8", "u4", "u8")
ARRAYS_MAX = 10
CELLS_MAX = 4000
VALUES = ("put", "put_nbi", "p", "iput", "put_signal")  # what carries values drawn here
READS = ("get", "get_nbi", "g", "iget")
ADDS = ("atomic_add", "atomic_inc", "atomic_fetch_add", "atomic_fetch_inc")
ALONE = (
    "atomic_set", "atomic_swap", "atomic_compare_swap", "atomic_fetch", "atomic_and", "atomic_or", "atomic_xor",
    "atomic_fetch_and", "atomic_fetch_or", "atomic_fetch_xor", *ADDS,
)  # fmt: skip
COLLECTIVES = ("broadcast", "fcollect", "collect", "alltoall", "sum_reduce", "max_reduce", "sum_inscan", "sum_exscan")


@dataclass(frozen=True)
class Alloc:
    """A new array `key` of `size` cells: zeros, or `full` of a value."""

    key: int
    dtype: str
    size: int
    fill: int | None = None


@dataclass(frozen=True)
class Free:
    """The end of an array."""

    key: int


@dataclass(frozen=True)
class Act:
    """One operation of PE `by` on the cells start, start + step, ... (n of them) of array `key` on PE `on`.

    `values`: what a put carries. `value`, `cond`: operands of an atomic. `signal`: the key of the signal's array, whose
    cell `by` on PE `on` becomes `value`.
    """

    kind: str
    by: int
    on: int
    key: int
    start: int
    n: int = 1
    step: int = 1
    values: Any = None
    value: int = 0
    cond: int = 0
    signal: int = -1
    shared: bool = False  # others add to the word in the same round


@dataclass(frozen=True)
class Round:
    """Acts of all PEs, in the order of each; then a barrier."""

    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Collective:
    """A collective over the PEs start, start + stride, ... (`size` of them): `n` cells a PE (`sizes` for collect)."""

    kind: str
    target: int
    source: int
    n: int
    root: int
    start: int
    stride: int
    size: int
    sizes: tuple[int, ...] = ()


Step = Alloc | Free | Round | Collective


@dataclass
class Drawing:
    """The generator of steps: what is allocated now, and the random numbers."""

    rng: np.random.Generator
    n: int
    live: dict[int, tuple[str, int]] = field(default_factory=dict)  # key: dtype, size
    next_key: int = 0

    def steps(self) -> Iterator[Step]:
        """Steps without end. Array 0 is the signals': it lives from the first step on."""
        yield self._alloc("u8", self.n * 2)
        while True:
            if len(self.live) < 3 or (len(self.live) < ARRAYS_MAX and self.rng.random() < 0.10):
                yield self._alloc()
            elif self.rng.random() < 0.10:
                yield self._free()
            elif self.rng.random() < 0.75:
                yield self._collective()
            else:
                yield self._round()

    def _pick(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def _alloc(self, dtype: str | None = None, size: int | None = None) -> Alloc:
        key, self.next_key = self.next_key, self.next_key + 1
        kind = dtype or self._pick(DTYPES if key % 2 else WORDS)
        cells = size if size is not None else int(self.rng.integers(1, CELLS_MAX))
        self.live[key] = kind, cells
        fill = int(self.rng.integers(0, 100)) if dtype is None and self.rng.random() < 0.4 else None
        return Alloc(key, kind, cells, fill)

    def _free(self) -> Free:
        key = self._pick([key for key in self.live if key])
        del self.live[key]
        return Free(key)

    # -- a round -----------------------------------------------------------------------------------------

    def _round(self) -> Round:
        taken: dict[tuple[int, int], np.ndarray] = {}  # per array and PE: which cells are spoken for
        acts = [act for _ in range(5 * self.n) if (act := self._act(taken))]
        words = [key for key in list(self.live)[1:] if self.live[key][0] in WORDS]
        adds = self._adds(self._pick(words), taken) if words else []
        return Round((*acts, *adds))

    def _claim(self, taken: dict[tuple[int, int], np.ndarray], key: int, on: int, cells: slice) -> bool:
        used = taken.setdefault((key, on), np.zeros(self.live[key][1], bool))
        if used[cells].any():
            return False
        used[cells] = True
        return True

    def _act(self, taken: dict[tuple[int, int], np.ndarray]) -> Act | None:
        key = self._pick([key for key in self.live if key])
        dtype, size = self.live[key]
        by, on = (int(pe) for pe in self.rng.integers(0, self.n, 2))
        kind = self._pick((*VALUES, *READS, *(ALONE if dtype in WORDS else ())))
        n, step = 1, 1
        if kind in ("iput", "iget"):
            step = int(self.rng.integers(1, 5))
        if not (kind.startswith("atomic") or kind in ("p", "g")):
            n = int(self.rng.integers(0, min(size, self._pick((8, 64, size))) // step + 1))
        start = int(self.rng.integers(0, size - max(n - 1, 0) * step))
        if not self._claim(taken, key, on, slice(start, start + max(n - 1, 0) * step + 1)):
            return None
        act = Act(kind, by, on, key, start, n, step)
        return self._operands(act, dtype, taken)

    def _operands(self, act: Act, dtype: str, taken: dict[tuple[int, int], np.ndarray]) -> Act | None:
        raw = self.rng.integers(0, 100, act.n).astype(dtype)
        if act.kind == "put_signal":
            cell = act.by + self.n * int(self.rng.integers(2))
            if not self._claim(taken, 0, act.on, slice(cell, cell + 1)):
                return None
            value = int(self.rng.integers(1, 1 << 40))
            return Act(act.kind, act.by, act.on, act.key, act.start, act.n, 1, raw, value, cell, signal=0)
        if act.kind in VALUES:
            return Act(act.kind, act.by, act.on, act.key, act.start, act.n, act.step, raw)
        value, cond = (int(x) for x in self.rng.integers(0, 100, 2))
        return Act(act.kind, act.by, act.on, act.key, act.start, act.n, act.step, None, value, cond)

    def _adds(self, key: int, taken: dict[tuple[int, int], np.ndarray]) -> list[Act]:
        """One word that every PE adds to."""
        on, cell = int(self.rng.integers(self.n)), int(self.rng.integers(self.live[key][1]))
        if not self._claim(taken, key, on, slice(cell, cell + 1)):
            return []
        return [
            Act(self._pick(ADDS), by, on, key, cell, value=int(self.rng.integers(1, 50)), shared=True)
            for by in range(self.n)
        ]

    # -- a collective ------------------------------------------------------------------------------------

    def _team(self) -> tuple[int, int, int]:
        if self.rng.random() < 0.6:
            return 0, 1, self.n
        size = int(self.rng.integers(1, self.n + 1))
        stride = int(self.rng.integers(1, (self.n - 1) // max(size - 1, 1) + 1)) if size > 1 else 1
        return int(self.rng.integers(0, self.n - (size - 1) * stride)), stride, size

    def _collective(self) -> Step:
        kind, (start, stride, size) = self._pick(COLLECTIVES), self._team()
        blocks = size if kind in ("fcollect", "alltoall", "collect") else 1
        pairs = [
            (target, source)
            for target in self.live
            for source in self.live
            if target and source and target != source and self.live[target][0] == self.live[source][0]
            and self.live[target][1] >= blocks and (kind != "alltoall" or self.live[source][1] >= blocks)
            and not (kind == "max_reduce" and self.live[target][0] == "c16")
        ]  # fmt: skip
        if not pairs:
            return self._round()
        target, source = self._pick(pairs)
        room = min(self.live[target][1] // blocks, self.live[source][1] // (blocks if kind == "alltoall" else 1))
        n = int(self.rng.integers(0, min(room, self._pick((4, 100, room))) + 1))
        sizes = tuple(int(x) for x in self.rng.integers(0, n + 1, size)) if kind == "collect" else ()
        return Collective(kind, target, source, n, int(self.rng.integers(size)), start, stride, size, sizes)
