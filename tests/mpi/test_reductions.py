"""Reductions: the first PE's value, then one PE after the other, to the bit.

The oracle folds the payloads of all PEs in a Python loop, PE by PE: in the type of the elements, of complex products
by real ones, of small floats in float32 with one rounding at the end.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import shmem

from .data import COMPLEX, INTEGERS, LONG, dtype_id, payload, same
from .groups import SIZES, TEAMS, free, new

pytestmark = pytest.mark.mpi
BOOL = np.dtype("?")
WIDE = [np.dtype(code) for code in "fdg"]
SMALL = [np.dtype("e")] + [
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e3m2fn",
    )
]  # fmt: skip
SWAPPED = [np.dtype(">i4"), np.dtype(">f8"), np.dtype(">c8"), np.dtype(">f2")]
NIBBLES = [np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)]
ROUTINES = {
    "sum": shmem.sum_reduce, "prod": shmem.prod_reduce, "min": shmem.min_reduce, "max": shmem.max_reduce,
    "and": shmem.and_reduce, "or": shmem.or_reduce, "xor": shmem.xor_reduce,
}  # fmt: skip
MEANT = {"b": set(ROUTINES), "i": set(ROUTINES), "u": set(ROUTINES), "f": {"sum", "prod", "min", "max"},
         "c": {"sum", "prod"}}  # fmt: skip


def _step(op, a, b):
    if op == "prod" and a.dtype.kind == "c":
        made = np.empty_like(a)  # of b's byte order as well
        made.real = a.real * b.real - a.imag * b.imag
        made.imag = a.real * b.imag + a.imag * b.real
        return made
    if op in ("min", "max"):
        keep = (a <= b) if op == "min" else (a >= b)
        return np.where(keep | (a != a), a, b)
    steps = {"sum": np.add, "prod": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return steps[op](a, b)


def _fold(op, rows, dtype):
    """What the reduction of the rows is, in their order."""
    small = dtype in SMALL or dtype == np.dtype(">f2")
    with np.errstate(all="ignore"):
        folded = rows[0].astype(np.float32) if small else rows[0].copy()
        for row in rows[1:]:
            folded = _step(op, folded, row.astype(np.float32) if small else row)
        return folded.astype(dtype)  # ends in the byte order of the elements, whatever the steps made


def _numbers(dtype, size, *seed):
    """Numbers of which sums and products are no surprise, and every tenth any bits at all."""
    raw = payload(dtype, size, *seed)
    if dtype.kind in "bui" or dtype in LONG:
        return raw
    if dtype in NIBBLES:
        return np.random.default_rng([29, *seed]).integers(0, 8, size).astype(dtype)
    rng = np.random.default_rng([23, *seed])
    values = rng.standard_normal(size) * 2
    tame = (values + 1j * rng.standard_normal(size) if dtype.kind == "c" else values).astype(dtype)
    raw[rng.random(size) > 0.1] = tame[0] if size else 0
    keep = rng.random(size) > 0.1
    raw[keep] = tame[keep]
    return raw


def _agree(got, wanted):
    """The same bits, but for NaN, where any will do."""
    if got.dtype.kind in "bui" or got.dtype in NIBBLES:
        return same(got, wanted)
    for part in ("real", "imag") if got.dtype.kind == "c" else ("real",):
        a, b = (getattr(x, part) if x.dtype.kind == "c" else x for x in (got, wanted))
        lost = np.isnan(a.astype(np.float64))
        if not np.array_equal(lost, np.isnan(b.astype(np.float64))):
            return False
        if not same(np.ascontiguousarray(a[~lost]), np.ascontiguousarray(b[~lost])):
            return False
    return True


def _kind(dtype):
    return "f" if dtype in SMALL else "i" if dtype in NIBBLES else dtype.kind


CASES = [
    (op, dtype)
    for dtype in (BOOL, *INTEGERS, *WIDE, *SMALL, *COMPLEX, *SWAPPED, *NIBBLES)
    for op in ROUTINES
    if op in MEANT[_kind(dtype)]
]


@pytest.mark.core
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda value: value if isinstance(value, str) else dtype_id(value))
def test_every_operation_of_every_dtype(op, dtype):
    n, me, size = shmem.n_pes(), shmem.my_pe(), 1003
    source, target = new(_numbers(dtype, size, me)), shmem.zeros(size + 3, dtype)
    behind = target[size:].copy()
    ROUTINES[op](target, source)
    wanted = _fold(op, [_numbers(dtype, size, pe) for pe in range(n)], dtype)
    assert _agree(target[:size], wanted)
    assert same(target[size:], behind)
    assert same(source, _numbers(dtype, size, me))
    shmem.reduce(source, source, op)
    assert _agree(source, wanted)
    free(source, target)


@pytest.mark.core
@pytest.mark.parametrize("dtype", [np.dtype("u1"), np.dtype("f8"), np.dtype("F"), np.dtype("g"), SMALL[1], SMALL[5]],
                         ids=dtype_id)  # fmt: skip
@pytest.mark.parametrize("nbytes", SIZES)
def test_every_size(nbytes, dtype):
    """Shown at once, shared out between the PEs, or gathered: the same bits, in place as well."""
    n, me, size = shmem.n_pes(), shmem.my_pe(), -(-nbytes // dtype.itemsize)
    source, target = new(_numbers(dtype, size, me)), shmem.zeros(size + 3, dtype)
    behind = target[size:].copy()
    wanted = _fold("sum", [_numbers(dtype, size, pe) for pe in range(n)], dtype)
    shmem.sum_reduce(target, source)
    assert _agree(target[:size], wanted)
    assert same(target[size:], behind)
    shmem.sum_reduce(source, source)
    assert _agree(source, wanted)
    free(source, target)


@pytest.mark.parametrize("dtype", [np.dtype(code) for code in "fdFD"], ids=dtype_id)
@pytest.mark.parametrize("size", [9, 50000])
def test_sums_equal_numpys_over_the_stack(dtype, size):
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = new(_numbers(dtype, size, me)), shmem.zeros(size, dtype)
    shmem.sum_reduce(target, source)
    stack = np.stack([_numbers(dtype, size, pe) for pe in range(n)])
    with np.errstate(all="ignore"):
        assert _agree(target, np.add.reduce(stack, axis=0))
    free(source, target)


def test_the_order_shows_in_the_result():
    """1e16 and ones: each 1.0 is lost where it is added to the large number, not where it is added before."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = shmem.ones(n), shmem.zeros(n)
    source[me] = 1e16
    shmem.sum_reduce(target, source)
    for large in range(n):
        wanted = 0.0
        for pe in range(n):
            wanted += 1e16 if pe == large else 1.0
        assert target[large] == wanted
    free(source, target)


