"""The part of a PE's shared memory, behind its heap, in which the queues of its adapter are."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ...allocator import OffsetAllocator
from ...errors import HeapExhausted

if TYPE_CHECKING:
    from .fabric import NicFabric

BOUNCES_MAX = 1 << 20  # bytes of a private receive buffer


class Arena:
    """The own arena: tables at its start, then what is given out here."""

    def __init__(self, fabric: NicFabric) -> None:
        ffi, lib = fabric.ffi, fabric.lib
        self._me = fabric.me
        self.base: int = fabric.heap.base + fabric.heap_bytes
        self.tables: Any = ffi.cast("sm_arena *", self.base)
        self._first: int = -(-ffi.sizeof("sm_arena") // 64) * 64
        self._free = OffsetAllocator(int(lib.sm_arena_bytes()) - self._first)

    def take(self, nbytes: int, what: str) -> int:
        """The offset of `nbytes`. Raises HeapExhausted."""
        found = self._free.alloc(nbytes)
        if found is None:
            free, largest = self._free.free_bytes, self._free.largest_free
            raise HeapExhausted(
                f"no room for {what}: {nbytes} bytes, {free} are left for the queues of a PE",
                asked=nbytes, free=free, largest_free=largest, pe=self._me,
            )  # fmt: skip
        return self._first + found.offset

    def give(self, offset: int) -> None:
        """Takes back what was given out."""
        self._free.free(offset - self._first)

    def read(self, offset: int, nbytes: int) -> bytes:
        """Bytes as they are now."""
        return ctypes.string_at(self.base + offset, nbytes)
