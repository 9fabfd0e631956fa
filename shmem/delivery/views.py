"""What readers see of their own memory where placed and visible part (`reader="lazy"`).

Each PE has a view of its heap, which its plain loads read. What others place there reaches the view piece by piece, by
an event of its own (`Act.SHOW`), pieces of the same bytes in the order placed: a load never goes back behind an earlier
one. The PE's own stores are in its view at once. An acquire is possible once all that was placed is seen: since only
the PE itself can tell, that is the same as an acquire that shows the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .requests import Act, Event, Place

if TYPE_CHECKING:
    from .memory import Memory

_SHOWN = (Act.PLACE, Act.AGAIN, Act.WORD, Act.LAND)  # events that place something


def shows(event: Event) -> Event:
    """The event that shows what an event has placed."""
    return Event(event.key, Act.SHOW, event.unit * len(_SHOWN) + _SHOWN.index(event.act))


def placing(event: Event) -> Event:
    """The event that has placed what an event shows."""
    unit, which = divmod(event.unit, len(_SHOWN))
    return Event(event.key, _SHOWN[which], unit)


@dataclass(frozen=True, slots=True)
class Piece:
    """What was placed and is not seen yet. `event` will show it."""

    event: Event
    at: Place
    data: bytes


class Views:
    """The views of all PEs."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.unseen: dict[int, list[Piece]] = {}  # by PE, in the order placed
        self.came: dict[int, list[tuple[Event, Place]]] = {}  # all that ever came: the events that show it

    def read(self, place: Place) -> bytes:
        """The bytes that a PE sees of its own memory."""
        view = Place(("view", place.space), place.lo, place.hi)
        return self.memory.read(view if view.space in self.memory.spaces else place)

    def counts(self, place: Place) -> bytes:
        """How many pieces of each byte are not seen yet."""
        data = bytearray(place.hi - place.lo)
        for piece in self.unseen.get(place.space, ()):  # type: ignore[call-overload]
            for at in range(max(piece.at.lo, place.lo), min(piece.at.hi, place.hi)):
                data[at - place.lo] += 1
        return bytes(data)

    def _view(self, place: Place) -> Place:
        view = Place(("view", place.space), place.lo, place.hi)
        if view.space not in self.memory.spaces:
            self.memory.twin(place.space, view.space)
        return view

    def come(self, event: Event, place: Place, data: bytes) -> None:
        """An event is about to place bytes in the heap of a PE."""
        if data:
            self._view(place)
            piece = Piece(shows(event), place, data)
            self.unseen.setdefault(place.space, []).append(piece)  # type: ignore[arg-type]
            self.came.setdefault(place.space, []).append((piece.event, place))  # type: ignore[arg-type]

    def own(self, place: Place, data: bytes) -> None:
        """A PE's own store is about to be placed: it is not seen to be undone by what was placed before it."""
        if ("view", place.space) in self.memory.spaces:
            self.memory.write(self._view(place), data)
            pieces = self.unseen.get(place.space, [])  # type: ignore[call-overload]
            pieces[:] = [_patched(piece, place, data) for piece in pieces]

    def enabled(self) -> list[Event]:
        """What may be shown next."""
        return [
            piece.event
            for pieces in self.unseen.values()
            for i, piece in enumerate(pieces)
            if not any(overlap(piece.at, other.at) for other in pieces[:i])
        ]

    def find(self, event: Event) -> Piece | None:
        """What an event is to show; None if that is seen already."""
        return next((piece for pieces in self.unseen.values() for piece in pieces if piece.event == event), None)

    def show(self, piece: Piece) -> None:
        """Makes a piece visible."""
        self.memory.write(self._view(piece.at), piece.data)
        self.unseen[piece.at.space].remove(piece)  # type: ignore[index]

    def before(self, event: Event) -> list[Event]:
        """The events that showed earlier pieces of the same bytes as this one."""
        for came in self.came.values():
            for i, (each, at) in enumerate(came):
                if each == event:
                    return [earlier for earlier, place in came[:i] if overlap(at, place)]
        return []

    def copy(self, memory: Memory) -> Views:
        """The same state, apart, over a copy of the memory."""
        other = Views(memory)
        other.unseen = {pe: list(pieces) for pe, pieces in self.unseen.items()}
        other.came = {pe: list(came) for pe, came in self.came.items()}
        return other

    def digest(self) -> tuple[object, ...]:
        """All that can still matter besides the memory."""
        return tuple(sorted((pe, tuple(pieces)) for pe, pieces in self.unseen.items() if pieces))


def overlap(one: Place, other: Place) -> bool:
    """Whether two places of one space have bytes in common."""
    return one.lo < other.hi and other.lo < one.hi


def _patched(piece: Piece, place: Place, data: bytes) -> Piece:
    """A piece that no longer undoes a store of the PE itself."""
    lo, hi = max(piece.at.lo, place.lo), min(piece.at.hi, place.hi)
    if lo >= hi:
        return piece
    merged = bytearray(piece.data)
    merged[lo - piece.at.lo : hi - piece.at.lo] = data[lo - place.lo : hi - place.lo]
    return replace(piece, data=bytes(merged))
