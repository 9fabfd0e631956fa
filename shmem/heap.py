"""The symmetric heap of a PE: which bytes are allocated, by which call, and the memory itself.

State only; the collective calls that change it are in `arrays.py`. All PEs make the same changes in the same order, so
that an offset means the same array everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .allocator import OffsetAllocator

if TYPE_CHECKING:
    from .fabric.interface import Fabric, Heap

POISON = 0xDB  # what freed memory is filled with, so that a stale view is noticed
SLOTS = 64  # of teams, as in the C core
_WORLD_HALF, _TEAM_HALF = 1 << 15, 1 << 13
# Behind the heap of every PE: two halves for each slot, in which collectives show what they contribute.
SCRATCH_BYTES = 2 * (_WORLD_HALF + (SLOTS - 1) * _TEAM_HALF)


@dataclass(frozen=True)
class Allocation:
    """One live allocation: the call that made it and the line of the program that called."""

    offset: int
    nbytes: int
    text: str
    where: str
    align: int = 64
    hints: int = 0


@dataclass(frozen=True)
class HeapStats:
    """Use of the symmetric heap of one PE, in bytes: `size` of the heap, `live` allocated now, `peak` of it so far,
    `blocks` live allocations, `largest_free` the largest block that could be allocated now."""

    size: int
    live: int
    peak: int
    blocks: int
    largest_free: int


class SymmetricHeap:
    """The own heap: memory, allocator and the list of allocations."""

    def __init__(self, fabric: Fabric, heap: Heap, nbytes: int, poison: bool) -> None:
        self._heap = heap
        self.memory: npt.NDArray[np.uint8] = heap.memory[:nbytes]
        self.base = heap.base
        self.peer, self.seen, self.raw, self.fill, self.move = heap.peer, heap.seen, heap.raw, heap.fill, heap.move
        self.size = nbytes
        self._fabric = fabric
        self._poison = poison
        self._allocator = OffsetAllocator(nbytes)
        self._allocations: dict[int, Allocation] = {}
        self._kept: set[int] = set()

    def take(self, nbytes: int, text: str, where: str, align: int = 64, hints: int = 0) -> tuple[int, bool] | None:
        """Allocates; returns the offset and whether the memory was never used (zero), or None if it doesn't fit."""
        placed = self._allocator.alloc(nbytes, align)
        if placed is None:
            return None
        self._allocations[placed.offset] = Allocation(placed.offset, nbytes, text, where, align, hints)
        self._fabric.mark_live(placed.offset, self._allocator.size_of(placed.offset), True)
        return placed.offset, placed.fresh

    def give_back(self, offset: int) -> int:
        """Frees the block at `offset` and returns its bytes; raises FreedBlock if none begins there."""
        nbytes = self._allocator.free(offset)
        del self._allocations[offset]
        self._kept.discard(offset)
        self._vacate(offset, nbytes)
        return nbytes

    def shrink(self, offset: int, nbytes: int, where: str) -> bool:
        """Makes the block at `offset` one of `nbytes` where it lies; False, and no change, if it is smaller."""
        before = self._allocator.size_of(offset)
        if nbytes > before:
            return False
        after = before - self._allocator.shrink(offset, nbytes)
        self._allocations[offset] = replace(
            self._allocations[offset], nbytes=nbytes, text=f"realloc({nbytes})", where=where
        )
        self._vacate(offset + after, before - after)
        return True

    def _vacate(self, offset: int, nbytes: int) -> None:
        self._fabric.mark_live(offset, nbytes, False)
        if self._poison:
            self._heap.fill(offset, nbytes, POISON)

    def check_block(self, offset: int) -> None:
        """Raises FreedBlock unless a live block begins at `offset`."""
        self._allocator.size_of(offset)

    def room(self, offset: int) -> int:
        """The bytes that the block at `offset` takes; raises FreedBlock if none begins there."""
        return self._allocator.size_of(offset)

    def live(self, offset: int, nbytes: int) -> bool:
        """Whether all these bytes lie in one live block."""
        start = self._allocator.find(offset)
        return start is not None and offset + nbytes <= start + self._allocator.size_of(start)

    def allocations(self) -> list[Allocation]:
        """What is allocated now, in the order of the calls, without what lives until finalize on purpose."""
        return [one for one in self._allocations.values() if one.offset not in self._kept]

    def allocation(self, offset: int) -> Allocation:
        """What is known of the block that begins at `offset`; raises FreedBlock if none does."""
        self.check_block(offset)
        return self._allocations[offset]

    def kept(self, offset: int) -> bool:
        """Whether the block at `offset` is meant to live until finalize."""
        return offset in self._kept

    def keep(self, offset: int) -> None:
        """Says that the block at `offset` is meant to live until finalize: it is no leak."""
        self.check_block(offset)
        self._kept.add(offset)

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], order: str = "C") -> npt.NDArray[Any]:
        """An array over the heap, as programs get it."""
        strict: Literal["C", "F"] = "F" if order == "F" else "C"
        made: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=self.memory, offset=offset, order=strict)
        return self.seen(made)

    def let_go(self) -> None:
        """The PE is over: from now on only the program's arrays keep the memory."""
        self._heap.let_go()
        self.memory = self._heap.memory

    @property
    def mapped(self) -> bool:
        """Whether the memory is there still."""
        return self._heap.mapped

    def had(self, address: int) -> bool:
        """Whether an array at this address lies in this heap, which may be one that was let go."""
        return self.mapped and self.base <= address < self.base + self.size

    def scratch(self, slot: int, half: int) -> tuple[int, int]:
        """Offset and size in bytes of half 0 or 1 of what the collectives of a slot have behind the heap."""
        if slot == 0:
            return self.size + half * _WORLD_HALF, _WORLD_HALF
        return self.size + 2 * _WORLD_HALF + (2 * slot - 2 + half) * _TEAM_HALF, _TEAM_HALF

    def stats(self) -> HeapStats:
        """Use of the heap now."""
        a = self._allocator
        return HeapStats(self.size, a.live, a.peak, a.blocks, a.largest_free)

    @property
    def free_bytes(self) -> int:
        """All free bytes."""
        return self._allocator.free_bytes
