"""The operation record: everything that leaves a PE, and everything a stream does, as 64 bytes of data.

`put(...)` makes one, `shmem.Batch` holds many; a fabric takes arrays of them and nothing else. The C core has the
same layout (`sm_op`). Offsets count bytes from the start of a heap, addresses are this process's own.

| op | what it does | fields |
|---|---|---|
| PUT | copy n bytes to a PE | pe, dst offset, src address, n; flags NBI, STREAMING |
| GET | copy n bytes from a PE | pe, dst address, src offset, n; flags NBI, STREAMING |
| PUT_STRIDED, GET_STRIDED | n blocks of `value` bytes | as above; aux = remote stride, local stride (two
int32, bytes) |
| AMO | atomic on one word | pe, dst offset, width 4 or 8, flags = Amo (and NBI), value, cond; src address of the
result or 0; aux = its Kind and 1, 0 = not said |
| PUT_SIGNAL | PUT, then update a word | as PUT; aux = offset of the signal, value, flags = SIGNAL (and NBI) |
| FENCE, QUIET | order, complete | |
| WAIT | until n own words satisfy a comparison | dst offset, n, width = Kind, flags = CMP, value |
| BARRIER | quiet, then arrive and wait | width = slot, pe = leader, n = members, value = fingerprint of the call |
| COPY_ROWS, REDUCE_ROWS | local rows, see `Batch` | dst, src address, n rows, aux = address of a rows descriptor |
| PUT_LINES | n bytes as lines that carry a flag | pe, dst offset, src address, n, value = flag, cond = lines to write,
aux = address of a `LINES` descriptor |
| POLL_LINES | wait for lines, take n bytes out | dst address, src own offset, n, value = flag, aux as above |
| CAST | local: n elements of another dtype | dst, src address, n, flags = Cast |
| REDUCE | fold arrays of several PEs, in order | dst address, n elements, width = Element, flags = Fold,
value = number of terms, aux = address of the `TERM`s |
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

RECORD = np.dtype(
    [
        ("op", "u1"), ("flags", "u1"), ("width", "u2"), ("pe", "i4"), ("dst", "u8"), ("src", "u8"), ("n", "u8"),
        ("value", "u8"), ("cond", "u8"), ("aux", "u8"), ("id", "u8"),
    ]
)  # fmt: skip
ROWS = np.dtype(
    [
        (name, "i8")
        for name in (
            "target_rows", "target_stride", "source_rows", "source_stride", "width", "terms", "bias0", "bias1",
        )
    ]
)  # fmt: skip
assert RECORD.itemsize == ROWS.itemsize == 64
TERM = np.dtype([("pe", "i8"), ("offset", "u8")])  # of a REDUCE: elements in the heap of a PE; no terms give zeros
# One own word (an offset in the heap), what it is compared with (as bits), and how: see `Fabric.wait`.
CONDITION = np.dtype([("offset", "u8"), ("value", "u8"), ("kind", "u4"), ("cmp", "u4")])

RUNS_MAX = 8  # runs of equal cells in a line
CELLS = np.dtype(
    [
        ("unit", "u8"), ("mask", "u8"), ("at", "u4"), ("n", "u4"), ("start", "u4"), ("width", "u2"), ("shift", "u2"),
    ]
)  # fmt: skip
# A layout of lines as the C core takes it (`sm_lines`); `shmem.layout` says what the fields mean.
LINES = np.dtype(
    [
        ("line", "u8"), ("step", "u8"), ("data", "u8"), ("tail", "u8"), ("order", "u4"), ("reader", "u4"),
        ("group", "u4"), ("runs", "u4"), ("cells", CELLS, RUNS_MAX),
    ]
)  # fmt: skip
assert LINES.itemsize == 48 + 32 * RUNS_MAX

STREAMING = 0x80  # flag of PUT, GET and COPY_ROWS: the bytes bypass the cache
NBI = 0x40  # flag of puts, gets and AMO: source and result are the operation's until a quiet

Records = npt.NDArray[np.void]
Conditions = npt.NDArray[np.void]


class Op(IntEnum):
    """Operation codes of `RECORD`."""

    NOP = 0
    PUT = 1
    GET = 2
    PUT_STRIDED = 3
    GET_STRIDED = 4
    AMO = 5
    PUT_SIGNAL = 6
    FENCE = 7
    QUIET = 8
    WAIT = 9
    BARRIER = 10
    COPY_ROWS = 11
    REDUCE_ROWS = 12
    PUT_LINES = 13
    POLL_LINES = 14
    CAST = 15
    REDUCE = 16


class Amo(IntEnum):
    """What an AMO record does to its word; all but SET return the old value."""

    FETCH = 0
    SET = 1
    ADD = 2
    SWAP = 3
    COMPARE_SWAP = 4
    AND = 5
    OR = 6
    XOR = 7


class Kind(IntEnum):
    """Types of the words that atomics and waits work on."""

    I32 = 0
    U32 = 1
    I64 = 2
    U64 = 3
    F32 = 4
    F64 = 5


class Cast(IntEnum):
    """Conversions of a CAST record: source and target, of bfloat16, float32 and float8_e4m3fn."""

    BF16_TO_F32 = 0
    F32_TO_BF16 = 1
    BF16_TO_F8 = 2
    F32_TO_F8 = 3
    F8_TO_BF16 = 4
    F8_TO_F32 = 5


_CASTABLE = {"bfloat16": "BF16", "float32": "F32", "float8_e4m3fn": "F8"}


def cast_of(source: np.dtype[np.generic], target: np.dtype[np.generic]) -> Cast | None:
    """The conversion between two dtypes (native byte order), None where there is none."""
    names = [_CASTABLE.get(dtype.name, "") if dtype.isnative else "" for dtype in (source, target)]
    return Cast.__members__.get("_TO_".join(names))


class Fold(IntEnum):
    """What a REDUCE record does to the terms of an element."""

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AND = 4
    OR = 5
    XOR = 6


class Element(IntEnum):
    """Types of the elements that a REDUCE record knows; the last two are summed in fp32 and rounded once."""

    I8 = 0
    U8 = 1
    I16 = 2
    U16 = 3
    I32 = 4
    U32 = 5
    I64 = 6
    U64 = 7
    F32 = 8
    F64 = 9
    LONG_DOUBLE = 10
    C64 = 11
    C128 = 12
    C_LONG_DOUBLE = 13
    BF16 = 14
    F16 = 15


_KINDS = {np.dtype(code): kind for code, kind in zip(("i4", "u4", "i8", "u8", "f4", "f8"), Kind, strict=True)}


def kind_of(dtype: np.dtype[np.generic]) -> Kind | None:
    """The kind of word that a dtype is (native byte order), None for all others."""
    return _KINDS.get(dtype)


def record(
    op: Op, *, flags: int = 0, width: int = 0, pe: int = 0, dst: int = 0, src: int = 0, n: int = 0, value: int = 0,
    cond: int = 0, aux: int = 0, id: int = 0,
) -> Records:  # fmt: skip
    """One record as an array of length 1."""
    return np.array([(op, flags, width, pe, dst, src, n, value, cond, aux, id)], RECORD)


def conditions(offsets: Sequence[int], kind: Kind, cmp: int, values: Sequence[int]) -> Conditions:
    """The conditions `word cmp value` for own words of one kind; values as bit patterns."""
    many: Conditions = np.zeros(len(offsets), CONDITION)
    many["offset"], many["value"], many["kind"], many["cmp"] = offsets, values, kind, cmp
    return many


STRIDE_MAX = (1 << 31) - 1  # bytes; a record holds strides as int32


def strides(remote: int, local: int) -> int:
    """The two strides of a strided record, in bytes, as its `aux` field; none larger than STRIDE_MAX."""
    assert max(abs(remote), abs(local)) <= STRIDE_MAX, "checked where the layout is"
    return (remote & 0xFFFFFFFF) | (local & 0xFFFFFFFF) << 32


FINALIZE = "finalize()"  # as a collective call
REFUSED = 2  # stands for a call that was refused, and differs from all others, also where these are not compared


_PRIME = (1 << 63) - 25  # the largest below 2**63


@lru_cache(maxsize=4096)
def fingerprint(call: str) -> int:
    """The 64-bit number that stands for a collective call in a barrier; always odd. Calls that differ within seven
    bytes never share one. (No digest of hashlib: that loads OpenSSL into every PE.)"""
    return int.from_bytes(call.encode(), "little") % _PRIME << 1 | 1
