"""The cast of a batch equals ml_dtypes bit for bit, over every input of 8 and 16 bits and many of 32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import shmem

from .data import Array

pytestmark = pytest.mark.mpi

BF16, F32, F8 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(ml_dtypes.float8_e4m3fn)
PAIRS = [(source, target) for source in (BF16, F32, F8) for target in (BF16, F32, F8) if source != target]


def bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def edges() -> Array:
    """The float32 patterns around every bfloat16 and float8 value, and half way between two of them."""
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    around = [high + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    eighths = (np.arange(1 << 12, dtype=np.uint32) << 20)[:, None] + np.array(
        [0, 1, 0x7FFFF, 0x80000, 0x80001, 0xFFFFF]
    )
    return np.concatenate([*around, eighths.reshape(-1).astype(np.uint32)])


def inputs(dtype: np.dtype) -> Array:
    if dtype != F32:
        return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    rng = np.random.default_rng(shmem.my_pe())
    any_bits = rng.integers(0, 1 << 32, 300_000, np.uint32)
    small = (rng.standard_normal(300_000) * 2.0 ** rng.integers(-14, 11, 300_000)).astype(F32)
    return np.concatenate([edges().view(F32), any_bits.view(F32), small])


def cast(source: Array, dtype: np.dtype, fill: int = 0x5A) -> Array:
    target = np.full(source.size * dtype.itemsize, fill, np.uint8).view(dtype).reshape(source.shape)
    batch = shmem.Batch()
    batch.cast(target, source)
    batch.run()
    return target


@pytest.mark.core
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_every_value(source, target):
    values = inputs(source)
    with np.errstate(all="ignore"):
        wanted = values.astype(target)
    got = cast(values, target)
    wrong = np.flatnonzero(bits(got) != bits(wanted))
    assert not len(wrong), [(hex(bits(values)[i]), hex(bits(got)[i]), hex(bits(wanted)[i])) for i in wrong[:5]]


def test_values_by_hand():
    """What the numbers are, without ml_dtypes: ties to even, subnormals, what is too large, zeros and NaN."""
    to_f8 = [
        (0.0, 0x00), (-0.0, 0x80), (1.0, 0x38), (1.0625, 0x38), (1.0626, 0x39), (1.1875, 0x3A), (448.0, 0x7E),
        (464.0, 0x7E), (464.1, 0x7F), (-464.1, 0xFF), (float("inf"), 0x7F), (float("-inf"), 0xFF), (2.0**-9, 0x01),
        (2.0**-10, 0x00), (1.5 * 2.0**-9, 0x02), (2.0**-6, 0x08), (2.0**-6 - 2.0**-11, 0x08), (-(2.0**-7), 0x84),
        (1e-40, 0x00),
    ]  # fmt: skip
    assert bits(cast(np.array([value for value, _ in to_f8], F32), F8)).tolist() == [wanted for _, wanted in to_f8]
    to_bf16 = {1.00390625: 0x3F80, 1.01171875: 0x3F82, 3.4e38: 0x7F80, -1.0: 0xBF80}
    assert bits(cast(np.array(list(to_bf16), F32), BF16)).tolist() == list(to_bf16.values())


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_every_length_and_no_byte_more(source, target):
    values = inputs(source)[3:]
    for size in [*range(40), 250]:
        memory = np.full((size + 2) * target.itemsize, 0x5A, np.uint8)
        inside = memory[target.itemsize : -target.itemsize]
        batch = shmem.Batch()
        batch.cast(inside.view(target), values[:size])
        batch.run()
        with np.errstate(all="ignore"):
            wanted = values[:size].astype(target)
        assert inside.tobytes() == wanted.tobytes()
        assert (memory[: target.itemsize] == 0x5A).all()
        assert (memory[-target.itemsize :] == 0x5A).all()


def test_elements_need_not_be_aligned():
    values = np.arange(1000, dtype=F32)
    odd = np.zeros(4001, np.uint8)[1:].view(F32)
    odd[...] = values
    assert (cast(odd, BF16) == values.astype(BF16)).all()
    target = np.zeros(4001, np.uint8)[1:].view(F32)
    batch = shmem.Batch()
    batch.cast(target, values.astype(BF16))
    batch.run()
    assert (target == values.astype(BF16).astype(F32)).all()


def test_a_stream_casts_what_it_received():
    """fp32 to eight bits, to a peer, and back to bf16, all in one batch."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, words = shmem.zeros(600, F8), shmem.zeros(1, np.int64)
    source = np.random.default_rng(me).standard_normal((20, 30)).astype(F32)
    small, got = np.zeros(600, F8), np.zeros((20, 30), BF16)
    batch = shmem.Batch()
    batch.cast(small, source)
    batch.put(x, small, (me + 1) % n)
    batch.signal(words, 0, 1, (me + 1) % n)
    batch.wait(words, "==", 1)
    batch.cast(got, x)
    batch.run()
    sent = np.random.default_rng((me - 1) % n).standard_normal((20, 30)).astype(F32)
    assert got.tobytes() == sent.astype(F8).astype(BF16).tobytes()
    shmem.barrier_all()
    shmem.free(words)
    shmem.free(x)


A, B = np.zeros(8, F32), np.zeros(8, BF16)
FIXED = B.view()
FIXED.flags.writeable = False
WRONG = {
    "same dtype": (shmem.DtypeError, lambda b: b.cast(A.copy(), A)),
    "float64": (shmem.DtypeError, lambda b: b.cast(A, A.astype(np.float64))),
    "float16": (shmem.DtypeError, lambda b: b.cast(A.astype(np.float16), A)),
    "other eight bits": (shmem.DtypeError, lambda b: b.cast(A.astype(ml_dtypes.float8_e5m2), A)),
    "bytes swapped": (shmem.DtypeError, lambda b: b.cast(B, A.astype(">f4"))),
    "integers": (shmem.DtypeError, lambda b: b.cast(B, A.astype(np.int32))),
    "a list": (shmem.DtypeError, lambda b: b.cast(B, [1.0] * 8)),
    "fewer": (shmem.SizeMismatch, lambda b: b.cast(B, A[:7])),
    "more": (shmem.SizeMismatch, lambda b: b.cast(B[:7], A)),
    "strided source": (shmem.LayoutError, lambda b: b.cast(B[:4], A[::2])),
    "strided target": (shmem.LayoutError, lambda b: b.cast(B[::2], A[:4])),
    "read-only": (shmem.ArgumentError, lambda b: b.cast(FIXED, A)),
    "overlap": (shmem.ArgumentError, lambda b: b.cast(A.view(BF16)[:8], A)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_add_no_record(case):
    error, call = WRONG[case]
    batch = shmem.Batch()
    with pytest.raises(error):
        call(batch)
    assert len(batch) == 0
