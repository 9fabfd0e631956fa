"""Registered memory on `sim`: which bytes of whom work requests may use.

Whether the bytes lie in a segment with the right to use them is looked up when a request is posted, since that does not
change; whether the segment is still there, when the request comes to it (`delivery.admission`). Local memory is looked
up when a request is posted.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ...delivery import admission
from ...delivery.facts import Touch
from ...delivery.requests import Place
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
        admission.begin(self._machine, _name(self._me, key))
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
        """Ends a segment, once what was let into it is placed. Requests that come later fail."""
        segment = self._fabric.job.segments[self._me, key]
        if segment.place is None or not segment.live:
            segment.live = False
            return
        machine, name = self._machine, _name(self._me, key)
        gone = Touch(admission.state_of(name), True)

        def run() -> None:
            segment.live = False
            admission.end(machine, name)

        step = Step("the end of a segment", run, lambda: not admission.in_use(machine, name), lambda: (gone,))
        self._fabric.do(step)

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

    def _remote(self, pe: int, target: Target, right: str, aligned: bool) -> tuple[Place, str, tuple[Hashable, ...]]:
        """Where a request goes, what its target's adapter will say of it, and the segment, if that may end first."""
        nowhere = Place(("nowhere", pe), 0, target.nbytes)
        if not target.nbytes:
            return nowhere, "", ()
        segment = self._fabric.job.segments.get((pe, target.key))
        inside = segment is not None and 0 <= target.offset <= segment.nbytes - target.nbytes
        if segment is None or not inside or right not in segment.rights or segment.place is None:
            return nowhere, "rem_access", ()
        lo = segment.place.lo + target.offset
        bad = "rem_inv_req" if aligned and lo % target.nbytes else ""
        return Place(pe, lo, lo + target.nbytes), bad, () if bad else (_name(pe, target.key),)


def _name(pe: int, key: int) -> Hashable:
    """What a segment is called in the delivery machine."""
    return "segment", pe, key
