"""Which accesses may not go unordered, as tables.

The rules are those of OpenSHMEM 1.6. Where its text and what programs rely on part, an entry is DISPUTED: `strict`
takes it for a race, `lenient` does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ...fabric.events import ADAPTER, Kind


class Verdict(Enum):
    """What two accesses to the same bytes are that nothing orders."""

    OK = "ok"
    DISPUTED = "disputed"
    RACE = "race"


MODES = ("lenient", "strict")
_OK, _ASK, _RACE = Verdict.OK, Verdict.DISPUTED, Verdict.RACE
_LOAD, _STORE, _GET, _PUT, _FETCH, _UPDATE = Kind.LOAD, Kind.STORE, Kind.GET, Kind.PUT, Kind.FETCH, Kind.UPDATE
_WAIT, _POLL, _LINE = Kind.WAIT, Kind.POLL_LINE, Kind.PUT_LINE

COLUMNS = (_LOAD, _STORE, _GET, _PUT, _FETCH, _UPDATE, _WAIT, _POLL, _LINE)
# Two accesses to symmetric memory. An atomic fetch beside a plain read changes nothing, but 1.6 calls every mix of
# atomics and others undefined.
TARGET: Mapping[Kind, tuple[Verdict, ...]] = {
    #          load   store  get    put    fetch  update wait   poll   line
    _LOAD: (_OK, _RACE, _OK, _RACE, _ASK, _RACE, _OK, _OK, _RACE),
    _STORE: (_RACE, _RACE, _RACE, _RACE, _RACE, _RACE, _RACE, _RACE, _RACE),
    _GET: (_OK, _RACE, _OK, _RACE, _ASK, _RACE, _OK, _OK, _RACE),
    _PUT: (_RACE, _RACE, _RACE, _RACE, _RACE, _RACE, _ASK, _RACE, _RACE),
    _FETCH: (_ASK, _RACE, _ASK, _RACE, _OK, _OK, _OK, _OK, _RACE),
    _UPDATE: (_RACE, _RACE, _RACE, _RACE, _OK, _OK, _OK, _RACE, _RACE),
    # A word that `p` or `put` changes satisfies a wait here; 1.6 promises that of atomics and signals.
    _WAIT: (_OK, _RACE, _OK, _ASK, _OK, _OK, _OK, _OK, _RACE),
    _POLL: (_OK, _RACE, _OK, _RACE, _OK, _RACE, _OK, _OK, _OK),
    _LINE: (_RACE, _RACE, _RACE, _RACE, _RACE, _RACE, _RACE, _OK, _OK),
}

# The buffers of the own PE, of an operation that is not complete: what comes second to what is still read (a source)
# or still written (a result).
ORIGIN: Mapping[str, Mapping[str, Verdict]] = {
    "source": {"load": _OK, "store": _RACE, "source": _OK, "result": _RACE},
    "result": {"load": _RACE, "store": _RACE, "source": _RACE, "result": _RACE},
}

ATOMICS = (_FETCH, _UPDATE)


def target_verdict(one: Kind, other: Kind) -> Verdict:
    """Of two accesses to symmetric memory, in either order."""
    return TARGET[one][COLUMNS.index(other)]


def domains_verdict(one: str, other: str) -> Verdict:
    """Of two atomics of different domains. Those of contexts of all PEs go through the adapters where there are queue
    pairs, but not everywhere."""
    return Verdict.DISPUTED if {one, other} == {ADAPTER, "TEAM_WORLD"} else Verdict.RACE


def origin_verdict(first: str, second: str) -> Verdict:
    """Of two accesses to a buffer, the first of which may be "source" or "result" of a pending operation."""
    if first in ORIGIN:
        return ORIGIN[first][second]
    return _OK if first == "load" and second in ("load", "source") else _RACE
