"""The events that the frames of a stream tell of, as `sim` would have told them.

Blocking puts, or gets, of one call are joined where they touch: a batch of rows is a few events, not thousands.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..enums import SIGNAL
from ..errors import ArgumentError
from ..fabric.events import (
    Access,
    Acquire,
    Answered,
    Event,
    Fence,
    Kind,
    Landed,
    Level,
    LinesTaken,
    Operation,
    Quiet,
    Release,
    Span,
    Waited,
)
from ..records import NBI, Amo, Op
from ..records import Kind as Word
from .reading import Landing, Raw, Reader, Words, landings, records
from .stream import ACCESS, ALLOCATED, INNER, KINDS, NO_STORES, PRIVATE, RECORDS, SPAN, WORD, Frame

_AMO = {
    Amo.FETCH: "fetch", Amo.SET: "set", Amo.ADD: "add", Amo.SWAP: "swap", Amo.COMPARE_SWAP: "compare_swap",
    Amo.AND: "and", Amo.OR: "or", Amo.XOR: "xor",
}  # fmt: skip
_SIGNAL = {SIGNAL.SET: "set", SIGNAL.ADD: "add"}
_MOVES: dict[int, str] = {
    Op.PUT: "put",
    Op.PUT_SIGNAL: "put",
    Op.PUT_STRIDED: "put",
    Op.GET: "get",
    Op.GET_STRIDED: "get",
}

Timed = tuple[int, Event]


class Flying(NamedTuple):
    """What of a record is still to land: bytes, or the word behind them."""

    id: Hashable
    at: Span
    replaces: bool
    word: bool


class Block(NamedTuple):
    """An allocation."""

    offset: int
    nbytes: int
    text: str
    where: str


class Decoder:
    """The events of one stream, each with its time."""

    def __init__(self, reader: Reader, words: Words) -> None:
        self.reader, self.pe, self._words = reader, reader.pe, words
        self._texts = [""]
        self._number = 0
        self._flying: dict[int, list[Flying]] = {}  # by the number of the record
        self._queued: dict[int, list[int]] = {}  # those numbers by queue
        self.blocks: list[Block] = []
        order = sorted((base, pe) for pe, base in enumerate(reader.bases))
        self._starts, self._pes = [base for base, _ in order], [pe for _, pe in order]

    def events(self) -> Iterator[Timed]:
        """All of them, in the order of the program, and what lands later in the order of times."""
        try:
            landed, at = landings(self.reader), 0
            for frame in self.reader.frames():
                for time, event in self._told(frame):
                    while at < len(landed) and landed[at].time <= time:
                        yield from self._lands(landed[at])
                        at += 1
                    yield time, event
            for each in landed[at:]:
                yield from self._lands(each)
        except (IndexError, KeyError, ValueError, struct.error) as error:
            raise ArgumentError(f"{self.reader.path} is damaged: a frame can't be read ({error})") from None

    def aloft(self) -> Iterator[Hashable]:
        """Operations that may still land."""
        return (each.id for some in self._flying.values() for each in some)

    def _told(self, frame: Raw) -> Iterator[Timed]:
        kind, payload, time, pe = frame.kind, frame.payload, frame.time, self.pe
        if kind is Frame.TEXT:
            self._texts.append(bytes(payload).rstrip(b"\0").decode())
        elif kind is Frame.RECORDS:
            yield from self._records(frame)
        elif kind in (Frame.ACCESS, Frame.WAITED, Frame.TAKEN, Frame.LINES):
            for event in self._accesses(frame):
                yield time, event
        elif kind is Frame.FENCE:
            yield time, Fence(pe, frame.q, not frame.flags & NO_STORES)
        elif kind is Frame.QUIET:
            target, level = int.from_bytes(payload[:4], "little", signed=True), Level(payload[4])
            yield time, Quiet(pe, frame.q, None if target == PRIVATE else target, level)
            if target == PRIVATE and level is Level.VISIBLE:
                self._all_landed(frame.q)
        elif kind in (Frame.RELEASE, Frame.MEET):
            yield time, Release(pe, self._texts[int.from_bytes(payload[:4], "little")], kind is Frame.MEET)
        elif kind is Frame.ACQUIRE:
            numbers = np.frombuffer(payload, np.uint32).tolist()
            yield time, Acquire(pe, tuple(self._texts[number] for number in numbers if number))
        elif kind is Frame.ALLOCATED:
            offset, nbytes, text, where = ALLOCATED.unpack_from(payload)
            self.blocks.append(Block(offset, nbytes, self._texts[text], self._texts[where]))

    def _span(self, space: int, lo: int, hi: int) -> Span:
        return Span(("private", self.pe) if space == PRIVATE else space, lo, hi)

    def _find(self, address: int, nbytes: int) -> Span:
        """The memory at an address of that process."""
        i = bisect_right(self._starts, address) - 1
        if i >= 0 and (offset := address - self._starts[i]) + nbytes <= self.reader.nbytes:
            return Span(self._pes[i], offset, offset + nbytes)
        return Span(("private", self.pe), address, address + nbytes)

    def _id(self) -> Hashable:
        self._number += 1
        return self.pe, self._number

    def _accesses(self, frame: Raw) -> Iterator[Event]:
        text, code, what, number = ACCESS.unpack_from(frame.payload)
        where, kind = self._texts[text], KINDS[code]
        for each in SPAN.iter_unpack(frame.payload[ACCESS.size :]):
            at = self._span(*each)
            if frame.kind is Frame.ACCESS:
                yield Access(self.pe, where, kind, at, self._texts[what])
            elif frame.kind is Frame.WAITED:
                yield Waited(self.pe, where, at, kind)
            elif frame.kind is Frame.TAKEN:
                yield LinesTaken(self.pe, at)
            else:
                made = Operation(self.pe, where, self._id(), kind, kind.value, frame.q, each[0], at)
                yield made
                yield from self._landings(made.id, at, True, number, frame.q)

    def _lands(self, landing: Landing) -> Iterator[Timed]:
        for each in self._flying.get(landing.number, ()):
            at = Span(each.at.space, max(each.at.lo, landing.lo), min(each.at.hi, landing.hi))
            if each.word == landing.word and at.space == landing.pe and at.lo < at.hi:
                for event in self._parts(each.id, at, each.replaces):
                    yield landing.time, event

    def _landings(
        self, id: Hashable, at: Span, replaces: bool, number: int, q: int, word: bool = False
    ) -> Iterator[Landed]:
        """That an operation has changed bytes. number: of a record that an adapter carries out later, or 0."""
        number &= 0xFFFFFFFF
        if not number:
            yield from self._parts(id, at, replaces)
        elif next(self._parts(id, at, replaces), None):
            if number not in self._flying:
                self._flying[number] = []
                self._queued.setdefault(q, []).append(number)
            self._flying[number].append(Flying(id, at, replaces, word))

    def _all_landed(self, q: int) -> None:
        for number in self._queued.pop(q, ()):
            self._flying.pop(number, None)

    def _parts(self, id: Hashable, at: Span, replaces: bool) -> Iterator[Landed]:
        """As far as anybody asks who did."""
        words = self._words.get(at.space, [])  # type: ignore[call-overload]
        first, last = at.lo // WORD, -(-at.hi // WORD)
        for i in range(bisect_left(words, first), bisect_left(words, last)):
            word = words[i] * WORD
            yield Landed(id, Span(at.space, max(at.lo, word), min(at.hi, word + WORD)), replaces)

    # ---- records ----

    def _records(self, frame: Raw) -> Iterator[Timed]:
        number, _, domain, _ = RECORDS.unpack_from(frame.payload)
        where, before = self._texts[number], frame.time
        times, ops = records(frame.payload)
        ran = len(times) if all(times) else times.index(0) + 1  # without a time: its PE died in it, or it did not run
        for group in alike(ops[:ran]):
            first = times[group.start] or before
            if group.stop - group.start > 1:
                alone, events = self._many(ops[group], where, frame.q, bool(frame.flags & INNER), domain)
                yield from ((first, event) for event in events)
            else:
                alone = [0]
            for i in alone:
                before = times[group.start + i] or before
                row = _Row(*ops[group.start + i].item())
                for event in self._record(frame, row, where, self._texts[domain]):
                    yield before, event
                for event in self._answer(frame, row, where):
                    yield row.n if row.id else before, event
                    self._flying.pop(row.id & 0xFFFFFFFF, None)

    def _many(
        self, ops: npt.NDArray[np.void], where: str, q: int, inner: bool, domain: int
    ) -> tuple[list[int], Iterator[Event]]:
        """Blocking puts, or gets, of one call, joined where they touch: nothing of their program lies between them.
        Those that touch words which somebody asks for stay as they are, each with its time: their numbers come first.
        """
        puts = bool(ops["op"][0] == Op.PUT)
        asked = np.zeros(len(ops), bool)
        if puts and not inner:
            for pe, words in self._words.items():
                some = ops["pe"] == pe
                first, last = ops["dst"][some] // WORD, (ops["dst"][some] + ops["n"][some] + WORD - 1) // WORD
                asked[some] = np.searchsorted(words, last) > np.searchsorted(words, first)
        alone = np.flatnonzero(asked).tolist()
        return alone, self._joined(ops[~asked & (ops["n"] > 0)], where, q, inner, puts)

    def _joined(self, ops: npt.NDArray[np.void], where: str, q: int, inner: bool, puts: bool) -> Iterator[Event]:
        there, here = ("dst", "src") if puts else ("src", "dst")
        own, kind, name = (Kind.LOAD, Kind.PUT, "put") if puts else (Kind.STORE, Kind.GET, "get")
        for lo, hi in joined(ops[here], ops["n"], True):
            memory = self._find(lo, hi - lo)
            if not inner or memory.space == self.pe:
                yield Access(self.pe, where, own, memory)
        for pe in [] if inner else np.unique(ops["pe"]).tolist():
            some = ops[ops["pe"] == pe]
            for lo, hi in joined(some[there], some["n"], not puts):
                id = self._id()
                yield Operation(
                    self.pe, where, id, kind, name, q, pe, Span(pe, lo, hi), answered=not puts, group=id
                )  # fmt: skip

    def _record(self, frame: Raw, op: _Row, where: str, domain: str) -> Iterator[Event]:
        inner = bool(frame.flags & INNER)
        if op.op in _MOVES:
            yield from self._moved(op, where, frame.q, inner, domain)
        elif op.op == Op.AMO and not inner:
            yield from self._amo(op, where, frame.q, domain)
        elif op.op == Op.FENCE and not inner:
            yield Fence(self.pe, frame.q, not frame.flags & NO_STORES)
        elif op.op == Op.QUIET and not inner:
            yield Quiet(self.pe, frame.q, None, Level.VISIBLE)
            self._all_landed(frame.q)

    def _pieces(self, op: _Row) -> Iterator[tuple[int, int, int]]:
        """Remote offset, local address and bytes of each block."""
        there, here = (op.dst, op.src) if _MOVES[op.op] == "put" else (op.src, op.dst)
        if op.op not in (Op.PUT_STRIDED, Op.GET_STRIDED):
            yield there, here, op.n
            return
        steps = _signed(op.aux), _signed(op.aux >> 32)
        for i in range(op.n):
            yield there + i * steps[0], here + i * steps[1], op.value

    def _moved(self, op: _Row, where: str, q: int, inner: bool, domain: str) -> Iterator[Event]:
        name, late = _MOVES[op.op], bool(op.flags & NBI)
        kind = Kind.PUT if name == "put" else Kind.GET
        own = Kind.LOAD if name == "put" else Kind.STORE
        after: list[Event] = []
        for there, here, nbytes in self._pieces(op):
            memory, at = self._find(here, nbytes), Span(op.pe, there, there + nbytes)
            if inner:
                if nbytes and memory.space == self.pe:
                    yield Access(self.pe, where, own, memory)
                continue
            if not nbytes and op.op != Op.PUT_SIGNAL:
                continue
            access = [Access(self.pe, where, own, memory)] if nbytes and not late else []
            source, result = (memory, None) if name == "put" else (None, memory)
            if not late or not nbytes:
                source = result = None
            id = self._id()
            if name == "put":
                yield from access
            else:
                after += access
            answered = name == "get" and not late
            yield Operation(self.pe, where, id, kind, name, q, op.pe, at, source, result, late, answered, group=id)
            if name == "put":
                yield from self._landings(id, at, True, op.id, q)
            if op.op == Op.PUT_SIGNAL:
                yield from self._signal(op, where, q, id, domain)
        yield from after

    def _signal(self, op: _Row, where: str, q: int, group: Hashable, domain: str) -> Iterator[Event]:
        how, at, id = _SIGNAL[SIGNAL(op.flags & ~NBI)], Span(op.pe, op.aux, op.aux + 8), self._id()
        yield Operation(
            self.pe, where, id, Kind.UPDATE, f"signal {how}", q, op.pe, at, late=bool(op.flags & NBI),
            type=Word.U64.name, domain=domain, carries=group,
        )  # fmt: skip
        yield from self._landings(id, at, how == "set", op.id, q, True)

    def _amo(self, op: _Row, where: str, q: int, domain: str) -> Iterator[Event]:
        which, late, at = Amo(op.flags & ~NBI), bool(op.flags & NBI), Span(op.pe, op.dst, op.dst + op.width)
        type = Word(op.aux - 1).name if op.aux else ""
        if self._looks(op):
            if op.src:
                yield Access(self.pe, where, Kind.STORE, self._find(op.src, op.width))
            yield Waited(self.pe, where, at, Kind.FETCH, type)
            return
        result = self._find(op.src, op.width) if op.src and late else None
        kind, id = Kind.FETCH if which is Amo.FETCH else Kind.UPDATE, self._id()
        yield Operation(
            self.pe, where, id, kind, f"atomic {_AMO[which]}", q, op.pe, at, None, result, late,
            bool(op.src and not late), type, domain,
        )  # fmt: skip
        yield from self._landings(id, at, which is Amo.SET, op.id, q)

    def _looks(self, op: _Row) -> bool:
        """A fetch of an own word, which is a look at it."""
        return Amo(op.flags & ~NBI) is Amo.FETCH and op.pe == self.pe and not op.flags & NBI

    def _answer(self, frame: Raw, op: _Row, where: str) -> Iterator[Event]:
        """What a call that waited for the result of an atomic tells when it returns: of what was made last."""
        if op.op == Op.AMO and op.src and not op.flags & NBI and not frame.flags & INNER and not self._looks(op):
            yield Answered(self.pe, (self.pe, self._number))
            yield Access(self.pe, where, Kind.STORE, self._find(op.src, op.width))


class _Row(NamedTuple):
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


def alike(ops: npt.NDArray[np.void]) -> Iterator[slice]:
    """Records one by one, but blocking puts that follow one another together, and so gets."""
    code, n = ops["op"], len(ops)
    if not n:
        return
    plain = ((code == Op.PUT) | (code == Op.GET)) & (ops["flags"] & NBI == 0)
    starts = np.flatnonzero(np.append(True, ~(plain[1:] & plain[:-1] & (code[1:] == code[:-1])))[:n])
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), n], strict=True):
        yield slice(first, end)


def joined(starts: npt.NDArray[Any], sizes: npt.NDArray[Any], overlap: bool) -> Iterator[tuple[int, int]]:
    """Ranges in order, those that touch joined. overlap: also those that share bytes."""
    order = np.argsort(starts, kind="stable")
    lo = starts[order].astype(np.int64)
    hi = lo + sizes[order].astype(np.int64)
    reach = np.maximum.accumulate(hi)
    apart = lo[1:] > reach[:-1] if overlap else lo[1:] != hi[:-1]
    first = np.flatnonzero(np.append(True, apart)[: len(lo)])
    ends = np.maximum.reduceat(hi, first) if len(lo) else hi
    return zip(lo[first].tolist(), ends.tolist(), strict=True)


def _signed(half: int) -> int:
    half &= 0xFFFFFFFF
    return half - (1 << 32) if half >> 31 else half
