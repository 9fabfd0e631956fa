"""Many operation records, filled by NumPy and run by one native loop, in order.

This is what a library on top of `shmem` sends with: preparing n puts costs a few NumPy calls, running them a few
nanoseconds each. Offsets and strides are bytes from the start of the array given beside them. A batch keeps
references to its arrays and may be run again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .barriers import awaited, members_of, missing, raise_differing
from .batch_lines import Await, LinesInBatch
from .enums import comparison
from .errors import ArgumentError, DtypeError, FreedBlock, LayoutError, SizeMismatch, StateError
from .fabric.interface import Members, Status
from .ordering import check_context
from .plain import whole_number
from .records import (
    RECORD,
    ROWS,
    STREAMING,
    STRIDE_MAX,
    Amo,
    Kind,
    Op,
    Records,
    cast_of,
    fingerprint,
    kind_of,
    record,
    strides,
)
from .rma import reach, reach_all
from .runtime import PE, Local, current
from .streams import Event, Stream
from .teams import Team, resolve
from .views import Array, address_of, check_array, check_target, integers, scalar_bits, symmetric, whole_numbers
from .waiting import until

Offsets = npt.NDArray[np.int64]

_PUTS = frozenset({Op.PUT, Op.PUT_STRIDED, Op.PUT_LINES})
_COVERS = frozenset({Op.FENCE, Op.QUIET, Op.BARRIER})


def _contiguous(array: object, name: str, pe: PE) -> Array:
    checked = check_array(array, name, pe.me)
    if not checked.flags.c_contiguous:
        raise LayoutError(f"{name} must be C-contiguous in a batch", pe=pe.me)
    return checked


def _check_blocks(first: int, last: int, nbytes: int, array: Array, name: str, pe: PE) -> None:
    """Raises SizeMismatch unless the blocks of `nbytes` at the bytes `first` and `last` lie in the array.

    Plain integers: sums of int64 offsets could wrap.
    """
    low, end = min(first, last), max(first, last) + nbytes
    if low < 0 or nbytes < 0 or end > array.nbytes:
        raise SizeMismatch(f"bytes {low} to {end} do not lie in {name} of {array.nbytes} bytes", pe=pe.me)


def _check_many(offsets: Offsets, widths: Offsets, array: Array, name: str, pe: PE) -> None:
    """As `_check_blocks`, for n blocks of their own widths (or of one)."""
    low, narrowest, widest = int(offsets.min()), int(widths.min()), int(widths.max())
    inside = low >= 0 and narrowest >= 0 and widest <= array.nbytes
    if not inside or int((offsets - (array.nbytes - widths)).max()) > 0:
        _check_blocks(low, int(offsets.max()), widest, array, name, pe)
        raise SizeMismatch(f"a block of {narrowest} to {widest} bytes is not in {name}", pe=pe.me)


def _count(value: object, name: str, pe: PE) -> int:
    return whole_number(value, name, pe.me, 0)


def _check_rows(
    array: Array, name: str, numbers: Offsets | None, stride: object, rows: int, nbytes: int, pe: PE
) -> int:  # fmt: skip
    """The stride of `rows` rows of `nbytes` in an array, those of `numbers` or the first ones.

    Raises SizeMismatch for a row outside the array and for another number of numbers, DtypeError.
    """
    step = whole_number(stride, f"{name}_stride", pe.me)
    if numbers is not None and len(numbers) != rows:
        raise SizeMismatch(f"{len(numbers)} {name}_rows for {rows} rows", pe=pe.me)
    if rows:
        first, last = (0, rows - 1) if numbers is None else (int(numbers.min()), int(numbers.max()))
        _check_blocks(first * step, last * step, nbytes, array, name, pe)
    return step if rows > 1 or (numbers is not None and numbers.any()) else 0


class Batch(Local, LinesInBatch):
    """Operation records in the order in which they will run. Ours; the methods add records, `run` runs them.

    After `run`: sources may be reused; puts are visible at their targets after a quiet or barrier in the batch, or
    `shmem.quiet()`. A `signal` or `atomic_add` covers the puts before it in the batch to the same PE: a fence is added
    before it where there are any.
    """

    def __init__(self) -> None:
        self._pe = current()
        self._parts: list[Records] = []
        self._keep: list[object] = []
        self._calls: dict[int, tuple[str, Members]] = {}  # texts and PEs of the barriers, by record
        self._awaits: dict[int, Await] = {}  # what a wait wants and what it sees, by record
        self._teams: list[Team] = []  # of the barriers
        self._compiled: Records | None = None
        self._places: list[tuple[int, int]] = []  # blocks of the own heap that the records name
        self._uncovered = False  # there are puts behind the last fence, quiet or barrier
        self._bulk = self._pe.fabric.bulk_bytes

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def _add(self, ops: Records, *keep: object) -> None:
        self._parts.append(ops)
        self._keep.extend(keep)
        self._compiled = None
        op = int(ops["op"][0])
        self._uncovered = op in _PUTS or (self._uncovered and op not in _COVERS)

    def _cover(self) -> None:
        """Puts take effect before what is added next."""
        if self._uncovered:
            self.fence()

    def _target(self, target: object) -> tuple[Array, int]:
        array = check_target(_contiguous(target, "target", self._pe), "target", self._pe.me)
        offset = symmetric(self._pe, array, array.size, "target").offset
        self._places.append((offset, array.nbytes))
        return array, offset

    def put(self, target: Array, source: Array, pe: int) -> None:
        """Copies all of source into target on PE `pe`. Both C-contiguous, of one dtype, target symmetric and
        not smaller."""
        to, offset = self._target(target)
        what = _contiguous(source, "source", self._pe)
        if what.dtype != to.dtype:
            raise DtypeError(f"source has dtype {what.dtype}, target {to.dtype}", pe=self._pe.me)
        if what.nbytes > to.nbytes:
            raise SizeMismatch(f"{what.nbytes} bytes into a target of {to.nbytes}", pe=self._pe.me)
        there = reach(self._pe, pe)
        self._add(record(Op.PUT, pe=there, dst=offset, src=address_of(what), n=what.nbytes), to, what)

    def put_many(
        self, target: Array, target_offsets: Offsets, source: Array, source_offsets: Offsets, nbytes: int | Offsets,
        pes: npt.NDArray[np.integer[Any]],
    ) -> None:  # fmt: skip
        """n blocks of bytes: block i goes from source_offsets[i] of source to target_offsets[i] of target on PE pes[i].

        target: symmetric. Offsets int64 [n], nbytes one number or int64 [n], pes [n]. One record (one work request) a
        block. Raises SizeMismatch for a block outside its array, InvalidPE, NotSymmetric, LayoutError, PeerDied.
        """
        to, offset = self._target(target)
        what = _contiguous(source, "source", self._pe)
        there = whole_numbers(pes, None, "pes", self._pe)
        n = len(there)
        if n == 0:
            return
        reach_all(self._pe, there)
        at = whole_numbers(target_offsets, n, "target_offsets", self._pe)
        sources = whole_numbers(source_offsets, n, "source_offsets", self._pe)
        one = isinstance(nbytes, (int, np.integer))
        widths = whole_numbers([nbytes] if one else nbytes, 1 if one else n, "nbytes", self._pe)
        for offsets, array, name in ((at, to, "target"), (sources, what, "source")):
            _check_many(offsets, widths, array, name, self._pe)
        ops: Records = np.zeros(n, RECORD)
        ops["op"], ops["pe"], ops["n"] = Op.PUT, there, widths
        np.add(at, offset, out=ops["dst"], casting="unsafe")
        np.add(sources, address_of(what), out=ops["src"], casting="unsafe")
        if int(np.sum(ops["n"])) >= self._bulk:
            ops["flags"] = STREAMING
        self._add(ops, to, what)

    def put_strided(
        self, target: Array, target_offset: int, target_stride: int,
        source: Array, source_offset: int, source_stride: int, width: int, n: int, pe: int,
    ) -> None:  # fmt: skip
        """n blocks of `width` bytes, strides apart in target and source; one record. Raises as `put_many`.

        n: as many as a stride allows; with strides of 0 all are the same block, which is copied once.
        """
        to, offset = self._target(target)
        what = _contiguous(source, "source", self._pe)
        many, nbytes = _count(n, "n", self._pe), _count(width, "width", self._pe)
        places = []
        for start, stride, array, name in ((target_offset, target_stride, to, "target"),
                                           (source_offset, source_stride, what, "source")):  # fmt: skip
            first = whole_number(start, f"{name}_offset", self._pe.me)
            step = whole_number(stride, f"{name}_stride", self._pe.me)
            if many:
                _check_blocks(first, first + (many - 1) * step, nbytes, array, name, self._pe)
            places += [first, step]
        if max(abs(places[1]), abs(places[3])) > STRIDE_MAX:
            raise ArgumentError("strides of 2 GiB and more", pe=self._pe.me)
        there = reach(self._pe, pe)
        if not many or not nbytes:
            return
        times = many if places[1] or places[3] else 1
        op = record(
            Op.PUT_STRIDED, pe=there, dst=offset + places[0], src=address_of(what) + places[2], n=times, value=nbytes,
            aux=strides(places[1], places[3]),
        )  # fmt: skip
        self._add(op, to, what)

    def _word(self, target: Array, index: int, value: object) -> dict[str, int]:
        """The fields of an atomic that say which word, and the value."""
        to, offset = self._target(target)
        kind = kind_of(to.dtype)
        if kind is None:
            raise DtypeError(f"a word of dtype {to.dtype}: it must be a 32- or 64-bit number", pe=self._pe.me)
        at = whole_number(index, "the index of a word", self._pe.me) * to.itemsize
        _check_blocks(at, at, to.itemsize, to, "target", self._pe)
        if (offset + at) % to.itemsize:
            raise LayoutError(f"a word at heap offset {offset + at:#x}, which is not aligned", pe=self._pe.me)
        self._keep.append(to)
        bits = scalar_bits(value, to.dtype, self._pe.me)
        return {"dst": offset + at, "width": to.itemsize, "value": bits, "aux": kind + 1}

    def signal(self, target: Array, index: int, value: object, pe: int) -> None:
        """Stores value atomically into element `index` of target on PE `pe`, after the puts before it, and
        wakes waiters."""
        word, there = self._word(target, index, value), reach(self._pe, pe)
        self._cover()
        self._add(record(Op.AMO, pe=there, flags=Amo.SET, **word))

    def atomic_add(self, target: Array, index: int, value: object, pe: int) -> None:
        """Adds value atomically to element `index` of the integer array target on PE `pe`, after the puts before it."""
        word = self._word(target, index, value)
        if target.dtype.kind == "f":
            raise DtypeError("atomic add has no meaning for floats here", pe=self._pe.me)
        there = reach(self._pe, pe)
        self._cover()
        self._add(record(Op.AMO, pe=there, flags=Amo.ADD, **word))

    def fence(self) -> None:
        """What is before takes effect before what is after, per target PE."""
        self._add(record(Op.FENCE))

    def quiet(self) -> None:
        """What is before is visible to all PEs when the batch goes on."""
        self._add(record(Op.QUIET))

    def barrier(self, call: str | None = None, team: Team | None = None) -> None:
        """Quiet, then a barrier of a team (default: all PEs).

        call: text of the collective call; a PE with another one raises SymmetryError on all. Raises TeamError.
        """
        if call is not None and not isinstance(call, str):
            raise ArgumentError(f"barrier({call!r}): a text is meant; a team is given as team=", pe=self._pe.me)
        members = members_of(self._pe, team)
        self._teams.extend([] if team is None else [team])
        text = "barrier in a batch" if call is None else call
        check = fingerprint(text) if self._pe.settings.check_symmetry else 0
        self._calls[len(self)] = text, members
        self._add(record(Op.BARRIER, width=members.slot, pe=members.pes[0], n=len(members.pes), value=check))

    def wait(self, words: Array, cmp: object, value: object) -> None:
        """Waits until every word of an own symmetric 1-D array of 32- or 64-bit integers satisfies `word cmp value`."""
        to, offset = self._target(words)
        kind = kind_of(to.dtype)
        if kind is None or kind >= Kind.F32:
            raise DtypeError(f"wait for words of dtype {to.dtype}: they must be 32- or 64-bit integers", pe=self._pe.me)
        if offset % to.itemsize:
            raise LayoutError(f"words at heap offset {offset:#x}, which is not aligned", pe=self._pe.me)
        bits = scalar_bits(value, to.dtype, self._pe.me)
        wanted = f"{to.size} words {comparison(cmp).name} {value} at heap offset {offset:#x}"
        self._awaits[len(self)] = wanted, lambda: np.array2string(to, threshold=16)
        self._add(record(Op.WAIT, dst=offset, n=to.size, width=kind, flags=comparison(cmp), value=bits), to)

    def cast(self, target: Array, source: Array) -> None:
        """Local: every element of source as target's dtype, as `source.astype(target.dtype)` has it, bit for bit.

        Between bfloat16, float32 and float8_e4m3fn, rounded to nearest even; what is too large for eight bits is NaN.
        Both C-contiguous, of one size, apart. Raises DtypeError for other pairs, SizeMismatch, ArgumentError (overlap).
        """
        to = check_target(_contiguous(target, "target", self._pe), "target", self._pe.me)
        what = _contiguous(source, "source", self._pe)
        how = cast_of(what.dtype, to.dtype)
        if how is None:
            raise DtypeError(f"no cast from {what.dtype} to {to.dtype}", pe=self._pe.me)
        if what.size != to.size:
            raise SizeMismatch(f"{what.size} elements cast into {to.size}", pe=self._pe.me)
        if np.may_share_memory(to, what):
            raise ArgumentError("target overlaps source", pe=self._pe.me)
        self._add(record(Op.CAST, dst=address_of(to), src=address_of(what), n=to.size, flags=how), to, what)

    def copy_rows(
        self, target: Array, target_rows: Offsets | None, target_stride: int,
        source: Array, source_rows: Offsets | None, source_stride: int, width: int, n: int | None = None,
    ) -> None:  # fmt: skip
        """Local: row i of `width` bytes from source to target. Rows are counted in strides; rows None means 0,
        1, 2, ... The row numbers are copied: changing them later changes nothing.

        n is needed only where both are None. Raises SizeMismatch for a row outside its array.
        """
        pe = self._pe
        nbytes, given = _count(width, "width", pe), {"target_rows": target_rows, "source_rows": source_rows}
        chosen = {name: whole_numbers(one, None, name, pe) for name, one in given.items() if one is not None}
        rows = len(next(iter(chosen.values()))) if chosen else _count(0 if n is None else n, "n", pe)
        detail = self._detail(chosen)
        for array, stride, name in ((target, target_stride, "target"), (source, source_stride, "source")):
            where, numbers = _contiguous(array, name, pe), chosen.get(f"{name}_rows")
            detail[f"{name}_stride"] = _check_rows(where, name, numbers, stride, rows, nbytes, pe)
        check_target(target, "target", pe.me)
        detail["width"] = nbytes
        if not rows or not nbytes:
            return
        if not chosen and not detail["target_stride"].any() and not detail["source_stride"].any():
            rows = 1  # the same one again and again
        flags = STREAMING if rows * nbytes >= self._bulk else 0
        op = record(Op.COPY_ROWS, dst=address_of(target), src=address_of(source), n=rows, aux=address_of(detail))
        op["flags"] = flags
        self._add(op, detail, target, source)

    def _detail(self, chosen: dict[str, Offsets]) -> npt.NDArray[np.void]:
        """The descriptor of a row operation, with the row numbers of either side."""
        detail: npt.NDArray[np.void] = np.zeros(1, ROWS)
        for name, rows in chosen.items():
            fixed = np.array(rows, np.int64)  # a copy: what was checked here is what will run
            self._keep.append(fixed)
            detail[name] = address_of(fixed)
        return detail

    def reduce_rows(
        self, target: Array, target_stride: int, offsets: Offsets, source: Array, width: int,
        bias: Array | tuple[Array, ...] | None = None,
    ) -> None:  # fmt: skip
        """Local, exact: row i of target (bf16, `width` elements) = the sum of bf16 rows of source in the given order.

        offsets: int64 [rows, terms], byte offsets into source, -1 = no term. The sum starts at fp32 +0.0, adds row i of
        each bias ([rows, width] bf16, at most two), then the terms one after the other, and rounds once to
        nearest even. Raises SizeMismatch for a row outside its array.
        """
        pe = self._pe
        places = np.ascontiguousarray(integers(offsets, "offsets", pe))
        if places.ndim != 2:
            raise SizeMismatch(f"offsets must be of shape [rows, terms], not {list(places.shape)}", pe=pe.me)
        rows, terms = places.shape
        biases = () if bias is None else bias if isinstance(bias, tuple) else (bias,)
        if len(biases) > 2:
            raise ArgumentError(f"{len(biases)} biases; at most two", pe=pe.me)
        to, what = _contiguous(target, "target", pe), _contiguous(source, "source", pe)
        check_target(to, "target", pe.me)
        elements = _count(width, "width", pe)
        step = _check_rows(to, "target", None, target_stride, rows, 2 * elements, pe)
        if terms and rows:
            _check_blocks(0, max(0, int(places.max())), 2 * elements, what, "source", pe)
        if not rows or not elements:
            return
        detail = self._detail({"source_rows": places.reshape(-1)})
        detail["target_stride"], detail["width"], detail["terms"] = step, elements, terms
        for i, one in enumerate(biases):
            if _contiguous(one, "bias", pe).nbytes < rows * elements * 2:
                raise SizeMismatch(f"a bias of {one.nbytes} bytes for {rows} rows of {elements} bf16", pe=pe.me)
            detail[f"bias{i}"] = address_of(one)
        op = record(Op.REDUCE_ROWS, dst=address_of(to), src=address_of(what), n=rows, aux=address_of(detail))
        self._add(op, detail, to, what, *biases)

    def run(self, ctx: object = None, *, timeout: float | None = None) -> None:
        """Runs all records in order; returns when the last has run.

        ctx: whose quiet completes them; the PEs of a batch are numbers of the job, whatever the context's team.
        timeout: seconds for the waits and barriers in it, default SHMEMU_TIMEOUT_S. Raises SymmetryError, ShmemTimeout
        and PeerDied from those, CompletionError where a quiet finds that a queue pair has failed.
        """
        pe, q = self._pe, check_context(ctx)
        ops, at = self.compiled(), 0

        def step(seconds: float) -> Status:
            nonlocal at
            status, at = pe.fabric.submit(q, ops, at, seconds)
            return status

        status = until(pe, step, lambda: self.awaited(at), lambda: self.seen(at), timeout)
        if status is Status.MISMATCH:
            self.raise_differing(at)

    def launch(self, stream: Stream, ctx: object = None, *, timeout: float | None = None) -> Event:
        """Has a stream run the records, after what was launched on it before, while the program goes on.

        The batch and the arrays it names must not be changed before the event is done. timeout: seconds from the start
        of the batch on the stream. Returns the event, which raises what `run` would raise.
        """
        if not isinstance(stream, Stream):
            raise DtypeError(f"stream is {stream!r}: a Stream is needed", pe=self._pe.me)
        return stream.launch(self, check_context(ctx), timeout)

    def compiled(self) -> Records:
        """The records as one array. Raises FreedBlock if one names a block freed since, TeamError for a team destroyed
        since, StateError after finalize."""
        pe = self._pe
        if current() is not pe:
            raise StateError("this batch belongs to a job that was finalised", pe=pe.me)
        for offset, nbytes in self._places:
            if nbytes and not pe.heap.live(offset, nbytes):
                raise FreedBlock(f"the batch names a block that was freed since (heap offset {offset:#x})", pe=pe.me)
        for team in self._teams:
            resolve(team)
        if self._compiled is None:
            self._compiled = np.concatenate(self._parts) if self._parts else np.zeros(0, RECORD)
        return self._compiled

    def _names(self, address: int, nbytes: int) -> bool:
        """Whether a record reads or writes some of these bytes of the own heap, or the same ones of a peer's."""
        arrays = [kept for kept in self._keep if isinstance(kept, np.ndarray)]
        return any(address_of(a) < address + nbytes and address < address_of(a) + a.nbytes for a in arrays)

    def _meets(self, team: Team) -> bool:
        """Whether there is a barrier of that team in it."""
        return team in self._teams

    def raise_differing(self, at: int) -> None:
        """Raises SymmetryError with every PE's call, after the barrier at record `at` found them to differ."""
        text, members = self._calls[at]
        raise_differing(self._pe, members, text)

    def awaited(self, at: int) -> str:
        """What record `at` waits for."""
        ops = self.compiled()
        if at >= len(ops):
            return "nothing"
        op = ops[at]
        if op["op"] == Op.BARRIER:
            text, members = self._calls[at]
            return awaited(self._pe, members, text)
        return self._awaits[at][0] if at in self._awaits else f"record {at}"

    def seen(self, at: int) -> str:
        """What the wait of record `at` sees now."""
        ops = self.compiled()
        if at < len(ops) and ops[at]["op"] == Op.BARRIER:
            return missing(self._pe, self._calls[at][1])
        if at in self._awaits:
            return self._awaits[at][1]()
        return f"record {at} of {len(ops)} unfinished"
