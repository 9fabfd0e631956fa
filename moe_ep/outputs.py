"""Memory of outputs: arrays that the caller owns, made of blocks that are used again once nobody holds them.

A fresh block of 300 MB costs a page fault for each of its pages in every call, more than copying the rows. So
the pool keeps the blocks it made, and gives one out again when the pool's own list is the only thing that
refers to it. That is safe because any array that shows a part of a block, at whatever remove (views of views,
memoryviews, torch tensors made from it), keeps the block itself alive: a reference that nobody else holds
cannot come back to life.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .layout import align

SMALLEST = 1 << 18  # bytes; below this a fresh array costs less than looking
GRAIN = 2 << 20
LINE = 64
MAX_BLOCKS = 4


def _idle_references() -> int:
    blocks = [np.empty(1, np.uint8)]
    i = 0
    return sys.getrefcount(blocks[i])  # written as in _idle below: what a block shows that only its list holds


_IDLE = _idle_references()
# Without the GIL another thread may be about to count itself in: then every output is fresh memory.
_COUNTS_ARE_EXACT = bool(getattr(sys, "_is_gil_enabled", lambda: True)())


class OutputPool:
    """Gives out uninitialised arrays. At most MAX_BLOCKS blocks are remembered, in use or not."""

    def __init__(self) -> None:
        self._blocks: list[NDArray[np.uint8]] = []

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """An uninitialised C-contiguous array, on a cache line when large; nobody else holds its memory."""
        kind = np.dtype(dtype)
        nbytes = kind.itemsize * int(np.prod(shape, dtype=np.int64))
        if nbytes < SMALLEST or not _COUNTS_ARE_EXACT:
            return np.empty(shape, kind)
        block = self._block(nbytes + LINE)
        start = -block.ctypes.data % LINE
        return block[start : start + nbytes].view(kind).reshape(shape)

    def clear(self) -> None:
        """Forgets all blocks; those in use live on with their users."""
        self._blocks.clear()

    def _idle(self) -> list[int]:
        blocks = self._blocks
        return [i for i in range(len(blocks)) if sys.getrefcount(blocks[i]) == _IDLE]

    def _block(self, nbytes: int) -> NDArray[np.uint8]:
        idle = self._idle()
        fitting = [i for i in idle if self._blocks[i].nbytes >= nbytes]
        if fitting:
            return self._blocks[min(fitting, key=lambda i: self._blocks[i].nbytes)]
        # The row count changes from call to call: an eighth more (untouched pages cost nothing) serves the
        # next one.
        block = np.empty(align(nbytes + nbytes // 8, GRAIN), np.uint8)
        if len(self._blocks) == MAX_BLOCKS and idle:
            del self._blocks[idle[0]]
        if len(self._blocks) < MAX_BLOCKS:
            self._blocks.append(block)
        return block
