"""Writing the records of a plan: show one's part in the scratch memory, meet, fetch the parts of the others.

Places are what `views` makes of arrays: a contiguous block or blocks at a stride. Positions and lengths are bytes of
the elements put one after the other ("packed").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..fabric.interface import Members
from ..records import NBI, RECORD, STREAMING, TERM, Element, Fold, Op, Records, fingerprint, strides
from ..runtime import PE
from ..views import Place, address_of


@dataclass(frozen=True)
class Term:
    """Elements in the heap of a PE."""

    pe: int
    offset: int


def pieces(place: Place, first: int, nbytes: int) -> Iterator[Place]:
    """`nbytes` packed bytes of a place from `first` on: the rest of a block, whole blocks, the start of one."""
    if place.count == 1:
        yield Place(place.offset + first, nbytes, 0, 1)
        return
    row, skipped = divmod(first, place.block)
    end = first + nbytes
    if skipped:
        taken = min(place.block - skipped, nbytes)
        yield Place(place.offset + row * place.stride + skipped, taken, 0, 1)
        row, first = row + 1, first + taken
    whole, rest = divmod(end - first, place.block)
    if whole:
        yield Place(place.offset + row * place.stride, place.block, place.stride, whole)
    if rest:
        yield Place(place.offset + (row + whole) * place.stride, rest, 0, 1)


class Script:
    """The records of one plan for the calls that begin in one half."""

    def __init__(self, pe: PE, members: Members, call: str, half: int) -> None:
        self.pe, self.members = pe, members
        self.me = members.pes.index(pe.me)
        self.keep: list[object] = []
        self.in_place: tuple[tuple[int, int, bool], ...] = ()
        self._half = half
        self._streaming = 0
        self._check = fingerprint(call) if pe.settings.check_symmetry else 0
        self._rows: list[tuple[int, ...]] = []

    @property
    def room(self) -> int:
        """Bytes that a PE can show at a time."""
        return self.pe.heap.scratch(self.members.slot, 0)[1]

    @property
    def small(self) -> int:
        """Bytes that are better shown than read between two barriers."""
        return min(self.room, self.pe.fabric.meet_bytes)

    @property
    def shown(self) -> int:
        """Where in its heap each PE shows something until the next barrier but one."""
        return self.pe.heap.scratch(self.members.slot, self._half)[0]

    def read_in_place(self, nbytes: int, *ends: tuple[int, int, bool]) -> None:
        """From here on copies are between arrays, of so many bytes in all: past the cache where they would fill it.

        ends: what is done to own arrays, also by others: offset, bytes, whether they are written.
        """
        self.in_place = ends
        self._streaming = STREAMING if nbytes >= self.pe.fabric.spill_bytes else 0

    def others(self) -> list[int]:
        """All members as positions in the team, beginning with this PE."""
        n = len(self.members.pes)
        return [(self.me + i) % n for i in range(n)]

    def show(self, source: Place, first: int, nbytes: int, at: int) -> None:
        """Packs a part of an own array into the own scratch memory, `at` bytes from its start."""
        to = self.shown + at
        for part in pieces(source, first, nbytes):
            self._copy(Op.PUT, self.pe.me, to, part._replace(offset=self.pe.heap.base + part.offset))
            to += part.block * part.count

    def fetch(self, pe: int, offset: int, target: Place, first: int, nbytes: int) -> None:
        """Unpacks bytes from the heap of a PE into a part of an own array."""
        for part in pieces(target, first, nbytes):
            self._copy(Op.GET, pe, offset, part._replace(offset=self.pe.heap.base + part.offset))
            offset += part.block * part.count

    def fetch_private(self, pe: int, offset: int, address: int, nbytes: int) -> None:
        """Copies bytes from the heap of a PE to private memory."""
        self._copy(Op.GET, pe, offset, Place(address, nbytes, 0, 1))

    def put(self, pe: int, offset: int, address: int, nbytes: int) -> None:
        """Copies private bytes into the heap of a PE."""
        self._copy(Op.PUT, pe, offset, Place(address, nbytes, 0, 1))

    def _copy(self, op: Op, pe: int, there: int, here: Place) -> None:
        """Between packed bytes in the heap of a PE and a place whose offset is an address."""
        flags = NBI if op is Op.GET else 0
        ends = (here.offset, there) if op is Op.GET else (there, here.offset)
        if here.count == 1:
            if here.block:
                self._add(op, flags | self._streaming, 0, pe, *ends, here.block)
            return
        strided = Op.GET_STRIDED if op is Op.GET else Op.PUT_STRIDED
        self._add(strided, flags, 0, pe, *ends, here.count, here.block, 0, strides(here.block, here.stride))

    def meet(self) -> None:
        """Waits for all members; what they showed before can be fetched, and the other half is free after."""
        self._add(Op.BARRIER, 0, self.members.slot, self.members.pes[0], 0, 0, len(self.members.pes), self._check)

    def turn(self) -> None:
        """Goes on in the other half: exactly one barrier lies between two turns."""
        self._half ^= 1

    def quiet(self) -> None:
        """What was fetched is there."""
        self._add(Op.QUIET)

    def reduce(self, element: Element, fold: Fold, address: int, n: int, terms: Sequence[Term]) -> None:
        """Folds n elements of each term, in order, into private memory or an own array."""
        held: npt.NDArray[np.void] = np.array([(term.pe, term.offset) for term in terms], TERM)
        self.keep.append(held)
        self._add(Op.REDUCE, fold, element, 0, address, 0, n, len(terms), 0, address_of(held))

    def _add(self, *fields: int) -> None:
        self._rows.append(fields + (0,) * (len(RECORD.names or ()) - len(fields)))

    def records(self) -> Records:
        """What was written."""
        made: Records = np.array(self._rows, RECORD)
        return made
