"""Nonblocking atomics and the generic ones: results after quiet against Python's integers, and what is pending."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.runtime import current

from .data import FLOAT_WORDS, WORDS, dtype_id, peers
from .test_atomics import values, wrapped

pytestmark = pytest.mark.mpi

# name: (function of (old, value) -> new, takes a value)
FETCHES = {
    "atomic_fetch_nbi": (lambda old, value: old, False),
    "atomic_swap_nbi": (lambda old, value: value, True),
    "atomic_fetch_inc_nbi": (lambda old, value: old + 1, False),
    "atomic_fetch_add_nbi": (lambda old, value: old + value, True),
    "atomic_fetch_and_nbi": (lambda old, value: old & value, True),
    "atomic_fetch_or_nbi": (lambda old, value: old | value, True),
    "atomic_fetch_xor_nbi": (lambda old, value: old ^ value, True),
}
GENERIC = {
    "set": lambda old, value: value,
    "add": lambda old, value: old + value,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
}
KEYWORDS = {"front": {}, "python": {"ctx": shmem.CTX_DEFAULT}}  # a context is none of the front's business


@pytest.mark.core
@pytest.mark.parametrize("way", KEYWORDS)
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
@pytest.mark.parametrize("name", FETCHES)
def test_old_values_are_in_fetch_after_quiet(name, dtype, way):
    """Many under way at once, each with a place of its own, private and symmetric; neighbours keep their values."""
    update, takes = FETCHES[name]
    call, n, me, given = getattr(shmem, name), shmem.n_pes(), shmem.my_pe(), values(dtype)
    x, places = shmem.full((n, 3), 99, dtype), shmem.full((2, len(given) + 2), 55, dtype)
    mine = x[me, 1:2]
    for pe in peers():
        fetch = places[0] if pe == me else places[1].copy()
        wanted, now = [55], 99
        for i, value in enumerate(given):
            arguments = (fetch[i + 1 : i + 2], mine, *([value] if takes else []), pe)
            assert call(*arguments, **KEYWORDS[way]) is None
            shmem.fence()  # one after the other there, and still none complete here
            wanted.append(now)
            now = wrapped(update(now, value), dtype)
        shmem.quiet()
        assert fetch.tolist() == [*wanted, 55]
        assert shmem.atomic_swap(mine, 99, pe) == now
    shmem.barrier_all()
    assert (x == 99).all()
    shmem.free(places)
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("way", KEYWORDS)
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_compare_swap(dtype, way):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, fetch = shmem.full((n, 3), 99, dtype), np.zeros(2, dtype)
    mine = x[me, 1:2]
    for pe in peers():
        shmem.atomic_compare_swap_nbi(fetch[:1], mine, 98, 5, pe, **KEYWORDS[way])
        shmem.fence()
        shmem.atomic_compare_swap_nbi(fetch[1:], mine, 99, 6, pe, **KEYWORDS[way])
        shmem.quiet()
        assert fetch.tolist() == [99, 99]
        assert shmem.atomic_fetch(mine, pe) == 6
    shmem.barrier_all()
    assert x.tolist() == [[99, 6, 99]] * n
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("way", KEYWORDS)
@pytest.mark.parametrize("dtype", FLOAT_WORDS, ids=dtype_id)
def test_floats_fetch_and_swap(dtype, way):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, fetch = shmem.full(n, 0.5, dtype), np.zeros(3, dtype)
    mine, there = x[me : me + 1], n - 1
    shmem.atomic_swap_nbi(fetch[:1], mine, float("inf"), there, **KEYWORDS[way])
    shmem.fence()
    shmem.atomic_fetch_nbi(fetch[1:2], mine, there, **KEYWORDS[way])
    shmem.fence()
    shmem.atomic_fetch_op_nbi(fetch[2:], mine, -2.5, "set", there, **KEYWORDS[way])
    shmem.quiet()
    assert fetch.tolist() == [0.5, float("inf"), float("inf")]
    for call in (
        lambda: shmem.atomic_fetch_add_nbi(fetch[:1], mine, 1.0, there, **KEYWORDS[way]),
        lambda: shmem.atomic_fetch_inc_nbi(fetch[:1], mine, there, **KEYWORDS[way]),
        lambda: shmem.atomic_compare_swap_nbi(fetch[:1], mine, -2.5, 1.0, there, **KEYWORDS[way]),
        lambda: shmem.atomic_op(mine, 1.0, "add", there),
    ):
        with pytest.raises(TypeError):
            call()
    shmem.barrier_all()
    assert x.tolist() == [-2.5 if me == there else 0.5] * n
    shmem.free(x)


@pytest.mark.parametrize("name", ["atomic_fetch_add_nbi", "atomic_fetch_inc_nbi"])
def test_sums_of_all_pes(name):
    n, rounds = shmem.n_pes(), 300
    x, fetch = shmem.zeros(1, np.int64), np.full((rounds, 1), -1, np.int64)
    for i in range(rounds):
        getattr(shmem, name)(fetch[i], x, *([1] if "add" in name else []), 0)
        shmem.fence()
    shmem.quiet()
    seen = fetch[:, 0].tolist()
    assert seen == sorted(set(seen))
    every = shmem.zeros((n, rounds), np.int64)
    shmem.put(every[shmem.my_pe()], fetch[:, 0], 0)
    shmem.barrier_all()
    if shmem.my_pe() == 0:
        assert sorted(every.reshape(-1).tolist()) == list(range(n * rounds))
    shmem.barrier_all()
    shmem.free(every)
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("spelled", ["constant", "text", "capitals"])
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
@pytest.mark.parametrize("op", GENERIC)
def test_generic_operations(op, dtype, spelled):
    me, n = shmem.my_pe(), shmem.n_pes()
    x, fetch = shmem.full((n, 3), 99, dtype), np.zeros(1, dtype)
    mine, there = x[me, 1:2], (me + 1) % n
    how = {"constant": getattr(shmem, f"AMO_{op.upper()}"), "text": op, "capitals": op.upper()}[spelled]
    now = 99
    for value in values(dtype):
        assert shmem.atomic_op(mine, value, how, there) is None
        shmem.fence()
        now = wrapped(GENERIC[op](now, value), dtype)
        old = shmem.atomic_fetch_op(mine, value, how, there)
        assert (old, type(old)) == (now, int)
        now = wrapped(GENERIC[op](now, value), dtype)
        assert shmem.atomic_fetch_op_nbi(fetch, mine, value, how, there) is None
        shmem.quiet()
        assert fetch[0] == now
        now = wrapped(GENERIC[op](now, value), dtype)
        assert shmem.atomic_fetch(mine, there) == now
    shmem.barrier_all()
    assert x[:, [0, 2]].tolist() == [[99, 99]] * n
    shmem.free(x)


@pytest.mark.core
def test_generic_inc_adds_one():
    x, fetch = shmem.full(1, 5, np.int32), np.zeros(1, np.int32)
    me = shmem.my_pe()
    shmem.atomic_op(x, 1, shmem.AMO_INC, me)
    assert shmem.atomic_fetch_op(x, None, "inc", me) == 6
    shmem.atomic_fetch_op_nbi(fetch, x, 1, "inc", me)
    shmem.quiet()
    assert (fetch[0], x[0]) == (7, 8)
    for call in (
        lambda: shmem.atomic_op(x, 2, "inc", me),
        lambda: shmem.atomic_op(x, 1, "swap", me),
        lambda: shmem.atomic_op(x, 1, shmem.OP_AND, me),
        lambda: shmem.atomic_fetch_op(x, 1, 2, me),
        lambda: shmem.atomic_fetch_op_nbi(fetch, x, 1, shmem.SIGNAL_ADD, me),
    ):
        with pytest.raises(shmem.ArgumentError):
            call()
    assert x[0] == 8
    shmem.barrier_all()
    shmem.free(x)


# name: (call with x = symmetric int64 [2], f = private int64 [2], PE; how many records are pending after it)
PENDING = {
    "fetch_nbi": (lambda x, f, pe, **kw: shmem.atomic_fetch_nbi(f[:1], x[:1], pe, **kw), 1),
    "fetch_add_nbi": (lambda x, f, pe, **kw: shmem.atomic_fetch_add_nbi(f[:1], x[:1], 1, pe, **kw), 1),
    "add": (lambda x, f, pe, **kw: shmem.atomic_add(x[:1], 1, pe, **kw), 1),
    "set": (lambda x, f, pe, **kw: shmem.atomic_set(x[:1], 1, pe, **kw), 1),
    "inc": (lambda x, f, pe, **kw: shmem.atomic_inc(x[:1], pe, **kw), 1),
    "op": (lambda x, f, pe, **kw: shmem.atomic_op(x[:1], 1, "or", pe, **kw), 1),
    "fetch": (lambda x, f, pe, **kw: shmem.atomic_fetch(x[:1], pe, **kw), 0),
    "fetch_add": (lambda x, f, pe, **kw: shmem.atomic_fetch_add(x[:1], 1, pe, **kw), 0),
    "swap": (lambda x, f, pe, **kw: shmem.atomic_swap(x[:1], 1, pe, **kw), 0),
    "fetch_op": (lambda x, f, pe, **kw: shmem.atomic_fetch_op(x[:1], 1, "set", pe, **kw), 0),
    "iput": (lambda x, f, pe, **kw: shmem.iput(x, f, pe, **kw), 1),
    "iget": (lambda x, f, pe, **kw: shmem.iget(f, x, pe, **kw), 0),
}


@pytest.mark.core
@pytest.mark.parametrize("way", KEYWORDS)
@pytest.mark.parametrize("name", PENDING)
def test_what_is_pending_until_quiet(name, way):
    call, records = PENDING[name]
    x, fabric = shmem.zeros(2, np.int64), current().fabric
    shmem.quiet()
    for pe in peers():
        call(x, np.zeros(2, np.int64), pe, **KEYWORDS[way])
    assert fabric.pending(0) == records * shmem.n_pes()
    shmem.quiet()
    assert fabric.pending(0) == 0
    shmem.barrier_all()
    shmem.free(x)


SHORT = np.zeros(1, np.int32)


def frozen() -> np.ndarray:
    array = np.zeros(1, np.int64)
    array.flags.writeable = False
    return array


# name: (exception, call with x = symmetric int64 [2], f = private int64 [1], n, keywords)
WRONG = {
    "PE n": (shmem.InvalidPE, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(f, x[:1], n, **kw)),
    "private word": (shmem.NotSymmetric, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(f, f, 0, **kw)),
    "two words": (shmem.SizeMismatch, lambda x, f, n, **kw: shmem.atomic_swap_nbi(f, x, 1, 0, **kw)),
    "two places": (shmem.SizeMismatch, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(np.zeros(2, int), x[:1], 0, **kw)),
    "no place": (shmem.SizeMismatch, lambda x, f, n, **kw: shmem.atomic_fetch_inc_nbi(f[:0], x[:1], 0, **kw)),
    "another dtype": (shmem.DtypeError, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(f.view("u8"), x[:1], 0, **kw)),
    "another width": (shmem.DtypeError, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(SHORT, x[:1], 0, **kw)),
    "a list": (shmem.DtypeError, lambda x, f, n, **kw: shmem.atomic_fetch_nbi([0], x[:1], 0, **kw)),
    "a number": (shmem.DtypeError, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(f[0], x[:1], 0, **kw)),
    "read-only": (shmem.ArgumentError, lambda x, f, n, **kw: shmem.atomic_fetch_nbi(frozen(), x[:1], 0, **kw)),
    "value too large": (OverflowError, lambda x, f, n, **kw: shmem.atomic_fetch_add_nbi(f, x[:1], 1 << 63, 0, **kw)),
    "value 1.5": (TypeError, lambda x, f, n, **kw: shmem.atomic_swap_nbi(f, x[:1], 1.5, 0, **kw)),
}


@pytest.mark.core
@pytest.mark.parametrize("way", KEYWORDS)
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_write_nothing(case, way):
    error, call = WRONG[case]
    x, f = shmem.full(2, 7, np.int64), np.full(1, 5, np.int64)
    with pytest.raises(error):
        call(x, f, shmem.n_pes(), **KEYWORDS[way])
    shmem.barrier_all()
    assert x.tolist() == [7, 7]
    assert f[0] == 5
    shmem.free(x)
