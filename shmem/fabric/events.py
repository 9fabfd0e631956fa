"""What a run tells the race detector: what its tasks did, in an order in which it may have happened.

Data only: whoever runs programs can write such a stream. Tasks are numbers of PEs, or (PE, worker); places are bytes of
the heap of a PE or of private memory; `where` is 'file.py:12' of the program. An event stands behind all that it can
depend on: a wait behind what it has seen, the end of a barrier behind all arrivals. Units of one transfer may land at
any time after it was posted, or never.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, IntEnum
from typing import NamedTuple

Task = int | tuple[int, int]


class Span(NamedTuple):
    """Bytes: of the heap of a PE (its number), or of private memory (anything else)."""

    space: Hashable
    lo: int
    hi: int

    def meets(self, other: Span) -> bool:
        """Whether they share a byte."""
        return self.lo < other.hi and other.lo < self.hi and self.space == other.space

    def within(self, other: Span) -> bool:
        """Whether all of it lies in the other."""
        return other.lo <= self.lo and self.hi <= other.hi and self.space == other.space


class Kind(Enum):
    """Kinds of accesses, in the words of reports."""

    LOAD = "load"
    STORE = "store"
    GET = "get"
    PUT = "put"
    FETCH = "atomic fetch"  # reads and changes nothing
    UPDATE = "atomic"
    WAIT = "wait"  # or a test
    POLL_LINE = "poll_lines"
    PUT_LINE = "put_lines"


class Level(IntEnum):
    """What a completion completes. An access of a transfer is over at its own level, or at VISIBLE."""

    SOURCE = 0  # sources were read
    RESULT = 1  # results are in place
    VISIBLE = 2  # all of it, for everybody


NO_CONTEXT = -1  # a fence of it orders own stores only; below are queue pairs
ADAPTER = "adapter"  # the domain of the atomics of queue pairs


class After(NamedTuple):
    """What the network promises of two operations of one PE: the later one comes to a part of its own ("source": it
    reads that; "at": it takes effect; "result": it leaves that) after an earlier one has had its effect. answered: the
    results of that one are in place then, too."""

    id: Hashable
    part: str
    answered: bool = False


class Operation(NamedTuple):
    """A transfer or atomic is posted, on a context or (`ctx` below NO_CONTEXT) on a queue pair. `late`: its source and
    result are the operation's until it is complete; else its source was read at once. `answered`: the program goes on
    when it is over."""

    task: Task
    where: str
    id: Hashable
    kind: Kind
    what: str  # put, get, atomic add, signal ...
    ctx: int
    target: int  # PE
    at: Span
    source: Span | None = None
    result: Span | None = None
    late: bool = False
    answered: bool = False
    type: str = ""  # of an atomic; "": not known
    domain: str = ""
    carries: Hashable = None  # of a signal: the operation (or those of that group) whose arrival it tells
    group: Hashable = None
    rest: tuple[Span, ...] = ()  # of source or result, where that lies in several places
    after: tuple[After, ...] = ()
    stores: bool = False  # the own stores before it are seen before its effect


class Access(NamedTuple):
    """A task reads or writes memory by itself."""

    task: Task
    where: str
    kind: Kind
    at: Span
    what: str = ""  # where it is no load or store of the program's own
    type: str = ""


class Landed(NamedTuple):
    """Bytes of an operation are there: a wait may see them."""

    id: Hashable
    at: Span
    replaces: bool = True  # what was there has no part in the value: it is no atomic that reads its word


class Answered(NamedTuple):
    """A fetching atomic has come back to the task that waits for it."""

    task: Task
    id: Hashable


class Waited(NamedTuple):
    """A wait is over, a test was true, or the own word was fetched: what made its value has happened before."""

    task: Task
    where: str
    at: Span
    kind: Kind = Kind.WAIT
    type: str = ""


class LinesTaken(NamedTuple):
    """Lines were accepted."""

    task: Task
    at: Span


class Fence(NamedTuple):
    """A fence on a context. `stores`: it covers own stores as well."""

    task: Task
    ctx: int
    stores: bool = True


class Quiet(NamedTuple):
    """A completion on a context, of what went to one PE (None: to all)."""

    task: Task
    ctx: int
    target: int | None
    level: Level


class Rung(NamedTuple):
    """A doorbell for operations on queue pairs."""

    task: Task
    ids: tuple[Hashable, ...]


class Ended(NamedTuple):
    """Single operations are complete at a level: SOURCE, or VISIBLE. told: a completion says so, which whoever posted
    them comes before; else the task has waited for what it knows to be posted. failed: they have had no effect."""

    task: Task
    ids: tuple[Hashable, ...]
    level: Level
    told: bool = False
    failed: bool = False


class Received(NamedTuple):
    """The completion of a receive was taken: the effects of the operation that took it, and of those that it covers,
    are there."""

    task: Task
    id: Hashable
    covers: tuple[Hashable, ...] = ()


class Release(NamedTuple):
    """What the task did comes before whoever acquires the token. `meeting`: it arrives at a barrier, which all see its
    own stores behind; a fence right before it is part of that, and orders nothing else."""

    task: Task
    token: Hashable
    meeting: bool = False


class Acquire(NamedTuple):
    """The task goes on because of tokens."""

    task: Task
    tokens: tuple[Hashable, ...]


Event = (
    Operation | Access | Landed | Answered | Waited | LinesTaken | Fence | Quiet | Rung | Ended | Received | Release
    | Acquire
)  # fmt: skip


def pe_of(task: Task) -> int:
    """The PE that a task belongs to."""
    return task if isinstance(task, int) else task[0]
