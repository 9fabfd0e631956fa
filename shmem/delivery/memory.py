"""The bytes that are delivered to: a heap for each PE, and private memory of requests."""

from __future__ import annotations

from mmap import mmap

from .requests import Place, Space


class Memory:
    """The bytes of all spaces: a PE's heap under its number, private ones under what they were made with."""

    def __init__(self) -> None:
        self.spaces: dict[Space, bytearray | mmap] = {}
        self._top: dict[Space, int] = {}  # nothing was changed beyond

    def read(self, place: Place) -> bytes:
        """The bytes at a place."""
        space, lo, hi = place
        return bytes(self.spaces[space][lo:hi])

    def write(self, place: Place, data: bytes) -> None:
        """Changes the bytes at a place."""
        self.spaces[place.space][place.lo : place.hi] = data
        if place.hi > self._top.get(place.space, 0):
            self._top[place.space] = place.hi

    def leave(self, pe: int, number: int) -> Space:
        """The heap of a PE is not that any more: its bytes are a space of their own, whose name it returns, and what
        the PE saw of them is forgotten."""
        name = "past", number
        self.spaces[name], self._top[name] = self.spaces.pop(pe), self._top.pop(pe, 0)
        self.spaces.pop(("view", pe), None)
        return name

    def twin(self, space: Space, name: Space) -> None:
        """A new space with the bytes of another."""
        top, size = self._top.get(space, 0), len(self.spaces[space])
        # Large heaps are zero pages that nobody has touched.
        self.spaces[name] = bytearray(size) if isinstance(self.spaces[space], bytearray) else mmap(-1, size)
        self.write(Place(name, 0, top), bytes(self.spaces[space][:top]))

    def digest(self) -> tuple[object, ...]:
        """All that was ever changed."""
        return tuple((space, bytes(data[: self._top.get(space, 0)])) for space, data in self.spaces.items())

    def copy(self) -> Memory:
        """The same bytes, apart."""
        other = Memory()
        other._top = dict(self._top)
        other.spaces = {space: bytearray(data[:]) for space, data in self.spaces.items()}
        return other
