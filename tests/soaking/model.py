"""What the steps do: the memory of all PEs as plain arrays, changed one operation after the other.

The oracle of the soak. It imports NumPy and the steps, and nothing of `shmem`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .plan import Act, Alloc, Collective, Free, Round, Step

ATOMICS = {
    "set": lambda old, value, cond: value,
    "swap": lambda old, value, cond: value,
    "compare_swap": lambda old, value, cond: value if old == cond else old,
    "fetch": lambda old, value, cond: old,
    "add": lambda old, value, cond: old + value,
    "inc": lambda old, value, cond: old + 1,
    "and": lambda old, value, cond: old & value,
    "or": lambda old, value, cond: old | value,
    "xor": lambda old, value, cond: old ^ value,
}


class Model:
    """The arrays of every PE: `memory[key][pe]`."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.memory: dict[int, list[np.ndarray]] = {}

    def do(self, step: Step) -> list[Any]:
        """Does a step; for a round, what each act has to answer (None where it answers nothing or anything)."""
        match step:
            case Alloc(key, dtype, size, fill):
                self.memory[key] = [np.full(size, fill or 0, dtype) for _ in range(self.n)]
            case Free(key):
                del self.memory[key]
            case Round(acts):
                return [self._act(act) for act in acts]
            case Collective():
                self._collective(step)
        return []

    def _act(self, act: Act) -> Any:
        cells = self.memory[act.key][act.on]
        where = [act.start + i * act.step for i in range(act.n)]
        if act.values is not None:
            for cell, value in zip(where, act.values, strict=True):
                cells[cell] = value
            if act.signal >= 0:
                self.memory[act.signal][act.on][act.cond] = act.value
            return None
        if not act.kind.startswith("atomic_"):
            return np.array([cells[cell] for cell in where], cells.dtype)
        return self._atomic(act, cells)

    @staticmethod
    def _atomic(act: Act, cells: np.ndarray) -> int | None:
        name = act.kind.removeprefix("atomic_")
        plain = name if name in ATOMICS else name.removeprefix("fetch_")
        old = int(cells[act.start])
        bits = 8 * cells.itemsize
        new = ATOMICS[plain](old, act.value, act.cond) & ((1 << bits) - 1)
        signed = cells.dtype.kind == "i" and new >> (bits - 1)
        cells[act.start] = new - (1 << bits) if signed else new
        answers = name.startswith("fetch") or name in ("swap", "compare_swap")
        return old if answers and not act.shared else None

    def _collective(self, step: Collective) -> None:
        pes = [step.start + i * step.stride for i in range(step.size)]
        source = [self.memory[step.source][pe].copy() for pe in pes]
        for i, pe in enumerate(pes):
            out = self.memory[step.target][pe]
            parts = self._parts(step, source, i)
            at = 0
            for part in parts:
                out[at : at + len(part)] = part
                at += len(part)

    @staticmethod
    def _parts(step: Collective, source: list[np.ndarray], i: int) -> list[np.ndarray]:
        n = step.n
        match step.kind:
            case "broadcast":
                return [source[step.root][:n]]
            case "fcollect":
                return [block[:n] for block in source]
            case "collect":
                return [block[:size] for block, size in zip(source, step.sizes, strict=True)]
            case "alltoall":
                return [block[i * n : (i + 1) * n] for block in source]
            case "max_reduce":
                return [_fold(source, n, np.maximum)]
            case "sum_reduce":
                return [_fold(source, n, np.add)]
            case "sum_inscan":
                return [_fold(source[: i + 1], n, np.add)]
            case "sum_exscan":
                return [_fold(source[:i], n, np.add) if i else np.zeros(n, source[0].dtype)]
        raise AssertionError(step.kind)


def _fold(blocks: list[np.ndarray], n: int, op: Any) -> np.ndarray:
    result = blocks[0][:n].copy()
    for block in blocks[1:]:
        result = op(result, block[:n], dtype=result.dtype)
    return result
