"""Operation records on `sim`, one by one: their specification, over the delivery machine.

What leaves the PE becomes requests. A blocking operation reads its source when it is called and waits for its result; a
nonblocking one does either late. Records that stay inside the PE are in `local`, lines in `lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...delivery.atomics import updated
from ...delivery.requests import Kind, Place, Request, Stage, Update, units_of
from ...enums import SIGNAL
from ...records import CONDITION, NBI, Amo, Op
from ...records import Kind as Word
from ..events import Kind as Seen
from ..interface import Level, Members, Status
from . import lines, local
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric

_AMO = {
    Amo.FETCH: "fetch", Amo.SET: "set", Amo.ADD: "add", Amo.SWAP: "swap", Amo.COMPARE_SWAP: "compare_swap",
    Amo.AND: "and", Amo.OR: "or", Amo.XOR: "xor",
}  # fmt: skip
_CALLED = {Kind.WRITE: "put", Kind.READ: "get", Kind.ATOMIC: "atomic", Kind.STORE: "store", Kind.SEND: "send"}
_SIGNAL = {SIGNAL.SET: "set", SIGNAL.ADD: "add"}


class Fields(NamedTuple):
    """The fields of a record."""

    op: int
    flags: int
    width: int
    pe: int
    dst: int
    src: int
    n: int
    value: int
    cond: int
    aux: int
    id: int


def run_record(fabric: SimFabric, q: int, row: tuple[int, ...], timeout_s: float) -> Status:
    """Interprets one record, given as a row of `RECORD`."""
    fields = Fields(*row)
    fabric.heap.follow()
    fabric.calls.begin()
    if fabric.job.observed is not None:
        fabric.job.observed.word = fields.aux if fields.op == Op.AMO else 0
        fabric.job.observed.lines = fields.op == Op.PUT_LINES
        fabric.job.observed.asks_more |= fields.op in (Op.PUT_LINES, Op.POLL_LINES)
    return _RUN[fields.op](fabric, q, fields, timeout_s) or Status.OK


def _signed(half: int) -> int:
    half &= 0xFFFFFFFF
    return half - (1 << 32) if half >> 31 else half


def _strided(op: Fields, remote: int, local_address: int) -> Iterator[tuple[int, int]]:
    """Where the blocks of a strided record are: remote offset and local address."""
    steps = _signed(op.aux), _signed(op.aux >> 32)
    for i in range(op.n):
        yield remote + i * steps[0], local_address + i * steps[1]


def post(
    fabric: SimFabric, q: int, kind: Kind, pe: int, at: tuple[int, int], *,
    source: int | None = None, result: int | None = None, **more: Any,
) -> Request:  # fmt: skip
    """Puts a request on a context in flight: to bytes `at` of the heap of a PE. source, result: addresses of what it
    reads or leaves late."""
    fabric.take_turn(q, "post")
    key = fabric.machine.name(fabric.me)
    nbytes = at[1] - at[0]
    ends = [None if address is None else (address, nbytes) for address in (source, result)]
    if source is not None:
        more["source"] = fabric.heap.source(key, source, nbytes)
    if result is not None:
        more["result"] = fabric.heap.result(key, result, nbytes)
    request = Request(key, kind, fabric.post_name(q), pe, Place(pe, *at), (), **more)
    fabric.calls.sign(request, _CALLED[kind])
    if fabric.job.observed is not None:
        fabric.job.observed.posted(request, q, _CALLED[kind], *ends)
    fabric.machine.post(request)
    if not request.keep:  # what waits for its answer is over when the call returns
        fabric.count(q)
    return request


def write(
    fabric: SimFabric, q: int, pe: int, at: tuple[int, int], *,
    source: int | None = None, data: bytes = b"", word: Place | None = None, word_update: Update | None = None,
) -> None:  # fmt: skip
    """Puts a WRITE in flight, in pieces where the profile stripes it: of `data`, or of what is at an address later.
    word: a flag that follows the data; where they are in pieces a request of its own, on the first queue pair."""
    profile = fabric.profile
    cuts = units_of(*at, profile.stripe_bytes) if profile.stripes > 1 else (at,)
    more: dict[str, Any] = {"word": word, "word_update": word_update}
    if len(cuts) <= 1:
        post(fabric, q, Kind.WRITE, pe, at, source=source, data=data, **more)
        return
    first = None
    for i, (lo, hi) in enumerate(cuts):
        done = lo - at[0]
        late = {"source": source + done} if source is not None else {"data": data[done : hi - at[0]]}
        piece = post(fabric, q, Kind.WRITE, pe, (lo, hi), stripe=i % profile.stripes, put=first, **late)
        first = piece.put = first or piece.key
    if word is not None:
        post(fabric, q, Kind.WRITE, pe, (at[1], at[1]), put=first, **more)


def _until(fabric: SimFabric, request: Request, stage: Stage, what: str) -> None:
    """Waits until a request is at a stage."""
    if not request.reached(stage):
        step = Step(what, lambda: None, lambda: request.reached(stage), needs=lambda: request.events(stage), takes=True)
        fabric.do(step)


def _write(fabric: SimFabric, q: int, op: Fields, dst: int, src: int, nbytes: int, **more: Any) -> None:
    """Posts a put of contiguous bytes."""
    if op.flags & NBI:
        more["source"] = src
    else:
        more["data"] = fabric.heap.read(src, nbytes)
    write(fabric, q, op.pe, (dst, dst + nbytes), **more)


def settle_target(fabric: SimFabric, q: int, op: Fields) -> None:
    """What a blocking put adds on queues whose work requests read their sources late: a quiet of its target."""
    if fabric.profile.requests == "flag" and not op.flags & NBI:
        fabric.settle(q, Stage.ANSWERED, op.pe, what="blocking put")


def _put(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    if op.n:
        _write(fabric, q, op, op.dst, op.src, op.n)
        settle_target(fabric, q, op)


def _put_strided(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    for there, here in _strided(op, op.dst, op.src):
        _write(fabric, q, op, there, here, op.value)
    settle_target(fabric, q, op)


def _put_signal(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    update = Update(_SIGNAL[SIGNAL(op.flags & ~NBI)], op.value, 0, 8)
    _write(fabric, q, op, op.dst, op.src, op.n, word=Place(op.pe, op.aux, op.aux + 8), word_update=update)
    settle_target(fabric, q, op)


def _read(fabric: SimFabric, q: int, op: Fields, src: int, dst: int, nbytes: int) -> Request:
    more: dict[str, Any] = {"result": dst} if op.flags & NBI else {"keep": True}
    return post(fabric, q, Kind.READ, op.pe, (src, src + nbytes), **more)


def _take(fabric: SimFabric, request: Request, address: int, what: str) -> None:
    """Waits for the answer of a blocking request, and stores it. What changes nothing there is a look: a loop may wait
    by it."""
    _until(fabric, request, Stage.ANSWERED, what)
    if fabric.job.observed is not None:
        fabric.job.observed.answered(request)
    data = fabric.machine.answers.pop(request.key)
    fabric.job.tell(data)
    fabric.heap.write(address, data, request.call)
    if request.update is None or updated(data, request.update) == data:
        fabric.looked([(request.at, data)])


def _get(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    if op.n:
        request = _read(fabric, q, op, op.src, op.dst, op.n)
        if not op.flags & NBI:
            _take(fabric, request, op.dst, "get")


def _get_strided(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    blocks = [(_read(fabric, q, op, there, here, op.value), here) for there, here in _strided(op, op.src, op.dst)]
    for request, here in blocks:
        if not op.flags & NBI:
            _take(fabric, request, here, "get")


def _amo(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    mask = (1 << 8 * op.width) - 1
    which, nbi = Amo(op.flags & ~NBI), bool(op.flags & NBI)
    at = op.dst, op.dst + op.width
    if which is Amo.FETCH and op.pe == fabric.me and not nbi:
        fabric.heap.write(op.src, fabric.load(Place(fabric.me, *at), "fetch", plain=False))
        fabric.saw([Place(fabric.me, *at)], Seen.FETCH)
        fabric.acquire()
        return
    update = Update(_AMO[which], op.value & mask, op.cond & mask, op.width)
    more: dict[str, Any] = {}
    if op.src:
        more = {"result": op.src} if nbi else {"keep": True}
    request = post(fabric, q, Kind.ATOMIC, op.pe, at, update=update, **more)
    if op.src and not nbi:
        _take(fabric, request, op.src, f"atomic {_AMO[which]}")
        fabric.acquire()
    elif fabric.profile.program_order:
        fabric.settle(q, Stage.ANSWERED, op.pe, what="atomic")


def _fence(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    fabric.fence(q)


def _quiet(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    fabric.complete(q, Level.VISIBLE)


def _barrier(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> Status:
    fabric.complete(q, Level.VISIBLE)
    return fabric.barrier(Members(op.width, fabric.teams[op.width]), op.value, timeout_s)


def _wait(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    import numpy as np

    width = 8 if Word(op.width) in (Word.I64, Word.U64) else 4
    for i in range(op.n):
        one = np.array([(op.dst + i * width, op.value, op.width, op.flags)], CONDITION)
        fabric.wait(one, 1.0)


def _nop(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    pass


def _put_lines(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    lines.put(fabric, q, op, write)
    settle_target(fabric, q, op)


def _poll_lines(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> Status:
    return lines.poll(fabric, op, timeout_s)


def _copy_rows(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    local.copy_rows(fabric, op)


def _reduce_rows(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    local.reduce_rows(fabric, op)


def _cast(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    local.cast(fabric, op)


def _reduce(fabric: SimFabric, q: int, op: Fields, timeout_s: float) -> None:
    local.reduce(fabric, op)


_RUN: dict[int, Callable[[SimFabric, int, Fields, float], Status | None]] = {
    Op.NOP: _nop, Op.PUT: _put, Op.GET: _get, Op.PUT_STRIDED: _put_strided, Op.GET_STRIDED: _get_strided,
    Op.AMO: _amo, Op.PUT_SIGNAL: _put_signal, Op.FENCE: _fence, Op.QUIET: _quiet, Op.WAIT: _wait,
    Op.BARRIER: _barrier, Op.COPY_ROWS: _copy_rows, Op.REDUCE_ROWS: _reduce_rows, Op.PUT_LINES: _put_lines,
    Op.POLL_LINES: _poll_lines, Op.CAST: _cast, Op.REDUCE: _reduce,
}  # fmt: skip
