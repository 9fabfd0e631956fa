"""The adapter of a PE under the public API: records become requests of the delivery engine in C.

Memory, waiting and barriers are those of `direct`. What goes to another PE is posted to an engine of this process,
which moves it by the profile's tables: by a seed, or without one in the friendliest order there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...delivery.engine import native
from ...delivery.profiles import Profile
from ...delivery.requests import Kind, Stage
from ...errors import ArgumentError, ShmemTimeout
from ...records import Conditions, Records
from ..direct import DirectFabric, DirectHeap, nanoseconds
from ..interface import CONTEXTS, Caps, Counter, Fabric, Level, Status
from .counts import counted
from .flight import described, of_pair

if TYPE_CHECKING:
    from .engine import NicEngine


def arena_bytes() -> int:
    """What a heap has behind it for the queues of an adapter."""
    from ..._native import _core

    return int(_core.lib.sm_arena_bytes())


PIECES = 8  # a request is placed in at most so many parts
SLICE_S = 0.1  # Python looks for signals in between
PROGRESS = ("inline", "thread", "manual")
_ALL = sum(1 << kind for kind in Kind)
_RESULTS = 1 << Kind.READ | 1 << Kind.ATOMIC


@dataclass(frozen=True)
class Delivery:
    """How an adapter moves what it is given. seed: None for the friendliest order."""

    profile: Profile
    seed: int | None = None
    progress: str = "inline"
    pieces: int = PIECES
    limit_s: float = 300.0  # how long a call waits for a request that nothing moves
    status_file: str | None = None  # of the launcher, which may ask for counts


def own_seed(seed: int, pe: int) -> int:
    """The seed of a PE's adapter in a job with a seed: 64 bits."""
    return int(np.random.SeedSequence([seed, pe]).generate_state(1, np.uint64)[0])


