"""Wrong arguments, differing calls and members who do not come: named errors on every PE, and the next call works."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import shmem
from shmem.errors import SizeMismatch, SymmetryError
from shmem.runtime import current

from .groups import free

pytestmark = pytest.mark.mpi
E = shmem


def _works(n):
    """All PEs are in step: a collective right after gives what it should, and again."""
    one, row = shmem.zeros(1, np.int64), shmem.zeros(n, np.int64)
    for round_ in range(3):
        one[...] = shmem.my_pe() + 10 * round_
        shmem.fcollect(row, one)
        assert row.tolist() == [pe + 10 * round_ for pe in range(n)]
    free(one, row)


WRONG = {
    "private target": (lambda t, s: shmem.fcollect(np.zeros(t.size), s, 1), E.NotSymmetric),
    "private source": (lambda t, s: shmem.fcollect(t, np.zeros(2)), E.NotSymmetric),
    "target too small": (lambda t, s: shmem.fcollect(t[:-1], s[: t.size // shmem.n_pes()]), E.SizeMismatch),
    "size beyond source": (lambda t, s: shmem.fcollect(t, s[:1], 2), E.SizeMismatch),
    "negative size": (lambda t, s: shmem.broadcast(t, s, 0, -1), E.SizeMismatch),
    "size no integer": (lambda t, s: shmem.sum_reduce(t, s, 1.0), E.SizeMismatch),
    "size a bool": (lambda t, s: shmem.sum_reduce(t, s, True), E.SizeMismatch),
    "a list": (lambda t, s: shmem.fcollect(t, [1.0]), E.DtypeError),
    "other dtype": (lambda t, s: shmem.alltoall(t, s.view(np.int64)), E.DtypeError),
    "root beyond the team": (lambda t, s: shmem.broadcast(t, s, shmem.n_pes()), E.InvalidPE),
    "root a bool": (lambda t, s: shmem.broadcast(t, s, False), E.InvalidPE),
    "root no integer": (lambda t, s: shmem.broadcast(t, s, 0.0), E.InvalidPE),
    "transposed": (lambda t, s: shmem.broadcast(t[:16].reshape(4, 4).T, s[:16], 0), E.LayoutError),
    "partial overlap": (lambda t, s: shmem.sum_reduce(t[1:5], t[:4]), E.ArgumentError),
    "partial overlap of views": (lambda t, s: shmem.sum_reduce(t[0:8:2], t[4:8]), E.ArgumentError),
    "fcollect in place": (lambda t, s: shmem.fcollect(t, t[:1]), E.ArgumentError),
    "alltoall in place": (lambda t, s: shmem.alltoall(t, t), E.ArgumentError),
    "collect in place": (lambda t, s: shmem.collect(t, t[:1]), E.ArgumentError),
    "stride 0": (lambda t, s: shmem.alltoalls(t, s, 0, 1), E.ArgumentError),
    "stride no integer": (lambda t, s: shmem.alltoalls(t, s, 1, 1.5), E.DtypeError),
    "unknown reduction": (lambda t, s: shmem.reduce(t, s, "mean"), E.ArgumentError),
    "an atomic operation": (lambda t, s: shmem.reduce(t, s, shmem.AMO_AND), E.ArgumentError),
    "invalid team": (lambda t, s: shmem.sum_reduce(t, s, team=shmem.TEAM_INVALID), E.TeamError),
    "negative timeout": (lambda t, s: shmem.sum_reduce(t, s, timeout=-1), E.ArgumentError),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_on_every_pe(case):
    call, error = WRONG[case]
    n = shmem.n_pes()
    target, source = shmem.full(16 * n, 5.0), shmem.full(16 * n, 7.0)
    with pytest.raises(error) as caught:
        call(target, source)
    assert type(caught.value) is error
    assert (target == 5).all()
    assert (source == 7).all()
    _works(n)
    free(target, source)


def test_a_source_that_can_not_be_divided():
    n = shmem.n_pes()
    target, source = shmem.zeros(3 * n + 1), shmem.zeros(3 * n + 1)
    if n > 1:
        with pytest.raises(shmem.SizeMismatch, match=f"can't be divided among {n}"):
            shmem.alltoall(target, source)
    free(target, source)


def test_a_read_only_target():
    target, source = shmem.zeros(4), shmem.zeros(4)
    shmem.sum_reduce(target, source)
    closed = target.view()
    closed.flags.writeable = False
    with pytest.raises(shmem.ArgumentError, match="read-only"):
        shmem.sum_reduce(closed, source)
    free(target, source)


def test_a_collect_that_does_not_fit_raises_everywhere():
    n, me = shmem.n_pes(), shmem.my_pe()
    target, source = shmem.full(3 * n, 4), shmem.full(4, 9)
    with pytest.raises(shmem.SizeMismatch, match=f"collect of {3 * n + 1} elements into a target of {3 * n}"):
        shmem.collect(target, source, 4 if me == n - 1 else 3)
    assert (target == 4).all()
    shmem.collect(target, source, 3)
    assert (target == 9).all()
    free(target, source)


DIFFERING = {
    "size": lambda t, s, odd: shmem.fcollect(t, s, 1 if odd else 2),
    "routine": lambda t, s, odd: (shmem.min_reduce if odd else shmem.max_reduce)(t, s),
    "root": lambda t, s, odd: shmem.broadcast(t, s, int(odd)),
    "dtype": lambda t, s, odd: shmem.sum_reduce(t.view("i8"), s.view("i8")) if odd else shmem.sum_reduce(t, s),
    "operation": lambda t, s, odd: shmem.reduce(t, s, "sum" if odd else "prod"),
    "source": lambda t, s, odd: shmem.sum_reduce(t, s[1:] if odd else s[:-1]),
    "target": lambda t, s, odd: shmem.sum_reduce(t[1:] if odd else t, s, 3),
    "strides": lambda t, s, odd: shmem.alltoalls(t, s, 1 + odd, 1, 1),
    "step of a view": lambda t, s, odd: shmem.sum_reduce(t, s[:: 1 + odd], 3),
    "a barrier": lambda t, s, odd: shmem.barrier_all() if odd else shmem.fcollect(t, s, 1),
    "an allocation": lambda t, s, odd: shmem.zeros(3) if odd else shmem.fcollect(t, s, 1),
    "small and large": lambda t, s, odd: shmem.sum_reduce(t, s, 3 if odd else 30000),
    "collect": lambda t, s, odd: shmem.collect(t, s, 1) if odd else shmem.fcollect(t, s, 1),
    "one refused": lambda t, s, odd: shmem.fcollect(t, s, 1) if odd else shmem.fcollect(t, s, -1),
}


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("case", DIFFERING)
def test_differing_calls_raise_on_every_pe_and_the_next_call_works(case):
    n, me = shmem.n_pes(), shmem.my_pe()
    target, source = shmem.zeros(30000), shmem.zeros(30000)
    for odd_one in (0, n - 1):
        refused = case == "one refused" and me != odd_one
        with pytest.raises(shmem.SizeMismatch if refused else shmem.SymmetryError) as caught:
            DIFFERING[case](target, source, me == odd_one)
        if not refused:
            assert len(set(caught.value.calls.values())) == 2
            assert sorted(caught.value.calls) == list(range(n))
        _works(n)
    free(target, source)


CALLS = {
    "small": lambda t, s, **how: shmem.sum_reduce(t, s, 3, **how),
    "large": lambda t, s, **how: shmem.sum_reduce(t, s, **how),
    "in parts": lambda t, s, **how: shmem.sum_reduce(t[: 2 * len(s) : 2], s[::2], **how),
    "gathered": lambda t, s, **how: shmem.sum_reduce(t.view(">f8"), s.view(">f8"), 3, **how),
    "collect": lambda t, s, **how: shmem.collect(t, s, 3, **how),
    "collect in parts": lambda t, s, **how: shmem.collect(t, s, 20000, **how),
}


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("late", [0, -1])
def test_one_that_comes_late(case, late):
    """The others give up, naming it, and try again: they go on with the call that they are in."""
    n, me = shmem.n_pes(), shmem.my_pe()
    late %= n
    target = shmem.zeros(max(60000, 20000 * n))
    source, gave_up = shmem.full(60000, float(me + 1)), shmem.zeros(1, np.uint64)
    if me == late:
        shmem.signal_wait_until(gave_up, "==", n - 1)
    else:
        with pytest.raises(shmem.ShmemTimeout, match=f"no arrival of PE {late}$"):
            CALLS[case](target, source, timeout=0.05)
        shmem.signal_add(gave_up, 1, late)
    CALLS[case](target, source)
    if "collect" in case:
        size = 3 if case == "collect" else 20000
        assert target[0 : n * size : size].tolist() == [pe + 1 for pe in range(n)]
    elif case == "gathered":
        wanted = np.zeros(3, ">f8")
        for pe in range(n):
            wanted += np.full(3, float(pe + 1)).view(">f8")
        assert target.view(">f8")[:3].tobytes() == wanted.tobytes()
    else:
        assert target[0] == n * (n + 1) / 2
    _works(n)
    free(target, source, gave_up)


LONG = ("large", "in parts", "collect in parts")  # the late one then waits in a later barrier of its call


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("case", CALLS)
def test_one_given_up_and_another_call_after_it(case):
    """What was given up is completed by the late one's call; a different one follows on all."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source, row, gave_up = shmem.full(60000, float(me + 1)), shmem.zeros(n), shmem.zeros(1, np.uint64)
    target = shmem.zeros(max(60000, 20000 * n))
    if me < n - 1:
        with pytest.raises(shmem.ShmemTimeout):
            CALLS[case](target, source, timeout=0.05)
        shmem.signal_add(gave_up, 1, n - 1)
        if case in LONG:
            with pytest.raises(shmem.SymmetryError):
                shmem.fcollect(row, source, 1)
        else:
            shmem.fcollect(row, source, 1)
    else:
        shmem.signal_wait_until(gave_up, "==", n - 1)
        if case in LONG:
            with pytest.raises(shmem.SymmetryError):
                CALLS[case](target, source)
        else:
            CALLS[case](target, source)
            shmem.fcollect(row, source, 1)
    if case not in LONG:
        assert row.tolist() == [pe + 1 for pe in range(n)]
    _works(n)
    free(target, source, row, gave_up)


@pytest.mark.mpi(min_size=2)
def test_a_refused_call_raises_everywhere_also_where_calls_are_not_compared(monkeypatch):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, y = shmem.zeros(4, np.int64), shmem.zeros(4 * n, np.int64)
    pe = current()
    monkeypatch.setattr(pe, "settings", replace(pe.settings, check_symmetry=False))
    with pytest.raises(SizeMismatch if me == 0 else SymmetryError, match="9"):
        shmem.fcollect(y, x, 9 if me == 0 else 4)
    x[:] = me
    shmem.fcollect(y, x, 4)
    assert y.tolist() == [pe for pe in range(n) for _ in range(4)]
    monkeypatch.undo()
    shmem.barrier_all()
    shmem.free(y)
    shmem.free(x)
