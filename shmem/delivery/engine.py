"""An engine in C under a machine: its numbers for names, its requests, its memory.

Spaces, queues, completion queues and receive queues are numbers there. They are given out when a name is first used.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from ..errors import ArgumentError
from .compiled import compiled
from .machine import Machine
from .memory import Memory
from .profiles import CHOICES, Profile
from .requests import Kind, Place, Request, Space, Update

# The statuses by their numbers in the engine: those that it gives itself, then others that a program may doom with.
STATUSES = (
    "", "ok", "flush", "rem_access", "rnr_retry", "rem_inv_req", "loc_len", "retry",
    "loc_access", "loc_op", "rem_op", "bad_resp", "unsupported",
)  # fmt: skip
OPS = ("", "set", "swap", "add", "fetch", "compare_swap", "and", "or", "xor")
ROOM = 64  # requests in flight before the engine's pool grows


@lru_cache(maxsize=64)
def native(profile: Profile, pieces: int = 0, halves: bool = True) -> tuple[Any, list[Any]]:
    """A profile as the engine has it, and what must live as long.

    pieces: into how many parts at most it cuts a request (0: each unit by itself). halves: an atomic on an adapter is
    two events where the profile lets others come between; several engines over one memory need native ones.
    """
    from .._native import _core

    rules, apart = (_core.ffi.from_buffer("uint64_t[]", table) for table in compiled(profile))
    asked = Machine(profile, Memory())
    kinds = [Request((0, 0), kind, None, 0, Place(0, 0, 0), ()) for kind in Kind]
    made = _core.ffi.new(
        "sm_net_profile *",
        {
            "rules": rules, "apart": apart, "unit": profile.unit, "pieces": pieces,
            "ascending": profile.units == "ascending",
            "repeat": profile.repeat, "lost_ack": profile.lost_ack, "lost_doorbell": profile.lost_doorbell,
            "program_order": profile.program_order, "forwarding": asked.forwarding,
            "engine_scoped": profile.engine_scoped,
            "in_turn": profile.on_error != "go_on" or profile.requests in ("post", "program"),
            "covers": CHOICES["receive_covers"].index(profile.receive_covers),
            "on_error": CHOICES["on_error"].index(profile.on_error), "halves": halves and not profile.program_order,
            "completes": [asked.completes_at(each) for each in kinds],
            "executes": [asked.executed_at(each) for each in kinds],
        },
    )  # fmt: skip
    return made, [rules, apart]


class Engine(Machine):
    """A machine that has an engine, and tells it names. Raises ArgumentError for a profile that it does not carry."""

    def __init__(self, profile: Profile, memory: Memory) -> None:
        if profile.reader == "lazy":
            raise ArgumentError(f"profile {profile.name}: no lazy readers here: what is placed is visible")
        from .._native import _core

        self.ffi: Any
        self.lib: Any
        self.ffi, self.lib = _core.ffi, _core.lib
        self._made, self._alive = native(profile)
        self.net = self._owned(self.lib.sm_net_open(self._made, ROOM))
        self._receives: dict[int, int] = {}
        self._space_ids: dict[Space, int] = {}
        self._queue_ids: dict[Hashable, int] = {}
        self._cq_ids: dict[Hashable, int] = {}
        self._taker_ids: dict[Hashable, int] = {}
        self._drained: dict[int, int] = {}  # by completion queue: entries that the mirror has
        self._events = self.ffi.new("sm_event[]", 64)
        super().__init__(profile, memory)

    def _owned(self, net: Any) -> Any:
        if not net:
            raise MemoryError("no memory for a delivery engine")
        return self.ffi.gc(net, self.lib.sm_net_close)

    def _base(self, space: Space) -> tuple[Any, int]:
        """The address of a space and its size; one that nobody has declared is empty."""
        data = self.memory.spaces.get(space)
        return (self.ffi.NULL, 0) if not data else (self.ffi.from_buffer(data), len(data))

    def _space(self, space: Space) -> int:
        if space not in self._space_ids:
            self._space_ids[space] = self._checked(self.lib.sm_net_space(self.net, *self._base(space)))
        return self._space_ids[space]

    def _at(self, place: Place | None) -> tuple[int, int, int]:
        return (-1, 0, 0) if place is None else (self._space(place.space), place.lo, place.hi)

    def _queue(self, name: Hashable) -> int:
        """A context's queue."""
        if name not in self._queue_ids:
            self._queue_ids[name] = self._checked(self.lib.sm_net_queue(self.net, -1, 0, 0))
        return self._queue_ids[name]

    def _cq(self, name: Hashable) -> int:
        """A completion queue: with an end, if that was declared in `rings`."""
        if name not in self._cq_ids:
            ring = self.rings.get(name)
            counter = -1 if ring is None else self._space(name)
            made = self._checked(self.lib.sm_net_cq(self.net, 0 if ring is None else ring.depth, counter))
            self._cq_ids[name], self._drained[made] = made, 0
        return self._cq_ids[name]

    def _taker(self, name: Hashable) -> int:
        if name is None:
            return -1
        if name not in self._taker_ids:
            self._taker_ids[name] = self._checked(self.lib.sm_net_taker(self.net))
        return self._taker_ids[name]

    def _checked(self, code: int, what: object = "") -> int:
        """What a call of the engine gave, if nothing was wrong."""
        if code == self.lib.SM_NET_NO_MEMORY:
            raise MemoryError("no memory for a delivery engine")
        if code < 0:
            raise ArgumentError(f"the delivery engine refuses {what or 'a call'}: code {code}")
        return code

    def _receiver(self, pe: int) -> None:
        cq = self._cq(("received", pe))
        self._checked(self.lib.sm_net_pe(self.net, pe, self._receives.get(pe, -1), cq), f"PE {pe}")

    def _request(self, request: Request) -> tuple[Any, list[Any]]:
        """A request as the engine takes it, and what must live until it has."""
        ffi, lib = self.ffi, self.lib
        data, rest = ffi.from_buffer(request.data), ffi.new("sm_place[]", [self._at(each) for each in request.rest])
        flags = {
            lib.SM_REQ_RING: request.ring,
            lib.SM_REQ_SIGNALED: request.signaled,
            lib.SM_REQ_FENCE: request.fence,
            lib.SM_REQ_NEEDS_RECEIVE: request.needs_receive,
            lib.SM_REQ_TELLS: request.tells,
            lib.SM_REQ_KEEP: request.keep,
            lib.SM_REQ_ASCENDING: request.ascending,
            lib.SM_REQ_DEFAULT: request.default,
            lib.SM_REQ_RUNG: request.rung,
            lib.SM_REQ_ADMITTED: request.admitted,
            lib.SM_REQ_IMMEDIATE: request.immediate is not None,
        }
        segments = [self._space(each) for each in request.segments]
        made = ffi.new(
            "sm_request *",
            {
                "pe": request.key[0], "number": request.key[1], "kind": request.kind, "target": request.target,
                "queue": self._queue_ids[request.queue] if request.ring else self._queue(request.queue),
                "stripe": request.stripe, "taker": self._taker(request.taker), "at": self._at(request.at),
                "source": self._at(request.source), "result": self._at(request.result),
                "word": self._at(request.word), "update": _update(request.update),
                "word_update": _update(request.word_update), "rest": rest, "rests": len(request.rest), "data": data,
                "ndata": len(request.data), "put": -1 if request.put is None else request.put[1],
                "segments": (segments + [-1, -1])[:2], "immediate": request.immediate or 0,
                "flags": sum(flag for flag, holds in flags.items() if holds), "order": request.order,
                "blocks": request.blocks, "bad": STATUSES.index(request.bad),
            },
        )  # fmt: skip
        return made, [data, rest]


def _update(update: Update | None) -> tuple[int, int, int, int]:
    if update is None:
        return 0, 0, 0, 0
    word = (1 << 64) - 1
    return OPS.index(update.op), update.width, update.value & word, update.cond & word
