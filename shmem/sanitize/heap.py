"""The heaps of a recorded run: the same memory, under arrays that tell of every access."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..fabric.direct import DirectHeap
from ..fabric.events import Kind
from .stream import PRIVATE, WORD

if TYPE_CHECKING:
    from .recorder import Recorder

Spans = list[tuple[int, int, int]]  # PE, or PRIVATE and addresses; first byte, behind the last


class RecordingHeap(DirectHeap):
    """The heaps of all PEs, and the watch over the arrays of the own one and of `ptr`."""

    def __init__(self, fabric: Recorder, segments: Sequence[int], nbytes: int) -> None:
        super().__init__(fabric, segments, nbytes)
        self._recorder = fabric
        self.bases = [int(fabric.ffi.cast("uintptr_t", owner)) for owner in self.owners]
        order = sorted(range(len(self.bases)), key=self.bases.__getitem__)
        self._starts, self._pes = [self.bases[pe] for pe in order], order

    def find(self, address: int, nbytes: int) -> tuple[int, int, int]:
        """What memory lies at an address of this process."""
        offset = address - self.base
        if 0 <= offset <= self._nbytes - nbytes:
            return self._recorder.me, offset, offset + nbytes
        i = bisect_right(self._starts, address) - 1
        if i >= 0 and (offset := address - self._starts[i]) + nbytes <= self._nbytes:
            return self._pes[i], offset, offset + nbytes
        return PRIVATE, address, address + nbytes

    def seen(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A tracked array."""
        from ..tracked import track

        return track(array, self)

    def load(self, ranges: Sequence[tuple[int, int]]) -> bytes:
        """What a tracked array reads: the bytes at some addresses."""
        if len(ranges) == 1:
            at, nbytes = ranges[0]
            data = ctypes.string_at(at, nbytes)
            if nbytes <= WORD:
                self._recorder.loaded(at, data)
                return data
        else:
            data = b"".join([ctypes.string_at(at, nbytes) for at, nbytes in ranges])
        self._recorder.accessed(Kind.LOAD, [self.find(*each) for each in ranges])
        return data

    def store(self, ranges: Sequence[tuple[int, int]], data: bytes) -> None:
        """What a tracked array writes."""
        done = 0
        for at, nbytes in ranges:
            ctypes.memmove(at, data[done : done + nbytes], nbytes)
            done += nbytes
        self._recorder.accessed(Kind.STORE, [self.find(*each) for each in ranges])

    def fill(self, offset: int, nbytes: int, value: int) -> None:
        """Sets all bytes of a part."""
        super().fill(offset, nbytes, value)
        self._recorder.accessed(Kind.STORE, [(self._recorder.me, offset, offset + nbytes)], what="fill")

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Copies a part into another."""
        super().move(target, source, nbytes)
        me = self._recorder.me
        self._recorder.accessed(Kind.LOAD, [(me, source, source + nbytes)])
        self._recorder.accessed(Kind.STORE, [(me, target, target + nbytes)], what="copy")


def merged(spans: Iterator[tuple[int, int, int]]) -> Spans:
    """Spans in order, neighbours joined."""
    made: Spans = []
    for space, lo, hi in sorted(spans):
        if made and made[-1][0] == space and lo <= made[-1][2]:
            made[-1] = space, made[-1][1], max(hi, made[-1][2])
        elif lo < hi:
            made.append((space, lo, hi))
    return made
