"""Completion queues: where the ends of work requests and of receives are told."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, QueueStateError
from ..fabric.interface import Status
from ..plain import whole_number
from ..runtime import Local, current
from ..waiting import until
from .adapter import check_life, engine_of
from .engine import Told
from .rings import CQE, write_cqe
from .work import Opcode

if TYPE_CHECKING:
    from .queue_pair import QueuePair

DEPTH_MAX = 1 << 22


@dataclass(frozen=True)
class Completion:
    """The end of a work request or a receive.

    status: "ok", "rem_access", "flush", ... (verbs: wc_status). wr_id: as `post` or `post_recv` returned it. qp: the
    queue pair. opcode: what it was; nic.RECEIVE for a receive. nbytes, imm: of what came, only where status is "ok".
    """

    status: str
    wr_id: int
    qp: QueuePair
    opcode: Opcode
    nbytes: int
    imm: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it went well."""
        return self.status == "ok"


class CompletionQueue(Local):
    """A ring of `depth` completions, of any number of queue pairs of this PE.

    There must be room for all requests and receives outstanding on its queue pairs: without it the queue overruns, and
    every later call raises CompletionQueueOverrun. Completions of the requests of one queue pair come in the order
    posted, those of its receives as well where the profile has them cover what was sent before (`receive_covers`);
    those of different ones in any order. Raises ArgumentError, StateError on a fabric without queue pairs.
    """

    def __init__(self, depth: int = 256) -> None:
        self._pe = current()
        self._engine = engine_of(self._pe)
        self.depth = whole_number(depth, "depth", self._pe.me)
        if not 1 <= self.depth <= DEPTH_MAX:
            raise ArgumentError(f"depth={depth}: 1 to {DEPTH_MAX} entries are possible", pe=self._pe.me)
        self.name: Hashable = self._engine.open_cq(self.depth)
        self._pairs: dict[Hashable, QueuePair] = {}  # all that it ever served
        self._users: set[Hashable] = set()
        self._closed = False

    def poll(self, max: int = 16) -> list[Completion]:
        """Takes the completions that are there, up to `max`, and gives back the ring space of their requests and of
        all before them. Never blocks.

        On return: an "ok" of a WRITE tells what the profile's completions tell, of a READ or atomic that its result is
        in local memory; local memory of these requests may be reused. Raises CompletionQueueOverrun.
        """
        most = whole_number(max, "max", self._pe.me, least=0)
        self.check()
        return [self._completion(each) for each in self._engine.poll(self.name, most)]

    def wait(self, n: int = 1, *, timeout: float | None = None) -> list[Completion]:
        """Waits for n completions and takes them; as `poll` otherwise. timeout: seconds, default SHMEMU_TIMEOUT_S.

        Raises ShmemTimeout, CompletionQueueOverrun, ArgumentError for more than the queue holds.
        """
        wanted = whole_number(n, "n", self._pe.me)
        if not 0 <= wanted <= self.depth:
            raise ArgumentError(f"n={n}: the completion queue holds {self.depth}", pe=self._pe.me)
        self.check()
        told: list[Told] = []

        def step(limit_s: float) -> Status:
            status, found = self._engine.wait(self.name, wanted, limit_s)
            told.extend(found)
            return status

        until(self._pe, step, lambda: f"{wanted} completions", self._outstanding, timeout)
        return [self._completion(each) for each in told]

    @property
    def ring(self) -> npt.NDArray[Any]:
        """The ring as it is now: a structured array [depth] of 64-byte entries (`nic.CQE`), a copy. Raises as `poll`,
        but for an overrun."""
        self.check()
        entries, written = self._engine.entries(self.name)
        made = np.zeros(self.depth, CQE)
        for i, told in enumerate(entries):
            pair = self._pairs[told.pair]
            write_cqe(made, written - len(entries) + i, told, pair.opcode(told), pair.entry(told))
        return made

    def close(self) -> None:
        """Ends it. Raises QueueStateError while queue pairs use it."""
        if self._users:
            text = f"{len(self._users)} queue pairs use the completion queue: close them first"
            raise QueueStateError(text, pe=self._pe.me)
        self._closed = True

    # ---- for queue pairs ----

    def serve(self, pair: QueuePair) -> None:
        """Takes completions of a queue pair. Raises QueueStateError once closed."""
        self.check()
        self._pairs[pair.name] = pair
        self._users.add(pair.name)

    def leave(self, pair: QueuePair) -> None:
        """A queue pair is closed."""
        self._users.discard(pair.name)

    def check(self) -> None:
        """Raises QueueStateError once it is closed, StateError once shmem was finalised."""
        check_life(self._pe)
        if self._closed:
            raise QueueStateError("the completion queue is closed", pe=self._pe.me)

    def _outstanding(self) -> str:
        """How many completions there are, and what else may bring some."""
        came, coming = self._engine.outstanding(self.name)
        found = [self._pairs[name].described(number, rung) for name, number, rung in coming]
        found += [each.described_receives() for each in self._pairs.values() if each.recv_cq is self and each.receives]
        return f"{came}; outstanding: {'; '.join(found) or 'nothing'}"

    def _completion(self, told: Told) -> Completion:
        pair = self._pairs[told.pair]
        pair.note(told)
        return Completion(told.status, told.number, pair, pair.opcode(told), told.nbytes, told.immediate)
