"""From a work request to the entry of the ring: addresses instead of arrays, bytes of a segment."""

from __future__ import annotations

from ..errors import ArgumentError
from ..plain import whole_number
from ..views import Array, address_of
from .engine import Target, Wqe
from .segments import Segment
from .work import WorkRequest


def wqe_of(wr: WorkRequest, arrays: list[Array], there: int, me: int) -> Wqe:
    """A request that PE `me` posts to PE `there`. Raises ArgumentError, DtypeError."""
    nbytes = sum(each.nbytes for each in arrays)
    pieces = tuple((address_of(each), each.nbytes) for each in arrays)
    data = b"".join(each.tobytes() for each in arrays) if wr.inline else None
    remote = None if wr.remote is None else _target(wr.remote, wr.offset, nbytes, there, me)
    notify = None if wr.notify is None else _target(wr.notify[0], wr.notify[1], 8, there, me)
    operand = wr.value if wr.notify is None else wr.notify[2]
    return Wqe(
        wr.opcode, wr.blocks(arrays), nbytes, pieces, data, remote, bool(wr.signaled), bool(wr.fence), wr.order,
        None if wr.imm is None else int(wr.imm), notify, int(operand), int(wr.compare),
    )  # fmt: skip


def check_segment(segment: object, there: int, me: int) -> Segment:
    """A segment of PE `there`. Raises ArgumentError."""
    if not isinstance(segment, Segment):
        raise ArgumentError(f"{segment!r} is no segment", pe=me)
    if segment.pe != there:
        raise ArgumentError(
            f"the segment is of PE {segment.pe}, the queue pair leads to PE {there}: see nic.import_segment", pe=me
        )
    return segment


def _target(given: object, offset: int, nbytes: int, there: int, me: int) -> Target:
    segment = check_segment(given, there, me)
    key = whole_number(segment.key, "the key of the segment", me)
    return Target(key, whole_number(offset, "offset", me), nbytes)
