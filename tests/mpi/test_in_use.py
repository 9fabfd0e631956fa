"""What may not go yet: blocks, contexts and teams that a batch in flight uses, and locks that are in use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shmem
from shmem.errors import ContextError, LockError, ShmemError, StateError, SymmetryError, TeamError

from .data import everyone

pytestmark = pytest.mark.mpi


def refused(busy: int, call: Callable[[], object], kind: type[ShmemError], text: str) -> None:
    """The call raises on all PEs: on PE `busy` what it says, on the others that this PE differs, and why."""
    with pytest.raises(ShmemError) as caught:
        call()
    if shmem.my_pe() == busy:
        assert type(caught.value) is kind
        assert text in str(caught.value)
    else:
        assert type(caught.value) is SymmetryError
        assert text in caught.value.calls[busy]


@pytest.fixture
def gate():
    """Launches a batch on PE `busy` that waits until `open`; closes all it launched, which must have ended well."""
    go, streams = shmem.zeros(1, np.uint64), []

    class Gate:
        @staticmethod
        def launch(busy: int, fill: Callable[[shmem.Batch], None], ctx: shmem.Ctx | None = None) -> None:
            if shmem.my_pe() == busy:
                batch = shmem.Batch()
                batch.wait(go, ">=", 1)
                fill(batch)
                streams.append(shmem.Stream())
                batch.launch(streams[-1], ctx)

        @staticmethod
        def open() -> None:
            go[0] = 1
            shmem.quiet()
            while streams:
                streams.pop().close()
            go[0] = 0

    yield Gate
    shmem.barrier_all()
    shmem.free(go)


USES = {
    "put to it": lambda batch, x, pe: batch.put(x[100:], np.ones(28, np.int64), pe),
    "put from it": lambda batch, x, pe: batch.put(x[:10], x[20:30], pe),
    "signal": lambda batch, x, pe: batch.signal(x, 127, 5, pe),
    "add": lambda batch, x, pe: batch.atomic_add(x, 3, 1, pe),
    "rows": lambda batch, x, pe: batch.copy_rows(np.zeros(16, np.int64), None, 8, x, np.arange(16), 8, 8),
    "lines": lambda batch, x, pe: batch.put_lines(x[:64], np.ones(4, np.int64), pe, shmem.LL, 1),
}


@pytest.mark.core
@pytest.mark.parametrize("use", USES)
def test_a_block_that_a_batch_in_flight_uses_stays(gate, use):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, other = shmem.zeros(128, np.int64), shmem.zeros(128, np.int64)
    for busy in {0, n - 1}:
        gate.launch(busy, lambda batch: USES[use](batch, x, (me + 1) % n))
        for call in (lambda: shmem.free(x), lambda: shmem.realloc(x, 1 << 16), lambda: shmem.realloc(x, 8)):
            refused(busy, call, StateError, "a batch in flight on a stream")
        shmem.free(other)  # of no batch
        other = shmem.zeros(128, np.int64)
        gate.open()
    shmem.barrier_all()
    shmem.free(other)
    shmem.free(x)  # the batches have ended


def test_what_a_batch_does_not_use_may_be_cut_off(gate):
    x = shmem.zeros(128, np.int64)
    gate.launch(0, lambda batch: batch.put(x[:8], np.arange(8), 0))
    block = shmem.realloc(x, 64)
    gate.open()
    shmem.barrier_all()
    if shmem.my_pe() == 0:
        assert np.frombuffer(block, np.int64).tolist() == list(range(8))
    shmem.free(block)


def test_a_context_that_a_batch_in_flight_uses_stays(gate):
    x, ctx = shmem.zeros(4, np.int64), shmem.ctx_create()
    spare = shmem.ctx_create()
    gate.launch(shmem.my_pe(), lambda batch: batch.put(x, np.arange(4), shmem.my_pe()), ctx)
    for call in (ctx.destroy, lambda: shmem.ctx_destroy(ctx)):
        with pytest.raises(ContextError, match="a batch in flight"):
            call()
    with pytest.raises(KeyError), ctx:
        raise KeyError("of the block")
    assert ctx
    spare.destroy()
    gate.open()
    assert ctx.pending() == 1
    ctx.destroy()
    assert not ctx
    shmem.barrier_all()
    shmem.free(x)


def test_a_team_that_a_batch_in_flight_uses_stays(gate):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, team = shmem.zeros(1, np.int64), shmem.team_from_pes(range(n))
    ctx = team.create_ctx()
    for busy in {0, n - 1}:
        gate.launch(busy, lambda batch: batch.put(x, np.full(1, me), me), ctx)
        refused(busy, team.destroy, ContextError, "a batch in flight")
        gate.open()
        assert team
    for busy in range(n):  # every PE has one, or the barriers would not end
        gate.launch(busy, lambda batch: batch.barrier(team=team))
    with pytest.raises((TeamError, SymmetryError), match="meets on Team"):
        team.destroy()
    shmem.barrier_all()
    gate.open()
    team.destroy()
    assert not team
    shmem.free(x)


@pytest.mark.core
def test_a_block_whose_lock_is_held_does_not_move():
    n, me = shmem.n_pes(), shmem.my_pe()
    block = shmem.zeros(64, np.int64)
    lock = block[5:6]
    for holder in {0, n - 1}:
        if me == holder:
            shmem.set_lock(lock)
        shmem.barrier_all()
        refused(holder, lambda: shmem.realloc(block, 1 << 16), LockError, "holds the lock at heap offset")
        shmem.barrier_all()
        if me == holder:
            shmem.clear_lock(lock)
        shmem.barrier_all()
    moved = np.frombuffer(shmem.realloc(block, 1 << 16), np.int64)
    assert not moved[:64].any()
    shmem.barrier_all()
    with_it = moved[5:6]
    shmem.set_lock(with_it)
    shmem.clear_lock(with_it)
    shmem.barrier_all()
    shmem.free(moved)


def test_a_lock_that_is_cut_off_is_gone():
    """As one that is freed: who held it does not hold the lock that lies there next."""
    block, pe = shmem.zeros(64, np.int64), shmem.runtime.current()
    here = shmem.views.address_of(block) - pe.heap.base
    if shmem.my_pe() == 0:
        shmem.set_lock(block[2:3])
        shmem.set_lock(block[60:61])
        assert sorted(pe.locks) == [here + 16, here + 480]
    shmem.barrier_all()
    block = shmem.realloc(block, 64)
    if shmem.my_pe() == 0:
        assert list(pe.locks) == [here + 16]
        shmem.clear_lock(np.frombuffer(block, np.int64)[2:3])
    shmem.free(block)
    assert not pe.locks


@pytest.mark.mpi(min_size=2)
def test_a_lock_that_a_thread_waits_for_is_not_freed():
    me = shmem.my_pe()
    lock = shmem.new_lock()
    if me == 0:
        shmem.set_lock(lock)
    shmem.barrier_all()

    def body(i: int) -> None:
        if i and me == 1:
            shmem.set_lock(lock)
            shmem.clear_lock(lock)
        if not i:
            while me == 0 and shmem.atomic_fetch(lock.view(np.uint32)[1:], 0) != 2:
                shmem.spin()
            shmem.barrier_all()
            refused(1, lambda: shmem.free(lock), LockError, "is in a call on the lock")
            if me == 0:
                shmem.clear_lock(lock)

    shmem.workers(2, body)
    assert everyone(shmem.heap_stats().blocks) == [1] * shmem.n_pes()
    shmem.barrier_all()
    shmem.free(lock)
