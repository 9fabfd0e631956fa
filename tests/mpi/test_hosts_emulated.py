"""SHMEMU_HOSTS_EMULATED: contiguous blocks of PEs pass for hosts. TEAM_SHARED, ptr and team_ptr stop at their borders;
transfers, barriers and pe_accessible do not."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import everyone, rank, stop

pytestmark = pytest.mark.mpi


@pytest.fixture(params=[1, 2, 3, 5, 100])
def blocks(request, monkeypatch):
    """The PEs of each host in a job of its own; the next test finds an ordinary one."""
    stop()
    monkeypatch.setenv("SHMEMU_HOSTS_EMULATED", str(request.param))
    shmem.init()
    n = shmem.n_pes()
    hosts = min(request.param, n)
    found = [[] for _ in range(hosts)]
    for pe in range(n):
        found[pe * hosts // n].append(pe)
    assert all(found)
    yield found
    stop()
    monkeypatch.undo()
    shmem.init()


def mine(blocks):
    return next(block for block in blocks if shmem.my_pe() in block)


@pytest.mark.core
def test_pes_of_one_host_share_a_team(blocks):
    block, me = mine(blocks), shmem.my_pe()
    shared = shmem.TEAM_SHARED
    assert (shared.pes, shared.n_pes(), shared.my_pe()) == (tuple(block), len(block), block.index(me))
    assert shmem.TEAM_WORLD.pes == tuple(range(shmem.n_pes()))
    x = shmem.zeros(len(block) if len(blocks) == 1 else shmem.n_pes(), np.int64)
    for round_ in range(20):  # the hosts meet each by itself
        with shared.create_ctx() as ctx:
            for number in range(len(block)):
                shmem.p(x[shared.my_pe() : shared.my_pe() + 1], 100 * round_ + me, number, ctx)
        shared.sync()
        assert x[: len(block)].tolist() == [100 * round_ + pe for pe in block]
        shared.sync()
    assert everyone(shared.pes) == [tuple(block) for block in blocks for _ in block]
    part = shared.split_strided(len(block) - 1, -1)
    assert part.pes == tuple(block[::-1])
    part.destroy()
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_views_stop_at_the_border(blocks):
    n, me = shmem.n_pes(), shmem.my_pe()
    block = mine(blocks)
    x = shmem.full(3, me, np.int64)
    backwards = shmem.TEAM_WORLD.split_strided(n - 1, -1)
    for pe in range(n):
        views = [shmem.ptr(x, pe), shmem.team_ptr(shmem.TEAM_WORLD, x, pe), shmem.team_ptr(backwards, x, n - 1 - pe)]
        assert [view is not None for view in views] == [pe in block] * 3
        assert all(view.tolist() == [pe] * 3 for view in views if view is not None)
    for number, pe in enumerate(block):
        assert shmem.team_ptr(shmem.TEAM_SHARED, x, number).tolist() == [pe] * 3
    with pytest.raises(shmem.InvalidPE):
        shmem.team_ptr(shmem.TEAM_SHARED, x, len(block))
    assert shmem.team_ptr(shmem.TEAM_INVALID, x, 0) is None
    backwards.destroy()
    with pytest.raises(shmem.TeamError, match="destroyed"):
        shmem.team_ptr(backwards, x, 0)
    shmem.barrier_all()
    shmem.free(x)


def test_transfers_cross_the_border(blocks):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, count = shmem.zeros((n, 4), np.int64), shmem.zeros(1, np.uint64)
    for pe in range(n):
        assert shmem.pe_accessible(pe)
        assert shmem.addr_accessible(x, pe)
        shmem.put(x[me], np.arange(4) + 10 * me + pe, pe)
        shmem.fence()
        shmem.signal_add(count, 1, pe)
    shmem.signal_wait_until(count, "==", n)
    assert x.tolist() == [[10 * sender + me + i for i in range(4)] for sender in range(n)]
    shmem.barrier_all()
    shmem.free(count)
    shmem.free(x)


@pytest.mark.mpi(min_size=2)
def test_pes_that_disagree_do_not_start(monkeypatch):
    stop()
    monkeypatch.setenv("SHMEMU_HOSTS_EMULATED", "2" if rank() == 0 else "1")
    with pytest.raises(shmem.SymmetryError, match=r"PE 0: init.*hosts_emulated=2.*PE 1: init.*hosts_emulated=1"):
        shmem.init()
    monkeypatch.undo()
    shmem.init()
    assert shmem.TEAM_SHARED.pes == tuple(range(shmem.n_pes()))
