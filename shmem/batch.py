"""Many operation records, filled by NumPy and run by one native loop, in order.

This is what a library on top of `shmem` sends with: preparing n puts costs a few NumPy calls, running them a few
nanoseconds each. Offsets and strides are bytes from the start of the array given beside them. A batch keeps
references to its arrays and may be run again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .barriers import raise_differing
from .enums import comparison
from .errors import ArgumentError, DtypeError, LayoutError, SizeMismatch
from .fabric.interface import Status
from .ordering import check_context
from .records import RECORD, ROWS, STREAMING, Amo, Kind, Op, Records, fingerprint, kind_of, record, strides
from .rma import reach
from .runtime import PE, current
from .views import Array, address_of, check_array, scalar_bits, symmetric
from .waiting import until

Offsets = npt.NDArray[np.int64]


def _contiguous(array: object, name: str, pe: PE) -> Array:
    checked = check_array(array, name, pe.me)
    if not checked.flags.c_contiguous:
        raise LayoutError(f"{name} must be C-contiguous in a batch", pe=pe.me)
    return checked


def _within(offsets: Any, nbytes: Any, array: Array, name: str, pe: PE) -> None:
    """Raises SizeMismatch unless every block [offset, offset + nbytes) lies in the array."""
    low, high = np.min(offsets, initial=0), np.max(offsets + nbytes, initial=0)
    if low < 0 or high > array.nbytes or np.min(nbytes, initial=0) < 0:
        raise SizeMismatch(f"a block of bytes {low} to {high} does not lie in {name} of {array.nbytes} bytes", pe=pe.me)


class Batch:
    """Operation records in the order in which they will run. Ours; the methods add records, `run` runs them.

    After `run`: sources may be reused; puts are visible at their targets after a quiet or barrier in the batch, or
    `shmem.quiet()`. A `signal` or `atomic_add` covers the puts before it in the batch to the same PE.
    """

    def __init__(self) -> None:
        self._pe = current()
        self._parts: list[Records] = []
        self._keep: list[object] = []
        self._calls: dict[int, str] = {}
        self._compiled: Records | None = None
        self._bulk = self._pe.fabric.bulk_bytes

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def _add(self, ops: Records, *keep: object) -> None:
        self._parts.append(ops)
        self._keep.extend(keep)
        self._compiled = None

    def _target(self, target: object) -> tuple[Array, int]:
        array = _contiguous(target, "target", self._pe)
        return array, symmetric(self._pe, array, array.size, "target").offset

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
        there = np.asarray(pes)
        _within(np.asarray(target_offsets), nbytes, to, "target", self._pe)
        _within(np.asarray(source_offsets), nbytes, what, "source", self._pe)
        self._check_pes(there)
        ops: Records = np.zeros(len(there), RECORD)
        ops["op"], ops["pe"], ops["n"] = Op.PUT, there, nbytes
        np.add(target_offsets, offset, out=ops["dst"], casting="unsafe")
        np.add(source_offsets, address_of(what), out=ops["src"], casting="unsafe")
        if int(np.sum(ops["n"])) >= self._bulk:
            ops["flags"] = STREAMING
        self._add(ops, to, what)

    def _check_pes(self, pes: npt.NDArray[Any]) -> None:
        if len(pes):
            reach(self._pe, int(pes.min()))
            reach(self._pe, int(pes.max()))
        for dead in self._pe.fabric.dead(look=False):
            if dead in pes:
                reach(self._pe, dead)

    def put_strided(
        self, target: Array, target_offset: int, target_stride: int,
        source: Array, source_offset: int, source_stride: int, width: int, n: int, pe: int,
    ) -> None:  # fmt: skip
        """n blocks of `width` bytes, strides apart in target and source; one record. Raises as `put_many`."""
        to, offset = self._target(target)
        what = _contiguous(source, "source", self._pe)
        if n <= 0:
            return
        for start, stride, array, name in ((target_offset, target_stride, to, "target"),
                                           (source_offset, source_stride, what, "source")):  # fmt: skip
            _within(np.array([start, start + (n - 1) * stride]), width, array, name, self._pe)
        if max(abs(target_stride), abs(source_stride)) >= 1 << 31:
            raise ArgumentError("strides of 2 GiB and more", pe=self._pe.me)
        op = record(
            Op.PUT_STRIDED, pe=reach(self._pe, pe), dst=offset + target_offset, src=address_of(what) + source_offset,
            n=n, value=width, aux=strides(target_stride, source_stride),
        )  # fmt: skip
        self._add(op, to, what)

    def _word(self, target: Array, index: int, value: object) -> tuple[int, int, int]:
        to, offset = self._target(target)
        if kind_of(to.dtype) is None:
            raise DtypeError(f"a word of dtype {to.dtype}: it must be a 32- or 64-bit number", pe=self._pe.me)
        _within(np.array([index * to.itemsize]), to.itemsize, to, "target", self._pe)
        self._keep.append(to)
        return offset + index * to.itemsize, to.itemsize, scalar_bits(value, to.dtype, self._pe.me)

    def signal(self, target: Array, index: int, value: object, pe: int) -> None:
        """Stores value atomically into element `index` of target on PE `pe`, after the puts before it, and
        wakes waiters."""
        word, width, bits = self._word(target, index, value)
        self._add(record(Op.AMO, pe=reach(self._pe, pe), dst=word, width=width, flags=Amo.SET, value=bits))

    def atomic_add(self, target: Array, index: int, value: object, pe: int) -> None:
        """Adds value atomically to element `index` of the integer array target on PE `pe`, after the puts before it."""
        word, width, bits = self._word(target, index, value)
        if target.dtype.kind == "f":
            raise DtypeError("atomic add has no meaning for floats here", pe=self._pe.me)
        self._add(record(Op.AMO, pe=reach(self._pe, pe), dst=word, width=width, flags=Amo.ADD, value=bits))

    def fence(self) -> None:
        """What is before takes effect before what is after, per target PE."""
        self._add(record(Op.FENCE))

    def quiet(self) -> None:
        """What is before is visible to all PEs when the batch goes on."""
        self._add(record(Op.QUIET))

    def barrier(self, call: str | None = None) -> None:
        """Quiet, then a barrier of all PEs. `call`: text of the collective call; a PE with another one raises
        SymmetryError on all."""
        members = self._pe.members
        text = "barrier in a batch" if call is None else call
        check = fingerprint(text) if self._pe.settings.check_symmetry else 0
        self._calls[len(self)] = text
        self._add(record(Op.BARRIER, width=members.slot, pe=members.pes[0], n=len(members.pes), value=check))

    def wait(self, words: Array, cmp: object, value: object) -> None:
        """Waits until every word of an own symmetric 1-D array of 32- or 64-bit integers satisfies `word cmp value`."""
        to, offset = self._target(words)
        kind = kind_of(to.dtype)
        if kind is None or kind >= Kind.F32:
            raise DtypeError(f"wait for words of dtype {to.dtype}: they must be 32- or 64-bit integers", pe=self._pe.me)
        bits = scalar_bits(value, to.dtype, self._pe.me)
        self._add(record(Op.WAIT, dst=offset, n=to.size, width=kind, flags=comparison(cmp), value=bits), to)

    def copy_rows(
        self, target: Array, target_rows: Offsets | None, target_stride: int,
        source: Array, source_rows: Offsets | None, source_stride: int, width: int, n: int | None = None,
    ) -> None:  # fmt: skip
        """Local: row i of `width` bytes from source to target. Rows are counted in strides; rows None means 0,
        1, 2, ...

        n is needed only where both are None. Raises SizeMismatch for a row outside its array.
        """
        index = target_rows if target_rows is not None else source_rows
        rows = len(index) if index is not None else int(n or 0)
        if rows == 0:
            return
        for array, chosen, stride, name in ((target, target_rows, target_stride, "target"),
                                            (source, source_rows, source_stride, "source")):  # fmt: skip
            low, high = (0, rows - 1) if chosen is None else (int(chosen.min()), int(chosen.max()))
            _within(np.array([low, high]) * stride, width, _contiguous(array, name, self._pe), name, self._pe)
        detail = self._detail(target_rows, source_rows)
        detail["target_stride"], detail["source_stride"], detail["width"] = target_stride, source_stride, width
        flags = STREAMING if rows * width >= self._bulk else 0
        op = record(Op.COPY_ROWS, dst=address_of(target), src=address_of(source), n=rows, aux=address_of(detail))
        op["flags"] = flags
        self._add(op, detail, target, source)

    def _detail(self, target_rows: Offsets | None, source_rows: Offsets | None) -> npt.NDArray[np.void]:
        detail: npt.NDArray[np.void] = np.zeros(1, ROWS)
        for name, rows in (("target_rows", target_rows), ("source_rows", source_rows)):
            if rows is not None:
                fixed = np.ascontiguousarray(rows, np.int64)
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
        places = np.ascontiguousarray(offsets, np.int64)
        rows, terms = places.shape
        biases = () if bias is None else bias if isinstance(bias, tuple) else (bias,)
        if len(biases) > 2:
            raise ArgumentError(f"{len(biases)} biases; at most two", pe=self._pe.me)
        if rows == 0:
            return
        to, what = _contiguous(target, "target", self._pe), _contiguous(source, "source", self._pe)
        _within(np.array([0, (rows - 1) * target_stride]), 2 * width, to, "target", self._pe)
        _within(np.maximum(places, 0), 2 * width, what, "source", self._pe) if terms else None
        detail = self._detail(None, places.reshape(-1))
        detail["target_stride"], detail["width"], detail["terms"] = target_stride, width, terms
        for i, one in enumerate(biases):
            if _contiguous(one, "bias", self._pe).nbytes < rows * width * 2:
                raise SizeMismatch(f"a bias of {one.nbytes} bytes for {rows} rows of {width} bf16", pe=self._pe.me)
            detail[f"bias{i}"] = address_of(one)
        op = record(Op.REDUCE_ROWS, dst=address_of(to), src=address_of(what), n=rows, aux=address_of(detail))
        self._add(op, detail, to, what, *biases)

    def run(self, ctx: object = None, *, timeout: float | None = None) -> None:
        """Runs all records in order; returns when the last has run.

        timeout: seconds for the waits and barriers in it, default SHMEMU_TIMEOUT_S. Raises SymmetryError, ShmemTimeout
        and PeerDied from those.
        """
        pe, q = self._pe, check_context(ctx)
        if self._compiled is None:
            self._compiled = np.concatenate(self._parts) if self._parts else np.zeros(0, RECORD)
        ops, at = self._compiled, 0

        def step(seconds: float) -> Status:
            nonlocal at
            status, at = pe.fabric.submit(q, ops, at, seconds)
            return status

        status = until(pe, step, lambda: self._awaited(ops, at), lambda: self._seen(ops, at), timeout)
        if status is Status.MISMATCH:
            raise_differing(pe, pe.members, self._calls[at])

    def _awaited(self, ops: Records, at: int) -> str:
        if at >= len(ops):
            return "nothing"
        op = ops[at]
        if op["op"] == Op.BARRIER:
            return f"all PEs in {self._calls[at]}"
        return f"{op['n']} words at heap offset {int(op['dst']):#x} to satisfy comparison {int(op['flags'])}"

    def _seen(self, ops: Records, at: int) -> str:
        from .barriers import missing

        if at < len(ops) and ops[at]["op"] == Op.BARRIER:
            return missing(self._pe, self._pe.members)
        return f"record {at} of {len(ops)} unfinished"
