"""Registered memory on `sim`: which bytes of whom work requests may use.

What a request finds at its target is looked up when it is posted. A segment that ends afterwards dooms what has not
arrived; a search does not turn the two, and says so (`Job.unexplored`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ...delivery.facts import Touch
from ...delivery.requests import Key, Place
from ...memory import caller
from ...nic.engine import Target, Wqe
from ...views import address_of
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric


@dataclass
class Registration:
    """A segment of some PE."""

    place: Place | None  # where in its heap, None for private memory
    address: int
    nbytes: int
    rights: str
    array: npt.NDArray[Any]  # lives as long as the job: requests may use it late
    live: bool = True
    requests: set[Key] = field(default_factory=set)  # that go to it


class SimSegments:
    """The segments of one PE, and its way to those of others."""

    def __init__(self, fabric: SimFabric) -> None:
        self._fabric, self._machine, self._me = fabric, fabric.machine, fabric.me

    def register(self, array: npt.NDArray[Any], rights: str) -> tuple[int, int]:
        """A segment of this PE."""
        address, nbytes = address_of(array), array.nbytes
        place = self._own_place(address, nbytes)
        mine = [each for (pe, _), each in self._fabric.job.segments.items() if pe == self._me]
        number = sum(each.place == place for each in mine if each.place is not None)
        key = len(mine) + 1 << 8 | self._me & 0xFF
        self._fabric.job.segments[self._me, key] = Registration(place, address, nbytes, rights, array)
        if place is not None:
            self._fabric.job.give(("registered", place, number))
        return key, number

    def _own_place(self, address: int, nbytes: int) -> Place | None:
        """The symmetric memory of this PE at an address; None for any other."""
        place = self._fabric.heap.find(address, nbytes)
        return None if place is None or place.space != self._me else place

    def forget(self) -> None:
        """Nothing of this PE is a segment any more."""
        for (pe, _), each in self._fabric.job.segments.items():
            if pe == self._me:
                each.live, each.place = False, None

    def deregister(self, key: int) -> None:
        """Ends a segment. Requests of which nothing has arrived yet fail."""
        segment = self._fabric.job.segments[self._me, key]
        if segment.place is None or not segment.live:
            segment.live = False
            return
        gone, line = Touch(segment.place, True), caller()
        self._fabric.do(Step("a segment ends", lambda: self._end_segment(segment, line), touches=lambda: (gone,)))

    def _end_segment(self, segment: Registration, line: str) -> None:
        segment.live = False
        for request in list(self._machine.flight.values()):
            if request.key in segment.requests and not request.placed and not request.bad:
                self._note_end(line)
                self._machine.queue_pairs[request.queue].doom(request, "rem_access", self._machine.flight)

    def _note_end(self, line: str) -> None:
        """A request to a segment and the end of the segment are not ordered: a post is no move that a search turns."""
        what = "a segment ends while requests to it are under way: not every order of the two was looked at"
        self._fabric.job.unexplored.add(f"{line}: {what}")

    def imported(self, pe: int, address: int, nbytes: int, number: int) -> int | None:
        """The key of a PE's segment, once it is there."""
        place = self._own_place(address, nbytes)
        if place is None:
            return None
        there = Place(pe, place.lo, place.hi)

        def keys() -> list[int]:
            return [
                key for (owner, key), each in self._fabric.job.segments.items() if owner == pe and each.place == there
            ]

        needs = [("registered", there, number)]
        step = Step("import of a segment", lambda: keys()[number], lambda: len(keys()) > number, needs=lambda: needs)
        found: int = self._fabric.do(step)
        return found

    def _local_fault(self, wqe: Wqe) -> str:
        """What is wrong with local memory: it is neither symmetric nor registered."""
        if wqe.data is not None or all(self._known(*piece) for piece in wqe.pieces):
            return ""
        return "loc_access"

    def _known(self, address: int, nbytes: int) -> bool:
        if self._fabric.heap.find(address, nbytes) is not None:
            return True
        return any(
            pe == self._me and each.live and each.address <= address and address + nbytes <= each.address + each.nbytes
            for (pe, _), each in self._fabric.job.segments.items()
        )

    def _remote(self, pe: int, target: Target, right: str, aligned: bool) -> tuple[Place, str]:
        """Where a request goes, and what its target's adapter will say of it."""
        nowhere = Place(("nowhere", pe), 0, target.nbytes)
        if not target.nbytes:
            return nowhere, ""
        segment = self._fabric.job.segments.get((pe, target.key))
        if segment is not None and not segment.live:
            self._note_end(caller())
        inside = segment is not None and 0 <= target.offset <= segment.nbytes - target.nbytes
        if segment is None or not segment.live or not inside or right not in segment.rights or segment.place is None:
            return nowhere, "rem_access"
        lo = segment.place.lo + target.offset
        return Place(pe, lo, lo + target.nbytes), "rem_inv_req" if aligned and lo % target.nbytes else ""