def test_small_floats_do_not_stick():
    """Sums of ones in bfloat16 stick at 256; folded in float32 the last rounding is the only one."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source = new(np.array([256 if me == 0 else 1], ml_dtypes.bfloat16))
    shmem.sum_reduce(source, source)
    assert source[0] == ml_dtypes.bfloat16(np.float32(256 + n - 1))
    free(source)


@pytest.mark.parametrize("bits", [0x0000, 0x7C00])
def test_all_halves_come_through(bits):
    """Every fp16 pattern, denormals, infinities and NaN, plus zero: the same number again."""
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    other = np.full(1 << 16, bits, np.uint16).view(np.float16)
    source, target = new(patterns if shmem.my_pe() == 0 else other), shmem.zeros(1 << 16, np.float16)
    shmem.sum_reduce(target, source)
    rows = [patterns if pe == 0 else other for pe in range(shmem.n_pes())]
    assert _agree(target, _fold("sum", rows, np.dtype("e")))
    free(source, target)


@pytest.mark.parametrize("dtype", [*WIDE, *SMALL[:2]], ids=dtype_id)
def test_nan_of_any_pe_wins(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target = shmem.zeros(n, dtype), shmem.zeros(n, dtype)
    source[...] = me
    source[me] = np.nan
    for routine in (shmem.max_reduce, shmem.min_reduce):
        routine(target, source)
        assert np.isnan(target.astype(float)).all()
    free(source, target)


@pytest.mark.parametrize("op", ["min", "max"])
def test_times(op):
    """The earliest and the latest; NaT of any PE wins. Adding up dates has no meaning, adding durations has."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source = new(np.array([f"2024-01-{10 + me:02}", "NaT" if me == n // 2 else "2024-02-01"], "M8[D]"))
    target = shmem.zeros(2, "M8[D]")
    ROUTINES[op](target, source)
    assert target[0] == np.datetime64(f"2024-01-{10 if op == 'min' else 10 + n - 1:02}")
    assert np.isnat(target[1])
    with pytest.raises(shmem.DtypeError, match=r"sum_reduce .* datetime64\[D\]"):
        shmem.sum_reduce(target, source)
    spans = shmem.full(1, np.timedelta64(me, "s"))
    shmem.sum_reduce(spans, spans)
    assert spans[0] == np.timedelta64(n * (n - 1) // 2, "s")
    free(source, target, spans)


MEANINGLESS = [
    ("xor", np.dtype("f8")), ("and", np.dtype("f4")), ("or", SMALL[1]), ("and", SMALL[5]), ("max", np.dtype("D")),
    ("min", np.dtype("F")), ("xor", np.dtype("G")), ("sum", np.dtype("S5")), ("sum", np.dtype((np.void, 7))),
    ("max", np.dtype([("tag", "i4")])), ("min", np.dtype("U3")), ("or", np.dtype("e")),
]  # fmt: skip


@pytest.mark.parametrize(("op", "dtype"), MEANINGLESS, ids=lambda v: v if isinstance(v, str) else dtype_id(v))
def test_an_operation_without_meaning_names_both(op, dtype):
    source, target = new(payload(dtype, 3, shmem.my_pe())), new(payload(dtype, 3, 99))
    for call in (lambda: ROUTINES[op](target, source), lambda: shmem.reduce(target, source, op)):
        with pytest.raises(TypeError, match=f"{op}_reduce") as caught:
            call()
        assert type(caught.value) is shmem.DtypeError
        assert str(dtype) in str(caught.value)
    assert same(target, payload(dtype, 3, 99))
    assert same(source, payload(dtype, 3, shmem.my_pe()))
    free(source, target)


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("size", [3, 3000, 30000])
def test_on_teams(team, size):
    group, me, dtype = TEAMS[team](), shmem.my_pe(), np.dtype("f4")
    source, target = new(_numbers(dtype, size, me)), shmem.zeros(size, dtype)
    shmem.sum_reduce(target, source, team=group)
    assert _agree(target, _fold("sum", [_numbers(dtype, size, pe) for pe in group.pes], dtype))
    shmem.reduce(source, source, shmem.OP_MAX, team=group)
    assert _agree(source, _fold("max", [_numbers(dtype, size, pe) for pe in group.pes], dtype))
    group.destroy()
    shmem.barrier_all()
    free(source, target)


VIEWS = {
    "every second": lambda a: a.reshape(-1)[::2],
    "backwards": lambda a: a.reshape(-1)[::-1],
    "column": lambda a: a[:, 3],
    "row block": lambda a: a[:, 2:6],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("side", [24, 30000])
def test_views(view, side):
    """Apart on either side or on both, and in place; what lies between is not touched."""
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("i4")

    def given(pe):
        return payload(dtype, side * 7, pe).reshape(side, 7)

    held, into = new(given(me)), shmem.zeros((side, 7), dtype)
    size = VIEWS[view](held).size
    flat = [np.ascontiguousarray(VIEWS[view](given(pe))).reshape(-1) for pe in range(n)]
    wanted = np.zeros((side, 7), dtype)
    shmem.sum_reduce(into.reshape(-1)[:size], VIEWS[view](held))
    wanted.reshape(-1)[:size] = _fold("sum", flat, dtype)
    assert same(into, wanted)
    shmem.sum_reduce(VIEWS[view](into), held.reshape(-1), size)
    VIEWS[view](wanted)[...] = _fold("sum", [given(pe).reshape(-1)[:size] for pe in range(n)], dtype).reshape(
        VIEWS[view](wanted).shape
    )
    assert same(into, wanted)
    shmem.sum_reduce(VIEWS[view](held), VIEWS[view](held))
    wanted = given(me)
    VIEWS[view](wanted)[...] = _fold("sum", flat, dtype).reshape(VIEWS[view](wanted).shape)
    assert same(held, wanted)
    free(held, into)


def test_elements_that_are_not_aligned():
    n, me, size = shmem.n_pes(), shmem.my_pe(), 40001
    raw, into = shmem.zeros(size * 8 + 8, np.uint8), shmem.zeros(size * 8 + 8, np.uint8)
    source, target = raw[3 : 3 + size * 8].view(np.float64), into[5 : 5 + size * 8].view(np.float64)
    source[...] = np.arange(size) * (me + 1.5)
    for count in (100, size):
        shmem.sum_reduce(target, source, count)
        wanted = _fold("sum", [np.arange(count) * (pe + 1.5) for pe in range(n)], source.dtype)
        assert same(target[:count].copy(), wanted)
    free(raw, into)


def test_no_dimension_and_no_elements():
    one, none = shmem.zeros((), np.int16), shmem.zeros((3, 0), np.complex64)
    one[...] = 7
    shmem.prod_reduce(one, one)
    assert one == np.int16(7 ** shmem.n_pes() & 0xFFFF if 7 ** shmem.n_pes() < 1 << 15 else _wrapped(7))
    shmem.sum_reduce(none, none)
    free(one, none)


def _wrapped(base):
    value = base ** shmem.n_pes() & 0xFFFF
    return value - 0x10000 if value >= 0x8000 else value


def test_a_nan_of_bfloat16_comes_out_as_the_quiet_one_of_its_sign():
    """As ml_dtypes rounds it, whatever its other bits were; the other PEs add zeros."""
    bits = np.array([0x7F81, 0xFFC3, 0x7FFF, 0x3F80], np.uint16)
    x, y = shmem.zeros(4, ml_dtypes.bfloat16), shmem.zeros(4, ml_dtypes.bfloat16)
    if shmem.my_pe() == 0:
        x.view(np.uint16)[:] = bits
    shmem.sum_reduce(y, x)
    assert y.view(np.uint16).tolist() == [0x7FC0, 0xFFC0, 0x7FC0, 0x3F80]
    free(x, y)
