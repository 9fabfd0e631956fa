"""The symmetric memory of a PE on `sim`: addresses that lead to poison, and the bytes of the model behind them.

Arrays lie over a buffer that holds nothing but poison; what a program loads and stores goes to the delivery machine.
Private memory is the program's own: a request reads it late from a copy, which follows the original until then, and
what a get brings is handed out when it is complete.
"""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...delivery.facts import Touch
from ...delivery.requests import Key, Place, Request, Stage
from ...delivery.tags import Call
from ...errors import CheckError
from ...heap import POISON
from ..events import Kind as Seen
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric


@dataclass
class Late:
    """Private memory that a request in flight reads or writes."""

    key: Key | None  # None: of no request yet
    place: Place  # of the copy
    address: int
    before: bytes = b""  # of memory for what is sent: what it held


class SimHeap:
    """The memory of one PE."""

    def __init__(self, fabric: SimFabric, nbytes: int) -> None:
        self._fabric = fabric
        self._buffer = mmap.mmap(-1, nbytes)
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(self._buffer, np.uint8)
        self.base = int(self.memory.__array_interface__["data"][0])
        self.nbytes = nbytes
        self._sources: list[Late] = []
        self._results: list[Late] = []
        self._raw: list[tuple[int, int]] = []  # offset and bytes of what was handed out as plain bytes
        self._spaces = 0

    def peer(self, pe: int) -> memoryview:
        """The poison of another PE."""
        heap: SimHeap = self._fabric.job.heaps[pe]
        return memoryview(heap._buffer)

    def let_go(self) -> None:
        """The buffer lives as long as the job."""

    def ends(self) -> None:
        """The PE starts again, with another heap: what lies in this one stays as it is, for the arrays over it."""
        job, me = self._fabric.job, self._fabric.me
        job.by_address.remove((self.base, me))
        job.past.append((self.base, self.nbytes, job.machine.memory.leave(me, len(job.past))))

    @property
    def mapped(self) -> bool:
        """It does."""
        return True

    def poison(self, offset: int, nbytes: int) -> None:
        """Fills the buffer of a block."""
        self.memory[offset : offset + nbytes] = POISON
        self._raw = [(at, size) for at, size in self._raw if at + size <= offset or offset + nbytes <= at]

    def raw(self, offset: int, nbytes: int) -> memoryview:
        """Poison: who reads it sees that, who writes to it is told at the next call."""
        self._raw.append((offset, nbytes))
        return self.memory[offset : offset + nbytes].data

    def _check_raw(self) -> None:
        """Raises CheckError if the program has written to plain bytes."""
        for offset, nbytes in self._raw:
            if (self.memory[offset : offset + nbytes] != POISON).any():
                self.memory[offset : offset + nbytes] = POISON
                raise CheckError(
                    f"unseen access: since its last call PE {self._fabric.me} has written to the plain bytes of the "
                    f"block at heap offset {offset:#x}, which nobody can see here: write to the array that "
                    "shmem.fromalloc makes of it"
                )

    def seen(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array as programs get it: every access is noticed."""
        from ...tracked import track

        seen: npt.NDArray[Any] = track(array, self)
        return seen

    # ---- what tracked arrays and records ask for ----

    def find(self, address: int, nbytes: int) -> Place | None:
        """The symmetric memory at an address, None where it is private."""
        heaps = self._fabric.job.by_address
        base, pe = heaps[bisect_right(heaps, (address, self._fabric.n)) - 1]
        if base <= address and address + nbytes <= base + self._fabric.job.heaps[pe].nbytes:
            return Place(pe, address - base, address - base + nbytes)
        for base, size, space in self._fabric.job.past:
            if base <= address and address + nbytes <= base + size:
                return Place(space, address - base, address - base + nbytes)
        return None

    def load(self, ranges: Sequence[tuple[int, int]]) -> bytes:
        """The bytes of some ranges (address, bytes) of symmetric memory, one after the other, in one step."""
        places = [place for at, nbytes in ranges if (place := self.find(at, nbytes))]
        return b"".join(self._fabric.look(places, "load"))

    def store(self, ranges: Sequence[tuple[int, int]], data: bytes) -> None:
        """Stores bytes to some ranges of symmetric memory."""
        done = 0
        for at, nbytes in ranges:
            if place := self.find(at, nbytes):
                self._fabric.store(place, data[done : done + nbytes], "store")
            done += nbytes

    def fill(self, offset: int, nbytes: int, value: int) -> None:
        """Sets all bytes of a part of the own heap."""
        self._fabric.store(Place(self._fabric.me, offset, offset + nbytes), bytes([value]) * nbytes, "fill")

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Copies a part of the own heap into another."""
        me = self._fabric.me
        data = self._fabric.load(Place(me, source, source + nbytes), "copy")
        self._fabric.store(Place(me, target, target + nbytes), data, "copy")

    def read(self, address: int, nbytes: int) -> bytes:
        """The bytes at any address: symmetric ones by a step."""
        place = self.find(address, nbytes)
        if place is not None:
            return self._fabric.load(place, "load")
        if self._fabric.job.observed is not None:
            self._fabric.job.observed.private.access(Seen.LOAD, address, nbytes)
        return ctypes.string_at(address, nbytes)

    def write(self, address: int, data: bytes, call: Call | None = None) -> None:
        """Changes the bytes at any address: symmetric ones by a step. call: whose result they are."""
        place = self.find(address, len(data))
        if place is None:
            ctypes.memmove(address, data, len(data))
            if self._fabric.job.observed is not None:
                self._fabric.job.observed.private.access(Seen.STORE, address, len(data))
            return
        if call is not None:
            call.places.append(place)
        self._fabric.store(place, data, "store", call)

    # ---- private memory of requests in flight ----

    def _space(self, data: bytes) -> Place:
        self._spaces += 1
        space: Hashable = ("private", self._fabric.me, self._spaces)
        self._fabric.machine.memory.spaces[space] = bytearray(data)
        return Place(space, 0, len(data))

    def source(self, key: Key, address: int, nbytes: int) -> Place:
        """Where a request finds its source when it reads it."""
        if place := self.find(address, nbytes):
            return place
        if place := self._result_at(address, nbytes):  # the program may not look at it yet, but the adapter may
            return place
        copy = self._space(ctypes.string_at(address, nbytes))
        self._sources.append(Late(key, copy, address))
        return copy

    def _result_at(self, address: int, nbytes: int) -> Place | None:
        """Private memory in which a result is still to come."""
        for late in self._results:
            first = address - late.address
            if first >= 0 and first + nbytes <= late.place.hi - late.place.lo:
                return Place(late.place.space, late.place.lo + first, late.place.lo + first + nbytes)
        return None

    def result(self, key: Key, address: int, nbytes: int) -> Place:
        """Where a request leaves its result. Private memory holds poison until it is handed out."""
        if place := self.find(address, nbytes):
            return place
        place = self._result_at(address, nbytes)
        if place is None:
            ctypes.memset(address, POISON, nbytes)
            place = self._space(bytes([POISON]) * nbytes)
        self._results.append(Late(key, place, address))
        return place

    def buffer(self, address: int, nbytes: int) -> Late:
        """Memory for what another PE sends. Private memory holds poison until it is given back."""
        if place := self.find(address, nbytes):
            return Late(None, place, address)
        before = ctypes.string_at(address, nbytes)
        ctypes.memset(address, POISON, nbytes)
        return Late(None, self._space(bytes([POISON]) * nbytes), address, before)

    def give_back(self, late: Late, nbytes: int) -> None:
        """Private memory is the program's again, with the first bytes of what came and the rest as it was. What still
        reads it follows the program from here on."""
        came = self._fabric.machine.memory.read(late.place)
        now = ctypes.string_at(late.address, len(late.before))
        left = bytes(old if new == POISON else new for old, new in zip(late.before, now, strict=True))
        ctypes.memmove(late.address, came[:nbytes] + left[nbytes:], len(left))
        self._fabric.job.tell(came[:nbytes])
        self._release(late)

    def _release(self, late: Late) -> None:
        machine, space = self._fabric.machine, late.place.space
        readers = [each for each in machine.flight.values() if each.source is not None and each.source.space == space]
        for each in readers:
            assert each.source is not None
            self._sources.append(Late(each.key, each.source, late.address + each.source.lo - late.place.lo))
        if not readers and not any(other.place.space == space for other in self._results):
            machine.memory.spaces.pop(space, None)

    def hand_out(self, complete: Callable[[Request], bool]) -> None:
        """Gives the program what requests that are complete have brought; nothing of those that failed, and of none
        that is still under way. Their sources are its own again."""
        self.reusable(complete)
        if not self._results:
            return
        known, flight = self._fabric.machine.known, self._fabric.machine.flight
        over = [
            late
            for late in self._results
            if late.key is not None and complete(request := known[late.key])
            and (late.key not in flight or request.reached(Stage.ANSWERED))
        ]  # fmt: skip
        self._results = [late for late in self._results if late not in over]
        for late in over:
            if late.key is not None and known[late.key].reached(Stage.ANSWERED):
                came = self._fabric.machine.memory.read(late.place)
                ctypes.memmove(late.address, came, len(came))
                self._fabric.job.tell(came)
        for late in over:
            self._release(late)

    def _observe(self) -> None:
        """Tells a race detector of sources and results that the program has changed."""
        observed = self._fabric.job.observed
        assert observed is not None
        observed.private.follow()
        for late in self._results:
            if late.key is not None and not isinstance(late.place.space, int):
                now = ctypes.string_at(late.address, late.place.hi - late.place.lo)
                observed.private.touched(late.key, late.address, now, bytes([POISON]) * len(now))

    def reusable(self, complete: Callable[[Request], bool]) -> None:
        """The program knows that requests have read their sources: what it does to those is nobody's affair."""
        if self._fabric.job.clock is None:
            known = self._fabric.machine.known
            self._sources = [late for late in self._sources if late.key is None or not complete(known[late.key])]

    def _counts(self, late: Late) -> bool:
        """Whether a change of a source is noticed. With a clock there is one order, and requests that are over are
        forgotten: only what is still to be read counts."""
        if late.key is None or self._fabric.job.clock is None:
            return late.key is not None and late.place.space in self._fabric.machine.memory.spaces
        request = self._fabric.machine.flight.get(late.key)
        return request is not None and not request.read

    def follow(self) -> None:
        """Sources that the program has changed since it last did anything: from here on requests may read them so.

        Also those that were read already, unless the program knows it: from this step a search learns that the program
        might have been quicker. Their memory is kept alive until then."""
        if self._raw:
            self._check_raw()
        if self._fabric.job.observed is not None:
            self._observe()
        if not self._sources:
            return
        machine = self._fabric.machine
        self._sources = [late for late in self._sources if self._counts(late)]
        for late in self._sources:
            now = ctypes.string_at(late.address, late.place.hi - late.place.lo)
            if now != machine.memory.read(late.place):
                self._fabric.job.do(
                    Step(
                        "a source changes",
                        lambda place=late.place, now=now: machine.memory.write(place, now),  # type: ignore[misc]
                        touches=lambda place=late.place: (Touch(place, True),),  # type: ignore[misc]
                    )
                )
