"""What queue pairs ask of the adapter under them: the interface between `shmem.nic` and a fabric."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from ..delivery.profiles import Profile
from ..fabric.interface import Status
from .work import Opcode

FOR_EVER = 7  # as `rnr_retry`: a request waits for a receive as long as it takes


@dataclass(frozen=True)
class Target:
    """Bytes in a segment of another PE, as a work request names them."""

    key: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Wqe:
    """A work request as it stands in the ring: addresses instead of arrays."""

    opcode: Opcode
    blocks: int
    nbytes: int
    pieces: tuple[tuple[int, int], ...]  # local memory: address and bytes of each
    data: bytes | None  # inline
    remote: Target | None
    signaled: bool
    fence: bool
    order: str
    immediate: int | None = None
    notify: Target | None = None
    operand: int = 0  # of an atomic, and the value of a notify
    compare: int = 0


@dataclass(frozen=True)
class Told:
    """One completion."""

    pair: Hashable  # the queue pair of this PE that it is of
    number: int  # of the work request, or of the receive
    received: bool
    status: str
    nbytes: int
    immediate: int | None
    raised: bool = False  # a quiet of the default context has raised for it


@dataclass(frozen=True)
class Pair:
    """What a queue pair is made with."""

    pe: int
    index: int
    send_cq: Hashable
    recv_cq: Hashable
    depth: int
    rnr_retry: int


class Engine(Protocol):
    """The adapter of one PE."""

    profile: Profile
    rings: bool  # it has the ring of a send queue itself, and takes many requests at once

    def step(self, n: int) -> int:
        """Makes up to n events happen; how many there were. Raises StateError where they are not the program's."""

    def register(self, array: npt.NDArray[Any], rights: str) -> tuple[int, int]:
        """Makes memory known, and keeps the array alive. Returns its key, and how many registrations of the same bytes
        came before."""

    def deregister(self, key: int) -> None:
        """Requests that come from now on find no segment."""

    def imported(self, pe: int, address: int, nbytes: int, number: int) -> int | None:
        """Waits for a PE's registration of a number of the memory that lies at this address here; its key, or None for
        private memory."""

    def open_cq(self, depth: int) -> Hashable:
        """A completion queue."""

    def open_pair(self, pair: Pair) -> Hashable:
        """A queue pair, ready. Raises QueueStateError if there is one to that PE with that index."""

    def close_pair(self, pair: Hashable) -> bool:
        """Takes it away; False if requests on it are unfinished."""

    def positions(self, pair: Hashable) -> tuple[int, int]:
        """Producer and consumer position, in blocks."""

    def post(self, pair: Hashable, wqe: Wqe) -> int:
        """Posts a request. Returns its number; where it has the ring, -1 if that has no room (else there is)."""

    def local_fault(self, address: int, nbytes: int) -> int:
        """What is wrong with local memory, as an adapter has it; 0 for nothing. Only where it has the ring."""

    def post_many(self, pair: Hashable, heads: npt.NDArray[Any], pieces: npt.NDArray[Any], each: bool) -> int:
        """Posts requests of one piece each, as `rings.HEAD` and `rings.PIECE` have them, and rings for all or for each.
        Returns how many there was room for. Only where it has the ring."""

    def blocks(self, pair: Hashable) -> npt.NDArray[Any]:
        """The ring of a send queue, a copy. Only where it has it."""

    def ring(self, pair: Hashable) -> None:
        """A doorbell for all that was posted."""

    def post_receive(self, pair: Hashable, address: int, nbytes: int) -> int:
        """Posts a receive buffer; returns its number."""

    def poll(self, cq: Hashable, most: int) -> list[Told]:
        """Takes completions, up to `most`. Raises CompletionQueueOverrun."""

    def wait(self, cq: Hashable, n: int, timeout_s: float) -> tuple[Status, list[Told]]:
        """Sleeps until there are n, and takes them. Raises CompletionQueueOverrun."""

    def outstanding(self, cq: Hashable) -> tuple[int, list[tuple[Hashable, int, bool]]]:
        """How many completions wait to be taken; and the requests that are not over, by queue pair and number, each
        with whether a doorbell was rung for it."""

    def entries(self, cq: Hashable) -> tuple[Sequence[Told], int]:
        """The entries in the ring, taken or not, the oldest first; and how many were ever written."""

    def state(self, pair: Hashable) -> str:
        """ "ready", "suspended" or "error"."""

    def drain(self, pair: Hashable, timeout_s: float) -> tuple[Status, list[Told]]:
        """Sleeps until nothing of a queue pair is left to do, all of it visible; takes and returns its completions."""

    def reset(self, pair: Hashable, timeout_s: float) -> Status:
        """Empties a queue pair, once what is in flight has ended."""
