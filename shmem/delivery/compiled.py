"""A profile's order tables as two arrays of numbers, which an engine can look things up in without knowing a rule.

An entry is up to eight rules (stage of the first, stage of the second), a byte each, the first in the lowest one:
1 + 5 * stage + stage; 0 ends them. `rules[first kind][second kind][column]` is for two requests of a PE to one target,
where a column is what else matters of the two as bits (`Column`); `apart[first kind][second kind]` is for different
targets. The entries are what `tables.Rules` says of such requests.
"""

from __future__ import annotations

from array import array
from enum import IntFlag
from functools import lru_cache

from .profiles import Profile
from .requests import Kind, Order, Place, Request, Stage
from .tables import Rule, Rules


class Column(IntFlag):
    """What a rule may depend on besides the kinds of two requests to one target."""

    QUEUE = 1  # they are on one queue
    STRIPE = 2  # and on one stripe of it
    OVERLAP = 4  # they have bytes in common
    OWN = 8  # the target is the PE itself
    FENCED = 16  # the context of the first has had a fence since
    SPREAD = 32  # which reaches other queues, and the second is on one that it reaches
    RECEIVE = 64  # the first needs a receive
    FENCE = 128  # the second has the flag `fence`
    STRONG = 256  # the second is strong, and the first relax or strong
    PUT = 512  # the second carries the word of the put that both are pieces of


COLUMNS = 1024
# Plain numbers: a table has thousands of entries.
QUEUE, STRIPE, OVERLAP, OWN, FENCED, SPREAD, RECEIVE, FENCE, STRONG, PUT = map(int, Column)
OF_STORES = OVERLAP | OWN | FENCED
OF_OTHERS = COLUMNS - 1 & ~(OVERLAP | OWN)


def packed(rules: list[Rule]) -> int:
    """Rules as one entry."""
    return sum(1 + len(Stage) * stage + mine << 8 * i for i, (stage, mine) in enumerate(rules))


def unpacked(entry: int) -> list[Rule]:
    """The rules of an entry."""
    found = []
    while entry:
        stage, mine = divmod((entry & 0xFF) - 1, len(Stage))
        found.append((Stage(stage), Stage(mine)))
        entry >>= 8
    return found


def column(first: Request, second: Request) -> Column:
    """The column of two requests to one target."""
    bits = {
        Column.QUEUE: first.queue == second.queue,
        Column.STRIPE: first.stripe == second.stripe,
        Column.OVERLAP: first.at.lo < second.at.hi and second.at.lo < first.at.hi,
        Column.OWN: second.target == second.pe,
        Column.FENCED: first.fenced,
        Column.SPREAD: first.spread and second.default,
        Column.RECEIVE: first.needs_receive,
        Column.FENCE: second.fence,
        Column.STRONG: second.order is Order.STRONG and first.order is not Order.NONE,
        Column.PUT: second.word is not None and second.put is not None and first.put == second.put,
    }
    return Column(sum(bit for bit, holds in bits.items() if holds))


def _set(one: Request, other: Request, bits: int) -> None:
    """Makes two requests those of a column; the second is on the default context."""
    target = 0 if bits & OWN else 1
    one.target = other.target = target
    one.at, other.at = Place(target, 0, 8), Place(target, *((0, 8) if bits & OVERLAP else (8, 16)))
    one.queue, other.stripe = other.queue if bits & QUEUE else "another", 0 if bits & STRIPE else 1
    one.needs_receive, other.fence = bits & RECEIVE != 0, bits & FENCE != 0
    one.fenced, one.spread = bits & FENCED != 0, bits & SPREAD != 0
    strong = Order.RELAX, Order.STRONG
    one.order, other.order = strong if bits & STRONG else (Order.NONE, Order.NONE)
    other.put, other.word = (one.key, one.at) if bits & PUT else (None, None)


def _entries(rules: Rules, first: Kind, second: Kind) -> list[int]:
    """The columns of two kinds. Of an own store others matter than between requests that leave the PE."""
    place = Place(1, 0, 8)
    one = Request((0, 0), first, "another", 1, place, (), put=(0, 0))
    other = Request((0, 1), second, ("ctx", 0, 0), 1, place, ())
    matters = OF_STORES if Kind.STORE in (first, second) else OF_OTHERS
    found: dict[int, int] = {}
    for bits in range(COLUMNS):
        if (seen := bits & matters) not in found:
            _set(one, other, seen)
            found[seen] = packed(rules.between(one, other))
    return [found[bits & matters] for bits in range(COLUMNS)]


@lru_cache(maxsize=64)
def compiled(profile: Profile) -> tuple[array[int], array[int]]:
    """The arrays `rules` and `apart` of a profile, both of 64-bit numbers. They are not to be changed."""
    rules, same, apart = Rules(profile), array("Q"), array("Q")
    for first in Kind:
        for second in Kind:
            same.extend(_entries(rules, first, second))
            one = Request((0, 0), first, "queue", 1, Place(1, 0, 8), ())
            apart.append(packed(rules.between(one, Request((0, 1), second, "queue", 2, Place(2, 0, 8), ()))))
    return same, apart
