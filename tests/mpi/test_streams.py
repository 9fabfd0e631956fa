"""Streams: batches that run in order beside the program, their events, and how they fail."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import shmem
from shmem.errors import ShmemTimeout, StateError, SymmetryError

from .data import stop

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_a_batch_waits_on_its_stream_while_the_program_goes_on():
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    go, x = shmem.zeros(1, np.uint64), shmem.zeros(4, np.int64)
    batch = shmem.Batch()
    batch.wait(go, ">=", 7)
    batch.put(x, np.arange(4, dtype=np.int64) + 10 * me, right)
    batch.barrier()
    with shmem.Stream() as stream:
        event = batch.launch(stream)
        assert not event.done()  # nobody has told it to go
        shmem.signal_set(go, 7, right)
        event.wait()
        assert event.done()
        event.wait()
    assert x.tolist() == [10 * left + i for i in range(4)]
    shmem.free(x)
    shmem.free(go)


def test_batches_of_a_stream_run_in_order():
    me = shmem.my_pe()
    x = shmem.zeros(200, np.int64)
    x[0] = me
    stream = shmem.Stream()
    events = []
    for i in range(199):  # each copies the word that the one before has written
        batch = shmem.Batch()
        batch.put(x[i + 1 : i + 2], x[i : i + 1], me)
        batch.atomic_add(x, i + 1, 1, me)
        events.append(batch.launch(stream))
    events[-1].wait()
    assert all(event.done() for event in events)
    assert x.tolist() == [me + i for i in range(200)]
    stream.synchronize()
    stream.close()
    stream.close()
    with pytest.raises(StateError, match="closed"):
        shmem.Batch().launch(stream)
    shmem.barrier_all()
    shmem.free(x)


def test_one_batch_runs_many_times_on_two_streams():
    me = shmem.my_pe()
    x = shmem.zeros(1, np.int64)
    batch = shmem.Batch()
    for _ in range(50):
        batch.atomic_add(x, 0, 1, me)
    with shmem.Stream() as a, shmem.Stream() as b:
        for _ in range(20):
            batch.launch(a)
            batch.launch(b)
    assert x[0] == 50 * 20 * 2
    shmem.barrier_all()
    shmem.free(x)


def test_a_deadline_ends_the_work_of_its_stream():
    x = shmem.zeros(1, np.uint64)
    late, after = shmem.Batch(), shmem.Batch()
    late.wait(x, "==", 1)
    after.signal(x, 0, 5, shmem.my_pe())
    stream = shmem.Stream()
    first, second = late.launch(stream, timeout=0.05), after.launch(stream)
    with pytest.raises(ShmemTimeout, match=r"1 words EQ 1 .* saw \[0\]") as caught:
        first.wait()
    assert caught.value.waited_s == 0.05
    with pytest.raises(StateError, match="an earlier one on its stream had failed"):
        second.wait()
    stream.close()
    assert x[0] == 0
    shmem.barrier_all()
    shmem.free(x)


def test_closing_raises_what_nobody_has_waited_for():
    x = shmem.zeros(1, np.uint64)
    batch = shmem.Batch()
    batch.wait(x, "==", 1)
    stream = shmem.Stream()
    batch.launch(stream, timeout=0)
    with pytest.raises(ShmemTimeout, match="1 words EQ 1"):
        stream.close()
    stream.close()
    shmem.barrier_all()
    shmem.free(x)


def test_waiting_for_an_event_has_its_own_deadline():
    x = shmem.zeros(1, np.uint64)
    batch = shmem.Batch()
    batch.wait(x, "==", 1)
    with shmem.Stream() as stream:
        event = batch.launch(stream)
        with pytest.raises(ShmemTimeout, match="a batch on a stream"):
            event.wait(timeout=0)
        shmem.signal_set(x, 1, shmem.my_pe())
        event.wait()
    shmem.barrier_all()
    shmem.free(x)


@pytest.fixture
def never():
    """A batch that waits for what does not come."""
    x = shmem.zeros(1, np.uint64)
    batch = shmem.Batch()
    batch.wait(x, "==", 1)
    yield batch
    shmem.barrier_all()
    shmem.free(x)


@pytest.fixture
def impatient(monkeypatch):
    """The deadline of every wait that has none of its own is over at once."""
    pe = shmem.runtime.current()
    monkeypatch.setattr(pe, "settings", replace(pe.settings, timeout_s=0.0))


def test_closing_gives_up_what_takes_longer_than_every_wait(never, impatient):
    """Though it was launched with a longer timeout, and so was what comes after it."""
    stream = shmem.Stream()
    events = [never.launch(stream, timeout=math.inf) for _ in range(3)]
    with pytest.raises(ShmemTimeout, match="a batch on a stream"):
        stream.close()
    for event in events:
        assert event.done()
        with pytest.raises(StateError, match="was given up at record 0, when its stream was closed"):
            event.wait()
    stream.close()
    assert shmem.runtime.current().streams == []


def test_finalize_gives_up_what_takes_longer_than_every_wait(never, impatient):
    never.launch(shmem.Stream(), timeout=math.inf)
    shmem.init()
    shmem.finalize()  # of two, which ends nothing
    with pytest.raises(ShmemTimeout, match="a batch on a stream"):
        stop()
    assert shmem.initialized()
    assert shmem.runtime.current().streams == []


def test_an_exception_leaves_the_block_of_a_stream_at_once(never):
    """The batches in flight wait for longer than this test may take; the exception is the block's own."""
    stream = shmem.Stream()
    events = []

    def block() -> None:
        with stream:
            events.append(never.launch(stream, timeout=math.inf))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        block()
    assert caught.value.__context__ is None
    (event,) = events
    assert event.done()
    with pytest.raises(StateError, match="was given up"):
        event.wait()
    stream.close()
    with pytest.raises(StateError, match="closed"):
        never.launch(stream)
    assert shmem.runtime.current().streams == []


