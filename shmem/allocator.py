"""Which bytes of the symmetric heap belong to whom: offsets only, no memory, no communication.

Every PE makes the same calls in the same order on its own allocator and must get the same offsets, so the
result is a function of the sequence of calls alone: no addresses, no hashes, no clock.

Each free byte has an age: the number of the `free` that returned it, 0 if it was never handed out. Free
memory is kept as segments of one age; segments that touch are one hole ("merged") for every purpose, but keep
their own ages. A merge that gave a whole hole one age would hand out a block again right after its free,
whenever it lies at the front of a big hole; but a freed block is to be reused as late as possible, so that a
stale view of it is noticed. The policy, in this order:

1. never-used memory, if it has room in one piece: the smallest such piece (alignment leaves small ones
   behind). It is known to be zero, and nobody can hold a stale view of it;
2. else the smallest hole that fits (best fit), among holes of one size the one with the oldest place;
3. in the hole, the place whose youngest byte is oldest (first in, first out), then the lowest.

The never-used tail is part of the hole before it, so an allocation that fits only in both together succeeds
(and does not count as fresh), but it stays a segment of its own, so nothing known about it gets lost. An
allocation and a free cost O(free segments).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from .errors import ArgumentError, FreedBlock


class Placement(NamedTuple):
    """Where an allocation went. `fresh`: no byte of it was ever handed out before, so it is zero already."""

    offset: int
    fresh: bool


class Segment(NamedTuple):
    """Free bytes `start` .. `end` - 1 that were freed together, by the `age`-th free (0: never used)."""

    start: int
    end: int
    age: int


class OffsetAllocator:
    """Hands out ranges of 0 .. `size` - 1; all sizes in bytes, rounded up to multiples of `granule`.

    The rest of `size` beyond a multiple of `granule` is never used. `live` and `peak` count rounded bytes.
    """

    def __init__(self, size: int, granule: int = 64) -> None:
        if granule < 1 or granule & (granule - 1):
            raise ArgumentError(f"granule is {granule}: must be a power of two")
        if size < granule:
            raise ArgumentError(f"size is {size}: must hold at least one granule of {granule} bytes")
        self.size = size - size % granule
        self.granule = granule
        self.live = 0
        self.peak = 0
        self._frees = 0
        self._sizes: dict[int, int] = {}  # of the live blocks, by offset
        self._starts: list[int] = []  # the same offsets, sorted
        self._free = [Segment(0, self.size, 0)]  # sorted, disjoint

    def alloc(self, nbytes: int, align: int = 64) -> Placement | None:
        """A block of `nbytes` at a multiple of `align` (a power of two); None if there is no room for it.

        Zero bytes take one granule, so that every block has an offset of its own. None changes nothing.
        """
        if nbytes < 0:
            raise ArgumentError(f"nbytes is {nbytes}: must not be negative")
        if align < 1 or align & (align - 1):
            raise ArgumentError(f"align is {align}: must be a power of two")
        nbytes = _up(max(nbytes, 1), self.granule)
        placement = self._choose(nbytes, max(align, self.granule))
        if placement is not None:
            self._take(placement.offset, nbytes)
        return placement

    def free(self, offset: int) -> int:
        """Takes back the block at `offset`; its size. Raises FreedBlock if no live block begins there."""
        nbytes = self.size_of(offset)
        del self._sizes[offset]
        del self._starts[bisect_left(self._starts, offset)]
        self.live -= nbytes
        self._frees += 1
        insort(self._free, Segment(offset, offset + nbytes, self._frees))
        return nbytes

    def shrink(self, offset: int, nbytes: int) -> int:
        """Takes back the end of the block at `offset`, whose first `nbytes` stay; how many bytes that was.

        Raises FreedBlock if no live block begins there.
        """
        kept, before = _up(max(nbytes, 1), self.granule), self.size_of(offset)
        if not 0 <= nbytes <= before:
            raise ArgumentError(f"nbytes is {nbytes}: the block has {before}")
        if kept < before:
            self._sizes[offset] = kept
            self.live -= before - kept
            self._frees += 1
            insort(self._free, Segment(offset + kept, offset + before, self._frees))
        return before - kept

    def size_of(self, offset: int) -> int:
        """The size of the block that begins at `offset`. Raises FreedBlock if no live block begins there."""
        if offset not in self._sizes:
            raise FreedBlock(f"no block begins at heap offset {offset}: freed already, or never allocated")
        return self._sizes[offset]

    def find(self, offset: int) -> int | None:
        """Where the live block that contains the byte at `offset` begins; None if the byte is free."""
        i = bisect_right(self._starts, offset) - 1
        if i >= 0 and offset < self._starts[i] + self._sizes[self._starts[i]]:
            return self._starts[i]
        return None

    @property
    def blocks(self) -> int:
        """How many blocks are live."""
        return len(self._sizes)

    @property
    def free_bytes(self) -> int:
        """All free bytes, in however many holes."""
        return self.size - self.live

    @property
    def largest_free(self) -> int:
        """The largest allocation that would succeed now, at the least alignment; 0 if the heap is full."""
        return max((hole[-1].end - hole[0].start for hole in self._holes()), default=0)

    def live_blocks(self) -> list[tuple[int, int]]:
        """Offset and size of every live block, by offset."""
        return [(start, self._sizes[start]) for start in self._starts]

    def holes(self) -> list[tuple[int, int]]:
        """Offset and size of every hole, by offset; neighbours are one hole, so no two touch."""
        return [(hole[0].start, hole[-1].end - hole[0].start) for hole in self._holes()]

    def _holes(self) -> Iterator[list[Segment]]:
        hole: list[Segment] = []
        for segment in self._free:
            if hole and hole[-1].end != segment.start:
                yield hole
                hole = []
            hole.append(segment)
        if hole:
            yield hole

    def _choose(self, nbytes: int, align: int) -> Placement | None:
        """The policy at the top of this file."""
        fresh = [s for s in self._free if s.age == 0 and _up(s.start, align) + nbytes <= s.end]
        if fresh:
            smallest = min(fresh, key=lambda s: s.end - s.start)
            return Placement(_up(smallest.start, align), True)
        fitting = [hole for hole in self._holes() if _up(hole[0].start, align) + nbytes <= hole[-1].end]
        if not fitting:
            return None
        best = min(hole[-1].end - hole[0].start for hole in fitting)
        equals = [hole for hole in fitting if hole[-1].end - hole[0].start == best]
        _, offset = min(_oldest_place(hole, nbytes, align) for hole in equals)
        return Placement(offset, False)

    def _take(self, start: int, nbytes: int) -> None:
        end = start + nbytes
        first = bisect_right(self._free, start, key=lambda s: s.start) - 1
        last = bisect_left(self._free, end, key=lambda s: s.start) - 1
        before, after = self._free[first], self._free[last]
        assert before.start <= start, "the chosen place is not free"
        assert end <= after.end, "the chosen place is not free"
        rest = [Segment(before.start, start, before.age), Segment(end, after.end, after.age)]
        self._free[first : last + 1] = [segment for segment in rest if segment.start < segment.end]
        self._sizes[start] = nbytes
        insort(self._starts, start)
        self.live += nbytes
        self.peak = max(self.peak, self.live)


def _up(offset: int, align: int) -> int:
    return (offset + align - 1) & -align


def _oldest_place(hole: list[Segment], nbytes: int, align: int) -> tuple[int, int]:
    """(age of the youngest byte, offset) of the place in `hole` for which that is least; one does fit.

    A place that begins inside a segment is no better than the first one in it, so one place a segment is
    looked at. `window` holds those segments under the place that are younger than all later ones: its first
    is the youngest of all.
    """
    places: list[tuple[int, int]] = []
    window: deque[Segment] = deque()
    upcoming = iter(hole)
    following = next(upcoming, None)
    for segment in hole:
        start = _up(segment.start, align)
        if start + nbytes > hole[-1].end:
            break
        while following is not None and following.start < start + nbytes:
            while window and window[-1].age <= following.age:
                window.pop()
            window.append(following)
            following = next(upcoming, None)
        while window[0].start < segment.start:
            window.popleft()
        places.append((window[0].age, start))  # beyond the segment's end it is a later one's place as well
    return min(places)