class NicFabric(DirectFabric):
    """Requests of an emulated adapter."""

    watched = False  # everything goes through the engine, to be seen

    def __init__(self, *job: Any, delivery: Delivery) -> None:
        super().__init__(*job)
        self.delivery, profile = delivery, delivery.profile
        if profile.reader == "lazy":
            text = f"profile {profile.name}: no lazy readers on nic: what is placed is visible"
            raise ArgumentError(text, pe=self.me)
        self.seeded = delivery.seed is not None
        self.caps = Caps(
            whole=min(profile.unit, 8), in_order=profile.requests in ("post", "program"), wakes=True,
            clock="monotonic", peer_stores=lambda pe: True,
        )  # fmt: skip
        self._held: dict[int, list[npt.NDArray[Any]]] = {}
        self._engine: NicEngine | None = None
        self._made, self._alive = native(profile, delivery.pieces, False)

    def attach(self, nbytes: int) -> DirectHeap:
        """As on `direct`, and an adapter over it; behind the heap lie its queues."""
        heap = super().attach(nbytes + arena_bytes())
        self.heap_bytes = nbytes
        profile, delivery = self.delivery.profile, self.delivery
        options = self.ffi.new(
            "sm_nic_options *",
            {
                "profile": self._made, "seed": own_seed(delivery.seed or 0, self.me),
                "stripe_bytes": profile.stripe_bytes,
                "limit_ns": nanoseconds(delivery.limit_s), "seeded": self.seeded,
                "progress": PROGRESS.index(delivery.progress), "stripes": profile.stripes,
                "flagged": profile.requests == "flag", "watched": self.watched,
                "counts": counted(self, delivery.status_file),
            },
        )  # fmt: skip
        self.adapter: Any = self.lib.sm_nic_open(self.pe, options)
        if self.adapter == self.ffi.NULL:
            raise MemoryError("no memory for the adapter of a PE")
        self._bases = [int(self.ffi.cast("uintptr_t", owner)) for owner in heap.owners]
        if self.lib.sm_nic_ready(self.adapter, [base + nbytes for base in self._bases]):
            raise MemoryError("no memory for the adapter of a PE")
        return heap

    # ---- queue pairs ----

    def nic(self) -> NicEngine:  # type: ignore[override]
        """The adapter of this PE."""
        if self._engine is None:
            from .engine import NicEngine

            self._engine = NicEngine(self)
        return self._engine

    def arena_of(self, pe: int) -> Any:
        """The tables of a PE's arena."""
        return self.ffi.cast("sm_arena *", self._bases[pe] + self.heap_bytes)

    def in_own_heap(self, address: int, nbytes: int) -> bool:
        """Whether memory lies in the heap of this PE."""
        return 0 <= address - self.heap.base <= self.heap_bytes - nbytes

    def in_heap(self, address: int, nbytes: int) -> bool:
        """Whether memory lies in the heap of some PE."""
        return any(0 <= address - base <= self.heap_bytes - nbytes for base in self._bases)

    def progress(self) -> None:
        """A step of the adapter."""
        self.lib.sm_nic_progress(self.adapter)

    @property
    def first_pair(self) -> int:
        """The number of the engine's first queue of a queue pair."""
        return CONTEXTS + 2

    def in_flight(self, pair: int) -> list[int]:
        """The requests of a queue pair that are not complete, by their wr_ids."""
        return of_pair(self, self.first_pair + pair)

    @property
    def friendly(self) -> bool:
        """Whether calls do by themselves what the adapter would do at once."""
        return not self.seeded and self.delivery.progress == "inline" and not self.watched

    def bind(self, on: bool, barrier_all: int = 0, sync_all: int = 0, one_host: bool = True) -> None:
        """The C fronts move bytes themselves: only where the adapter would do no other thing."""
        super().bind(on and self.friendly, barrier_all, sync_all, one_host)

    def learn(self, name: str, arguments: tuple[Any, Any, Any, Any], plan: Any) -> None:
        """As on `direct`, where its fronts are bound."""
        if self.friendly:
            super().learn(name, arguments, plan)

    # ---- posting and completion ----

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """Runs the records in order; what goes to other PEs is posted. Raises ShmemTimeout where a call has to wait for
        a request that nothing moves, CompletionError where a record is a quiet and a queue pair has failed."""
        status, done = super().submit(q, ops, start, timeout_s, reached)
        self.refuse(status)
        return (Status.INTERRUPTED if status is Status.FAILED else status), done

    def refuse(self, status: Status) -> None:
        """Nothing where another call has told of the failure meanwhile."""
        if status is Status.NO_MEMORY:
            raise MemoryError("no memory for the requests of an adapter")
        if status is Status.STUCK:
            self._stuck("a call that waits for its own request", self.delivery.limit_s)
        if status is Status.FAILED and (engine := self._engine) is not None:
            engine.settle_all(lambda: self._settle(engine, None, self.delivery.limit_s))

    def _stuck(self, what: str, limit_s: float) -> None:
        left = described(self)
        raise ShmemTimeout(
            f"PE {self.me} waited {limit_s:.1f} s for {what}; in flight: {left}",
            awaited=what, seen=None, in_flight=left, waited_s=limit_s, pe=self.me,
        )  # fmt: skip

    def hold(self, q: int, array: npt.NDArray[Any]) -> None:
        """The adapter reads or writes it late."""
        self._held.setdefault(q, []).append(array)

    def fence(self, q: int) -> None:
        """An order between requests; nothing is waited for."""
        self.lib.sm_nic_fence(self.adapter, q)
        super().fence(q)

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None, timeout_s: float | None = None) -> None:
        """Waits for what the level tells of. Raises ShmemTimeout where nothing moves it."""
        limit_s = self.delivery.limit_s if timeout_s is None else timeout_s
        stage = Stage.SOURCE if level is Level.SOURCE else Stage.ANSWERED
        kinds = _RESULTS if level is Level.RESULT else _ALL
        for target in [-1] if pes is None else sorted(set(pes)):
            self._complete(q, target, stage, kinds, limit_s)
        super().complete(q, level, pes, timeout_s)
        if level is Level.VISIBLE and q == 0 and self._engine is not None:
            self._settle(self._engine, pes, limit_s)
        if level is Level.VISIBLE and pes is None:
            self._held.pop(q, None)

    def _complete(self, q: int, target: int, stage: Stage, kinds: int, limit_s: float) -> None:
        left = limit_s
        while True:
            slice_ns = nanoseconds(min(SLICE_S, left))
            status = self.lib.sm_nic_complete(self.adapter, q, target, stage, kinds, slice_ns)
            if status == Status.OK:
                return
            if status == Status.NO_MEMORY:
                raise MemoryError("no memory for the requests of an adapter")
            left -= SLICE_S
            if left <= 0:
                self._stuck(f"completion of context {q}", limit_s)

    def _settle(self, engine: NicEngine, pes: Sequence[int] | None, limit_s: float) -> None:
        left = limit_s
        while engine.settle(pes, min(SLICE_S, left)) is not Status.OK:
            left -= SLICE_S
            if left <= 0:
                self._stuck("completion of its queue pairs", limit_s)

    def release(self, q: int) -> None:
        """Gives a queue back; what is on it is complete."""
        super().release(q)
        self._held.pop(q, None)

    # ---- looks that make progress ----

    def wait(self, any_of: Conditions, timeout_s: float) -> tuple[Status, int]:
        """As on `direct`; meanwhile the adapter goes on."""
        if timeout_s <= 0:
            self.progress()
        return super().wait(any_of, timeout_s)

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """As on `direct`, after a step of the adapter."""
        self.progress()
        return super().test(all_of)

    def spin(self) -> None:
        """A step of the adapter, and a moment's sleep."""
        self.progress()
        super().spin()

    def close(self) -> None:
        """Ends the adapter; what is in flight on queue pairs is dropped."""
        super().close()
        self.lib.sm_nic_close(self.adapter)
        self._held.clear()
        if self._engine is not None:
            self._engine.segments.clear()  # whose arrays would keep the heap


_conforms: type[Fabric] = NicFabric
