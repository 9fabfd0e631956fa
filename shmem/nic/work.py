"""Work requests: what they say, what is wrong with them before anything moves, and the blocks of the ring they take.

Blocks are 64 bytes. A request has a control part of 48, 64 (WRITE_IMM) or 80 bytes (WRITE_NOTIFY), and a body of 16
bytes for each piece of local memory, or the inline bytes. Sizes as UMDK's URMA has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, DtypeError
from ..plain import truth
from ..views import Array, check_array

if TYPE_CHECKING:
    from .segments import Segment

BLOCK = 64
PIECE = 16  # bytes of a request for each piece of local memory
LENGTH_MAX = 256 << 20
IMMEDIATE_MAX = (1 << 64) - 1
ORDERS = ("none", "relax", "strong")


class Opcode(IntEnum):
    """What a work request does."""

    NOP = 0
    WRITE = 1
    WRITE_IMM = 2
    WRITE_NOTIFY = 3
    READ = 4
    SEND = 5
    SEND_IMM = 6
    CAS = 7
    FAA = 8
    RECEIVE = 9  # only in completions


WRITES = (Opcode.WRITE, Opcode.WRITE_IMM, Opcode.WRITE_NOTIFY)
SENDS = (Opcode.SEND, Opcode.SEND_IMM)
ATOMICS = (Opcode.CAS, Opcode.FAA)
_CONTROL = dict.fromkeys(Opcode, 48) | {Opcode.WRITE_IMM: 64, Opcode.WRITE_NOTIFY: 80}
_PIECES_MAX = dict.fromkeys(Opcode, 1) | {
    Opcode.WRITE: 13, Opcode.SEND: 13, Opcode.SEND_IMM: 12, Opcode.WRITE_IMM: 12, Opcode.WRITE_NOTIFY: 11,
    Opcode.READ: 6,
}  # fmt: skip
_INLINE_MAX = {Opcode.WRITE: 208, Opcode.SEND: 208, Opcode.SEND_IMM: 192, Opcode.WRITE_IMM: 192,
               Opcode.WRITE_NOTIFY: 176}  # fmt: skip

Local: TypeAlias = "npt.NDArray[Any] | Sequence[npt.NDArray[Any]] | None"
Notify: TypeAlias = "tuple[Segment, int, int]"


@dataclass
class WorkRequest:
    """What to post. Nothing is checked or read before `QueuePair.post`.

    opcode: nic.WRITE, WRITE_IMM, WRITE_NOTIFY, READ, SEND, SEND_IMM, CAS, FAA, NOP.
    local: array or arrays (C-contiguous) that are sent, or that the result goes to; its bytes are the request's length.
        It must lie in the symmetric heap or in a registered segment, unless it is inline.
    remote, offset: the imported segment, and the first byte in it.
    signaled: whether its end is told by a completion (a failure always is).
    inline: the bytes are taken now; else local memory is read at any time until the request has completed.
    fence: it waits for earlier READs and atomics of its queue pair.
    order: "none", "relax", "strong": strong waits for earlier relax and strong ones (profiles with order by flag).
    doorbell: False leaves it for the next doorbell.
    imm: 64 bits for the completion at the target (WRITE_IMM, SEND_IMM).
    notify: (segment, offset, value) of the 64-bit word that WRITE_NOTIFY sets after its data.
    value, compare: operands of FAA (adds `value`) and CAS (`value` if it equals `compare`); words of 4 or 8 bytes.
    Sources: verbs manual pages (ibv_post_send), UMDK.
    """

    opcode: Opcode
    local: Local = None
    remote: Segment | None = None
    offset: int = 0
    signaled: bool = True
    inline: bool = False
    fence: bool = False
    order: str = "none"
    doorbell: bool = True
    imm: int | None = None
    notify: Notify | None = None
    value: int = 0
    compare: int = 0

    def arrays(self, me: int) -> list[Array]:
        """Its local arrays, those without elements left out. Raises ArgumentError, DtypeError."""
        given = [] if self.local is None else self.local if isinstance(self.local, (list, tuple)) else [self.local]
        arrays = [check_array(each, "local", me) for each in given]
        for each in arrays:
            if not each.flags.c_contiguous:
                raise ArgumentError("local memory of a work request must be C-contiguous", pe=me)
            if self.opcode in (Opcode.READ, *ATOMICS) and not each.flags.writeable:
                raise ArgumentError("the result goes to local, which is read-only", pe=me)
        return [each for each in arrays if each.size]

    def check(self, me: int, arrays: list[Array]) -> None:
        """Raises ArgumentError or DtypeError for what can't be posted."""
        for name in ("signaled", "inline", "fence", "doorbell"):
            truth(getattr(self, name), name, me)
        if wrong := self._wrong(arrays):
            raise ArgumentError(f"{self.opcode.name}: {wrong}", pe=me)

    def _wrong(self, arrays: list[Array]) -> str:
        code, nbytes = self.opcode, sum(each.nbytes for each in arrays)
        return (
            self._wrong_fields()
            or self._wrong_operands(nbytes)
            or (
                f"{len(arrays)} pieces of local memory, {_PIECES_MAX[code]} fit"
                if len(arrays) > _PIECES_MAX[code]
                else ""
            )
            or (f"{nbytes} bytes in one request, {LENGTH_MAX} fit" if nbytes > LENGTH_MAX else "")
            or (
                f"{nbytes} bytes inline, {self._inline_max()} fit"
                if self.inline and nbytes > self._inline_max()
                else ""
            )
        )

    def _inline_max(self) -> int:
        return _INLINE_MAX.get(self.opcode, -1)

    def _wrong_fields(self) -> str:
        code = self.opcode
        if self.order not in ORDERS:
            return f"order={self.order!r}: use one of {ORDERS}"
        if (self.remote is None) != (code in (*SENDS, Opcode.NOP)):
            return "it needs a remote segment" if self.remote is None else "it has no remote segment"
        if (self.notify is None) == (code is Opcode.WRITE_NOTIFY):
            return "notify=(segment, offset, value) belongs to WRITE_NOTIFY, and to nothing else"
        if self.notify is not None and not _triple(self.notify):
            return f"notify={self.notify!r}: (segment, offset, value) is needed"
        if self.imm is not None and code not in (Opcode.WRITE_IMM, Opcode.SEND_IMM):
            return "it carries no immediate"
        if code in (Opcode.WRITE_IMM, Opcode.SEND_IMM) and not _word(self.imm, 8):
            return f"imm={self.imm!r}: an integer of 64 bits is needed"
        if self.inline and code not in _INLINE_MAX:
            return "it has nothing that could be inline"
        return ""

    def _wrong_operands(self, nbytes: int) -> str:
        if self.opcode is Opcode.NOP and nbytes > 0:
            return "it moves nothing"
        if self.opcode is Opcode.WRITE_NOTIFY and self.notify is not None and not _word(self.notify[2], 8):
            return f"notify sets a word of 64 bits, not {self.notify[2]!r}"
        if self.opcode not in ATOMICS:
            return ""
        if nbytes not in (4, 8):
            return f"its result is a word of 4 or 8 bytes, local has {nbytes}"
        if not (_word(self.value, nbytes) and _word(self.compare, nbytes)):
            return f"value={self.value!r}, compare={self.compare!r}: unsigned integers of {nbytes} bytes are needed"
        return ""

    def blocks(self, arrays: list[Array]) -> int:
        """How many blocks of the ring it takes."""
        if self.opcode in ATOMICS:
            return 2
        body = sum(each.nbytes for each in arrays) if self.inline else PIECE * len(arrays)
        return -(-(_CONTROL[self.opcode] + body) // BLOCK)


def _triple(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3


def _word(value: object, nbytes: int) -> bool:
    return isinstance(value, (int, np.integer)) and 0 <= int(value) < 1 << 8 * nbytes


def opcode_of(value: object, me: int) -> Opcode:
    """An opcode that can be posted. Raises DtypeError."""
    if isinstance(value, Opcode) and value is not Opcode.RECEIVE:
        return value
    raise DtypeError(f"{value!r} is no opcode of a work request", pe=me)
