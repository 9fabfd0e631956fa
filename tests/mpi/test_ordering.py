"""fence, quiet, pe_quiet, and the barriers: what has happened when they return."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import payload, peers, same

pytestmark = pytest.mark.mpi


@pytest.mark.core
@pytest.mark.parametrize("count", [1, 9, 513, 40_000])
@pytest.mark.parametrize("order", ["fence", "quiet", "pe_quiet"])
def test_flag_after_it_covers_the_puts_before_it(order, count):
    """Message passing from every PE to every PE: who sees the flag sees all the data, in every round."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, y = shmem.zeros((n, count), np.int64), shmem.zeros((n, 3), np.int32)
    flags, credits = shmem.zeros(n, np.int64), shmem.zeros(1, np.int64)
    for round_ in range(1, 11):
        for pe in peers():
            shmem.put(x[me], payload(x.dtype, count, me, pe, round_), pe)
            shmem.put_nbi(y[me, ::-1], np.array([me, pe, round_], np.int32), pe)
            shmem.pe_quiet([pe]) if order == "pe_quiet" else getattr(shmem, order)()
            shmem.p(flags[me : me + 1], round_, pe)
        for sender in peers():
            shmem.wait_until(flags[sender : sender + 1], ">=", round_)
            assert same(x[sender], payload(x.dtype, count, sender, me, round_))
            assert y[sender].tolist() == [round_, me, sender]
            shmem.atomic_inc(credits, sender)
        shmem.wait_until(credits, "==", n * round_)
    shmem.barrier_all()
    for array in (credits, flags, y, x):
        shmem.free(array)


@pytest.mark.core
def test_nonblocking_gets_have_their_data_after_quiet():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.array(payload(np.dtype("i4"), 100, me))
    got = np.zeros((n, 100), np.int32)
    for pe in peers():
        shmem.get_nbi(got[pe], x, pe)
    shmem.quiet()
    assert same(got, np.stack([payload(x.dtype, 100, pe) for pe in range(n)]))
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_pe_quiet_takes_lists_and_one_number():
    last = shmem.n_pes() - 1
    for pes in ([], range(last + 1), [last, last, 0], (0,), last, np.arange(last + 1), np.int64(0)):
        assert shmem.pe_quiet(pes) is None
    for wrong in ([last + 1], -1, [0, -1], last + 1):
        with pytest.raises(shmem.InvalidPE):
            shmem.pe_quiet(wrong)
    with pytest.raises(shmem.ContextError):
        shmem.pe_quiet([0], ctx=5)
    with pytest.raises(shmem.ContextError):
        shmem.quiet(ctx=5)
    with pytest.raises(shmem.ContextError):
        shmem.fence(ctx=5)


BARRIERS = {
    "barrier_all": shmem.barrier_all,
    "barrier": shmem.barrier,
    "barrier(TEAM_WORLD)": lambda: shmem.barrier(shmem.TEAM_WORLD),
    "sync_all": lambda: (shmem.quiet(), shmem.sync_all()),
    "sync": lambda: (shmem.quiet(), shmem.sync()),
    "sync(TEAM_WORLD)": lambda: (shmem.quiet(), shmem.sync(shmem.TEAM_WORLD)),
}


@pytest.mark.core
@pytest.mark.parametrize("name", BARRIERS)
def test_nobody_leaves_a_barrier_before_all_have_come(name):
    """Each PE counts itself in on all PEs before it enters: whoever leaves must see all of them, every time."""
    n = shmem.n_pes()
    count = shmem.zeros(1, np.int64)
    for round_ in range(1, 101):
        for pe in peers():
            shmem.atomic_inc(count, pe)
        BARRIERS[name]()
        assert shmem.atomic_fetch(count, shmem.my_pe()) == n * round_
        BARRIERS[name]()
    shmem.free(count)


@pytest.mark.parametrize("name", ["barrier_all", "barrier"])
def test_barrier_completes_transfers(name):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((n, 2000), np.int32)
    for round_ in range(10):
        for pe in peers():
            shmem.put_nbi(x[me], payload(x.dtype, 2000, me, pe, round_), pe)
        BARRIERS[name]()
        assert same(x, np.stack([payload(x.dtype, 2000, sender, me, round_) for sender in range(n)]))
        BARRIERS[name]()
    shmem.free(x)


def test_local_stores_before_a_barrier_are_seen_by_gets_after_it():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(64, np.int64)
    for round_ in range(30):
        x[...] = 1000 * round_ + me
        shmem.sync_all()
        for pe in peers():
            got = np.zeros(64, np.int64)
            shmem.get(got, x, pe)
            assert (got == 1000 * round_ + pe).all()
        shmem.sync_all()
    shmem.free(x)
    assert n > me


def test_barrier_wakes_the_own_waiters():
    """A store by hand, then a barrier: the thread that waits for it goes on."""
    import threading

    x = shmem.zeros(1, np.int64)
    seen = []

    def wait():
        shmem.wait_until(x, "==", 1)
        seen.append(int(x[0]))

    thread = threading.Thread(target=wait)
    thread.start()
    x[0] = 1
    shmem.barrier_all()
    thread.join()
    shmem.free(x)
    assert seen == [1]


@pytest.mark.parametrize("call", [shmem.barrier, shmem.sync])
def test_invalid_teams_are_refused(call):
    for team in (shmem.TEAM_INVALID, "TEAM_WORLD", 0):
        with pytest.raises(shmem.TeamError):
            call(team)
    with pytest.raises(RuntimeError):
        call(shmem.TEAM_INVALID)
    shmem.barrier_all()


@pytest.mark.core
def test_world_team():
    assert shmem.TEAM_WORLD.my_pe() == shmem.my_pe()
    assert shmem.TEAM_WORLD.n_pes() == shmem.n_pes()
    assert shmem.TEAM_WORLD
    assert not shmem.TEAM_INVALID
    assert shmem.TEAM_WORLD != shmem.TEAM_INVALID
    for ask in (shmem.TEAM_INVALID.my_pe, shmem.TEAM_INVALID.n_pes):
        with pytest.raises(shmem.TeamError):
            ask()


TORN = "an atomic_fetch of a word that a put is on its way to may see some of its bytes"
STORES = [shmem.atomic_set, pytest.param(shmem.p, marks=pytest.mark.needs("words", TORN))]


@pytest.mark.parametrize("store", STORES)
def test_fence_orders_stores_to_one_pe(store):
    """Two words stored one after the other with a fence between: nobody sees the second without the first."""
    n, me = shmem.n_pes(), shmem.my_pe()
    right = (me + 1) % n
    x = shmem.zeros((2, 64), np.int64)  # different cache lines
    first, second = x[0, :1], x[1, :1]
    for round_ in range(1, 2001):
        store(first, round_, right)
        shmem.fence()
        store(second, round_, right)
        later = shmem.atomic_fetch(second, me)
        assert shmem.atomic_fetch(first, me) >= later
    shmem.barrier_all()
    shmem.free(x)
