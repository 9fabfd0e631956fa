"""What was done to bytes so far: all accesses, and what lies there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from ...fabric.events import Span
from .accesses import Made

PAGE = 64
PAGES_MAX = 64  # a longer access is looked at by all of its space
WORD = 8


class History:
    """The accesses of an execution, by the bytes that they touch.

    Of equal steps of one task and line the last stands for all: it comes behind them, so what is ordered behind it is
    ordered behind them, and what came between was compared with those before.
    """

    def __init__(self, page: int = PAGE) -> None:
        self._pages: dict[tuple[Hashable, int], dict[Hashable, Made]] = {}
        self._number = 0
        self._page = page

    def _pages_of(self, at: Span) -> Iterator[tuple[Hashable, int]]:
        first, end = at.lo // self._page, -(-at.hi // self._page)
        yield from ((at.space, page) for page in ([-1] if end - first > PAGES_MAX else range(first, end)))

    def near(self, made: Made) -> list[Made]:
        """Earlier accesses that share bytes with one, in order."""
        at, found = made.at, dict[int, Made]()
        pages = list(self._pages_of(at))
        if pages and pages[0][1] == -1:
            pages = [page for page in self._pages if page[0] == at.space]
        else:
            pages.append((at.space, -1))
        for page in pages:
            for other in self._pages.get(page, {}).values():
                if other.at.meets(at):
                    found[id(other)] = other
        return list(found.values())

    def add(self, made: Made) -> None:
        """Another access."""
        same: Hashable = (made.task, made.where, made.kind, made.at, made.what)
        if made.over not in ("step", "store") or made.id is not None:
            self._number += 1
            same = self._number
        for page in self._pages_of(made.at):
            self._pages.setdefault(page, {})[same] = made

    def __len__(self) -> int:
        return sum(map(len, self._pages.values()))

    def forget(self, over: Callable[[Made], bool]) -> list[Made]:
        """Drops the accesses that are over for everybody; those that are left."""
        known: dict[int, bool] = {}
        left: dict[int, Made] = {}
        for page, accesses in list(self._pages.items()):
            for same, made in list(accesses.items()):
                if id(made) not in known:
                    known[id(made)] = over(made)
                if known[id(made)]:
                    del accesses[same]
                else:
                    left[id(made)] = made
            if not accesses:
                del self._pages[page]
        return list(left.values())


class Landings:
    """Which operations made the bytes that lie in memory, word by word."""

    def __init__(self) -> None:
        self._words: dict[tuple[Hashable, int], list[tuple[Span, Made]]] = {}

    @staticmethod
    def _words_of(at: Span) -> Iterator[tuple[Hashable, int]]:
        return ((at.space, word) for word in range(at.lo // WORD, -(-at.hi // WORD)))

    def land(self, at: Span, effect: Made, replaces: bool) -> None:
        """An operation has written bytes; replaces: what lay there has no part in them."""
        for word in self._words_of(at):
            there = self._words.setdefault(word, [])
            if replaces:
                there[:] = [one for one in there if not one[0].within(at)]
            there.append((at, effect))

    def store(self, at: Span) -> None:
        """A task has written bytes by itself."""
        for word in self._words_of(at) if at.hi - at.lo <= PAGE * PAGES_MAX else self._all(at):
            if there := self._words.get(word):
                there[:] = [one for one in there if not one[0].within(at)]

    def _all(self, at: Span) -> list[tuple[Hashable, int]]:
        return [word for word in self._words if word[0] == at.space]

    def made(self) -> Iterator[Made]:
        """All that have a part in anything."""
        return (effect for there in self._words.values() for _, effect in there)

    def at(self, at: Span) -> list[Made]:
        """The operations that have a part in what lies there."""
        found: dict[int, Made] = {}
        for word in self._words_of(at):
            for span, effect in self._words.get(word, ()):
                if span.meets(at):
                    found[id(effect)] = effect
        return list(found.values())
