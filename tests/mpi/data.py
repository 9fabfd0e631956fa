"""What the tests move: dtypes, payloads that name their origin, and a channel that is not ours to compare by.

A payload depends on who sends it to whom, so bytes that come from another PE, another place or another time differ.
Comparisons are of bytes: NaNs are equal to themselves that way.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import shmem

Array = npt.NDArray[Any]

INTEGERS = [np.dtype(f"{sign}{width}") for sign in "iu" for width in (1, 2, 4, 8)]
FLOATS = [np.dtype(name) for name in ("e", "f", "d", "g")]
LONG = (np.dtype("g"), np.dtype("G"))
COMPLEX = [np.dtype(name) for name in ("F", "D", "G")]
SMALL_FLOATS = [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu")
]
ODD = [
    np.dtype("?"),
    np.dtype("S5"),
    np.dtype("U3"),
    np.dtype("M8[ns]"),
    np.dtype(">i4"),
    np.dtype([("tag", "i4"), ("value", "f8")]),
    np.dtype((np.void, 7)),
]
DTYPES = [*INTEGERS, *FLOATS, *COMPLEX, *SMALL_FLOATS, *ODD]
WORDS = [np.dtype(name) for name in ("i4", "u4", "i8", "u8")]
FLOAT_WORDS = [np.dtype("f4"), np.dtype("f8")]


def dtype_id(dtype: object) -> str | None:
    """How a dtype is named in a test's id."""
    if not isinstance(dtype, np.dtype):
        return None
    if dtype.names:
        return "struct"
    return dtype.name if dtype.isnative else f"{dtype.name}-swapped"


def payload(dtype: np.dtype[Any], count: int, *seed: int) -> Array:
    """`count` elements that depend on every number of `seed`; any bits at all where the dtype allows them."""
    rng = np.random.default_rng([17, *seed])
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(dtype)
    if dtype.kind == "U":
        return rng.integers(0x20, 0x7F, (count, dtype.itemsize // 4)).astype("u4").view(dtype).reshape(count)
    if dtype in LONG:  # not any bits are a number
        numbers = rng.standard_normal(count * (2 if dtype.kind == "c" else 1)).astype("g")
        if np.finfo("g").nmant == 63:  # x87: ten bytes and padding
            numbers.view(np.uint8).reshape(-1, numbers.itemsize)[:, 10:] = 0
        return numbers.view(dtype)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()


def same(got: Array, wanted: Array) -> bool:
    """Whether two arrays have the same shape, dtype and bytes; of long doubles, whose elements have padding, values."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    return np.array_equal(got, wanted) if got.dtype in LONG else got.tobytes() == wanted.tobytes()


def peers() -> list[int]:
    """All PEs, beginning with oneself, so that each is at once the target of another."""
    me, n = shmem.my_pe(), shmem.n_pes()
    return [(me + i) % n for i in range(n)]


def everyone(value: Any) -> list[Any]:
    """The value of each PE, by way of MPI and not of what is tested."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.allgather(value)


def rank() -> int:
    """The own number according to MPI, which outlives shmem."""
    from mpi4py import MPI

    return int(MPI.COMM_WORLD.rank)


def stop() -> None:
    """Finalizes shmem, however often it was started. Collective."""
    shmem.init()
    while shmem.initialized():
        shmem.finalize()
