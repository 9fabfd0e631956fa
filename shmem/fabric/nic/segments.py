"""Registered memory on `nic`: a table in the shared memory of its owner, which the adapters of all PEs look into."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ...errors import QueueStateError, ShmemTimeout
from ...nic.engine import Wqe
from ...views import address_of
from .arena import Arena

if TYPE_CHECKING:
    from .fabric import NicFabric

_RIGHTS = {"r": 1, "w": 2, "a": 4}
NAP_S = 200e-6


@dataclass
class Registration:
    """A segment of this PE."""

    address: int
    nbytes: int
    array: npt.NDArray[Any]  # lives as long as the adapter: requests may use it late
    live: bool = True


class NicSegments:
    """The segments of one PE, and its way to those of others."""

    def __init__(self, fabric: NicFabric) -> None:
        self.fabric, self.me, self.profile = fabric, fabric.me, fabric.delivery.profile
        self.ffi, self.lib, self.adapter = fabric.ffi, fabric.lib, fabric.adapter
        self.arena = Arena(fabric)
        self.segments: dict[int, Registration] = {}

    def register(self, array: npt.NDArray[Any], rights: str) -> tuple[int, int]:
        """A segment of this PE."""
        tables, address, nbytes = self.arena.tables, address_of(array), array.nbytes
        i = tables.segments
        if i >= self.lib.SM_SEGMENTS:
            raise QueueStateError(f"{i} segments were registered already, and no more are possible", pe=self.me)
        lo = address - self.fabric.heap.base
        symmetric = 0 <= lo <= self.fabric.heap_bytes - nbytes
        entry = tables.segment[i]
        entry.lo, entry.nbytes = (lo, nbytes) if symmetric else (0, 0)
        entry.rights = sum(_RIGHTS[each] for each in rights)
        same = [tables.segment[k] for k in range(i)]
        number = sum((each.lo, each.nbytes) == (lo, nbytes) for each in same) if symmetric else 0
        key = i + 1 << 8 | self.me & 0xFF
        self.segments[key] = Registration(address, nbytes, array)
        entry.known = 1
        tables.segments = i + 1
        return key, number

    def _entry(self, key: int) -> Any:
        return self.arena.tables.segment[(key >> 8) - 1]

    def deregister(self, key: int) -> None:
        """Ends a segment, and waits until what was let into it is over. Raises ShmemTimeout."""
        entry, segment = self._entry(key), self.segments[key]
        segment.live = False
        entry.ended = 1
        self.lib.sm_fence(self.fabric.pe)
        end = time.monotonic() + self.fabric.delivery.limit_s
        while entry.users:
            self.fabric.spin()
            if time.monotonic() > end:
                limit = self.fabric.delivery.limit_s
                raise ShmemTimeout(
                    f"PE {self.me} waited {limit:.1f} s for {entry.users} requests in a segment that it ends",
                    awaited="requests in a segment", seen=int(entry.users), in_flight=None, waited_s=limit, pe=self.me,
                )  # fmt: skip

    def imported(self, pe: int, address: int, nbytes: int, number: int) -> int | None:
        """The key of a PE's segment, once it is there. Raises ShmemTimeout."""
        lo = address - self.fabric.heap.base
        if not 0 <= lo <= self.fabric.heap_bytes - nbytes:
            return None
        tables, end = self.fabric.arena_of(pe), time.monotonic() + self.fabric.delivery.limit_s
        while True:
            keys = [
                i + 1 << 8 | pe & 0xFF
                for i in range(tables.segments)
                if (tables.segment[i].lo, tables.segment[i].nbytes) == (lo, nbytes)
            ]
            if len(keys) > number:
                return keys[number]
            if time.monotonic() > end:
                limit = self.fabric.delivery.limit_s
                raise ShmemTimeout(
                    f"PE {self.me} waited {limit:.1f} s for PE {pe} to register {nbytes} bytes at heap offset {lo:#x}",
                    awaited="a segment", seen=len(keys), in_flight=None, waited_s=limit, pe=self.me,
                )  # fmt: skip
            self.fabric.spin()

    def wrong_memory(self, wqe: Wqe) -> bool:
        """Whether local memory is neither symmetric nor registered."""
        return wqe.data is None and not all(self.known(*piece) for piece in wqe.pieces)

    def known(self, address: int, nbytes: int) -> bool:
        """Whether the adapter may use local memory."""
        if self.fabric.in_heap(address, nbytes):
            return True
        return any(
            each.live and each.address <= address and address + nbytes <= each.address + each.nbytes
            for each in self.segments.values()
        )
