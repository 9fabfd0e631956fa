"""A quiet of the default context is one of the queue pairs, whoever carries it out: the call itself, its front in C, a
record in a batch, one on a stream. It waits for what was rung for, and raises for what failed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import shmem
from shmem import nic

from .data import Array, everyone, stop

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.needs("queue pairs", "it posts work requests")]


@pytest.fixture(params=["as drawn", "at once"])
def deliveries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With the seed of the cell, and without one: then the fronts in C are bound."""
    if request.param == "at once":
        monkeypatch.delenv("SHMEMU_SEED")
        stop()
        shmem.init()
    yield
    if request.param == "at once":
        monkeypatch.undo()
        stop()
        shmem.init()


def in_batch(add: Callable[[shmem.Batch], None]) -> Callable[[], None]:
    """A batch of one record."""

    def run() -> None:
        batch = shmem.Batch()
        add(batch)
        batch.run()

    return run


def on_stream() -> None:
    """A stream runs the quiet."""
    batch = shmem.Batch()
    batch.quiet()
    with shmem.Stream() as stream:
        batch.launch(stream).wait()


QUIETS: dict[str, Callable[[], object]] = {
    "quiet": shmem.quiet,
    "pe_quiet": lambda: shmem.pe_quiet(range(shmem.n_pes())),
    "barrier_all": shmem.barrier_all,
    "barrier": shmem.barrier,
    "batch quiet": in_batch(lambda batch: batch.quiet()),
    "batch barrier": in_batch(lambda batch: batch.barrier()),
    "stream quiet": on_stream,
}
by_all = pytest.mark.parametrize("quiet", QUIETS.values(), ids=QUIETS)


class Pair:
    """A queue pair to the right neighbour, and memory of it."""

    def __init__(self, rights: str) -> None:
        self.right = (shmem.my_pe() + 1) % shmem.n_pes()
        self.to, self.source = shmem.zeros(4, np.int64), shmem.zeros(4, np.int64)
        self.source[:] = shmem.my_pe() + 1
        self.own = nic.register(self.to, rights)
        there = nic.import_segment(self.own, self.right)
        self.cq = nic.CompletionQueue(64)
        self.qp = nic.QueuePair(self.right, self.cq, self.cq)
        self.write = nic.WorkRequest(nic.WRITE, local=self.source, remote=there, signaled=False)
        shmem.barrier_all()

    def close(self) -> None:
        everyone(None)
        self.qp.reset()
        shmem.barrier_all()
        self.qp.close()
        self.cq.close()
        self.own.close()
        shmem.free(self.source)
        shmem.free(self.to)


@by_all
@pytest.mark.usefixtures("deliveries")
def test_a_quiet_raises_for_a_failed_queue_pair_once(quiet):
    pair = Pair("r")
    wr_id = pair.qp.post(pair.write)
    with pytest.raises(shmem.CompletionError) as caught:
        quiet()
    assert (caught.value.wr_id, caught.value.status, caught.value.pe) == (wr_id, "rem_access", pair.right)
    everyone(None)
    quiet()
    [told] = pair.cq.poll()
    assert (told.wr_id, told.status) == (wr_id, "rem_access")
    quiet()
    pair.close()


@by_all
@pytest.mark.usefixtures("deliveries")
def test_a_failure_that_was_polled_is_no_news(quiet):
    pair = Pair("r")
    pair.qp.post(pair.write)
    [told] = pair.cq.wait()
    assert told.status == "rem_access"
    quiet()
    pair.close()


def got(words: Array, pe: int) -> Array:
    """A copy of a PE's words."""
    out = np.zeros_like(words)
    shmem.get(out, words, pe)
    return out


@by_all
@pytest.mark.usefixtures("deliveries")
def test_a_quiet_waits_for_what_was_rung_for(quiet):
    pair = Pair("rw")
    for round_ in range(20):
        pair.source[:] = 100 * round_ + shmem.my_pe()
        pair.qp.post(pair.write)
        quiet()
        assert (got(pair.to, pair.right) == 100 * round_ + shmem.my_pe()).all()
    pair.qp.quiet()
    pair.close()


class Unreceived:
    """A request to the right neighbour that waits for a receive."""

    def __init__(self) -> None:
        n, me = shmem.n_pes(), shmem.my_pe()
        self.right, self.left = (me + 1) % n, (me - 1) % n
        self.x, self.cq = shmem.zeros(4, np.int64), nic.CompletionQueue(64)
        self.pairs = {pe: nic.QueuePair(pe, self.cq, self.cq, rnr_retry=7) for pe in {self.left, self.right}}
        shmem.barrier_all()
        self.pairs[self.right].post(nic.WorkRequest(nic.SEND, local=self.x))

    def receive(self) -> None:
        """All PEs have come here, and then all have posted the receives."""
        everyone(None)
        self.pairs[self.left].post_recv(self.x)
        everyone(None)

    def close(self) -> None:
        self.cq.wait(2)  # the own request, and the receive, of which the sender's quiet does not tell
        shmem.quiet()
        shmem.barrier_all()
        for pair in self.pairs.values():
            pair.close()
        self.cq.close()
        shmem.free(self.x)


class Interrupt(Exception):
    """What the handler of a signal raises."""


def interrupt(number: int, frame: object) -> None:
    """A handler."""
    raise Interrupt


@pytest.mark.deadline(8)
def test_a_signal_ends_a_quiet_in_a_batch():
    """Without looks for signals it would end only at the notice of a long wait, after 10 s."""
    held, batch = Unreceived(), shmem.Batch()
    batch.quiet()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupt):
            batch.run()
    finally:
        signal.signal(signal.SIGALRM, before)
    held.receive()
    batch.run()
    held.close()


TIMED: dict[str, Callable[[float], object]] = {
    "quiet": lambda timeout: shmem.quiet(timeout=timeout),
    "pe_quiet": lambda timeout: shmem.pe_quiet(range(shmem.n_pes()), timeout=timeout),
    "barrier_all": lambda timeout: shmem.barrier_all(timeout=timeout),
    "barrier": lambda timeout: shmem.barrier(timeout=timeout),
}


@pytest.mark.parametrize("call", TIMED.values(), ids=TIMED)
def test_a_call_gives_up_when_it_was_told_to(call: Callable[[float], object]) -> None:
    """Not after the limit of the job, 20 s here."""
    held = Unreceived()
    for timeout in (0.0, 0.15):
        with pytest.raises(shmem.ShmemTimeout, match="queue pairs") as raised:
            call(timeout)
        assert raised.value.waited_s == pytest.approx(timeout)
        assert raised.value.in_flight
    held.receive()
    call(20)
    held.close()


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second for what a call waits for."""
    stop()
    monkeypatch.setenv("SHMEMU_TIMEOUT_S", "1")
    shmem.init()
    yield
    stop()
    monkeypatch.undo()
    shmem.init()


@pytest.mark.needs("udma", "its blocking puts wait for all that goes to their target")
@pytest.mark.usefixtures("short_limit")
def test_a_put_on_a_stream_that_gets_stuck_says_so():
    """Behind a fence, behind a request that the peer has no receive for."""
    held, batch = Unreceived(), shmem.Batch()
    shmem.fence()
    batch.put(held.x, np.ones(4, np.int64), held.right)
    stream = shmem.Stream()
    event = batch.launch(stream)
    with pytest.raises(shmem.ShmemTimeout, match="its own request"):
        event.wait(timeout=10)
    held.receive()
    stream.close()
    held.close()