def test_the_events_of_a_stream_share_its_deadline(never, monkeypatch):
    """`synchronize` gives the second batch what the first has left of its time."""
    now = [0.0]
    stream = shmem.Stream()
    events = [shmem.Batch().launch(stream), shmem.Batch().launch(stream)]
    limits = []
    monkeypatch.setattr(shmem.streams.time, "monotonic", lambda: now[0])
    for event in events:
        event.wait()
        monkeypatch.setattr(event, "wait", lambda timeout: limits.append(timeout) or now.__setitem__(0, now[0] + 2))
    stream._events = events
    stream.synchronize(timeout=3)
    assert limits == [3, 1]
    monkeypatch.undo()
    stream.close()


@pytest.mark.mpi(min_size=2)
def test_differing_calls_on_streams_raise_everywhere():
    batch = shmem.Batch()
    batch.barrier(f"step {min(shmem.my_pe(), 1)}")
    stream = shmem.Stream()
    event = batch.launch(stream)
    with pytest.raises(SymmetryError) as caught:
        event.wait()
    assert caught.value.calls == {pe: f"step {min(pe, 1)}" for pe in range(shmem.n_pes())}
    follower = shmem.Batch().launch(stream)
    with pytest.raises(StateError, match="was not run"):
        follower.wait()
    stream.close()
    shmem.barrier_all()


def test_pending_is_counted_a_queue():
    pe, me = shmem.runtime.current(), shmem.my_pe()
    x, private = shmem.zeros(8, np.int64), np.zeros(8, np.int64)
    shmem.quiet()
    other = pe.fabric.queue()
    assert pe.fabric.pending(0) == 0
    shmem.put_nbi(x, private, me)
    shmem.get_nbi(private, x[::2], me, size=4)
    shmem.get_nbi(private, x, me)
    shmem.get(private, x, me)
    shmem.p(x[:1], 1, me)
    shmem.atomic_fetch_add(x[:1], 1, me)
    shmem.atomic_inc(x[:1], me)
    assert pe.fabric.pending(0) == 5
    assert pe.fabric.pending(other) == 0
    shmem.runtime.current().fabric.complete(other, shmem.fabric.Level.VISIBLE)
    assert pe.fabric.pending(0) == 5
    shmem.quiet()
    assert pe.fabric.pending(0) == 0
    pe.fabric.release(other)
    shmem.barrier_all()
    shmem.free(x)
