"""Six plausible designs of a queue-pair engine that lose data or errors, each with the smallest program that shows it,
and the same program on the engine as it is. The adapter is stepped by hand: what is lost does not depend on time."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.fabric.nic.engine import NicEngine
from shmem.nic.wqes import wqe_of
from shmem.runtime import current

pytestmark = [
    pytest.mark.mpi(min_size=2),
    pytest.mark.needs("queue pairs", "it posts work requests"),
    pytest.mark.core,
]


class Setting:
    """PE 0 has a queue pair to PE 1, whose array of words the requests write, and an adapter that stands still."""

    def __init__(self, depth=8):
        self.fabric = current().fabric
        self.engine = self.fabric.nic()
        self.me = shmem.my_pe()
        self.words = shmem.zeros(64, np.int64)
        self.values = shmem.array(np.arange(64) + 1)
        self.own = nic.register(self.words)
        self.there = nic.import_segment(self.own, 1)
        self.cq = nic.CompletionQueue()
        self.qp = nic.QueuePair(1, self.cq, depth=depth) if self.me == 0 else None
        shmem.barrier_all()
        self.fabric.lib.sm_nic_stand(self.fabric.adapter, 1)

    def write(self, i, pieces=1, **more):
        """Word i of PE 1 becomes i + 1, by a request of one block, or of two with more pieces of local memory."""
        rows = [self.values[i : i + 1]] if pieces == 1 else [self.values[i + k : i + k + 1] for k in range(pieces)]
        return nic.WorkRequest(nic.WRITE, local=rows, remote=self.there, offset=8 * i, **more)

    def broken(self, how):
        self.fabric.lib.sm_nic_break(self.fabric.adapter, getattr(self.fabric.lib, how))

    def go(self):
        """The adapter goes on."""
        self.fabric.lib.sm_nic_stand(self.fabric.adapter, 0)

    def arrived(self):
        """What PE 1 has got, told to all."""
        self.go()
        if self.me == 0:
            shmem.quiet()
        shmem.barrier_all()
        found = np.zeros(64, np.int64)
        shmem.get(found, self.words, 1)
        shmem.barrier_all()
        return found.tolist()

    def close(self):
        self.go()
        self.broken("SM_SOUND")
        shmem.barrier_all()
        if self.qp is not None:
            self.qp.reset()
            self.qp.close()
        self.cq.close()
        self.own.close()
        shmem.free(self.values)
        shmem.free(self.words)


def expected(writes, pieces=1):
    words = [0] * 64
    for i in writes:
        for k in range(pieces):
            words[i + k] = i + k + 1
    return words


@pytest.mark.parametrize("how", ["SM_SOUND", "SM_COUNTS_REQUESTS"])
def test_room_is_counted_in_blocks(how):
    """B1: depth / 2 + 1 requests of two blocks, none fetched: the last one overwrites the first."""
    s = Setting()
    s.broken(how)
    if s.me == 0:
        for i in range(4):
            s.qp.post(s.write(4 * i, pieces=2))
        if how == "SM_SOUND":
            with pytest.raises(shmem.QueueFull):
                s.qp.post(s.write(16, pieces=2))
        else:
            s.qp.post(s.write(16, pieces=2))
    got = s.arrived()
    sound = expected([0, 4, 8, 12], 2)
    assert (got == sound) == (how == "SM_SOUND")
    assert how == "SM_SOUND" or (got[0], got[16]) == (0, 17)
    s.close()


@pytest.mark.parametrize("how", ["SM_SOUND", "SM_IGNORES_FULL"])
def test_a_full_ring_is_not_written(how):
    """B2: at the border, one poll brings nothing, and the poster goes on."""
    s = Setting()
    s.broken(how)
    if s.me == 0:
        for i in range(8):
            s.qp.post(s.write(i))
        if how == "SM_SOUND":
            with pytest.raises(shmem.QueueFull):
                s.qp.post(s.write(8))
        else:
            s.qp.post(s.write(8))
    got = s.arrived()
    assert (got == expected(range(8))) == (how == "SM_SOUND")
    assert how == "SM_SOUND" or (got[0], got[8]) == (0, 9)
    s.close()


@pytest.mark.parametrize("sound", [True, False], ids=["sound", "drops the error"])
def test_a_quiet_tells_of_failures(sound, monkeypatch):
    """B3: a request to a bad key; quiet; barrier; the peer reads."""
    s = Setting()
    s.go()
    if not sound:
        monkeypatch.setattr(NicEngine, "_raise_failure", lambda *_: None)
    raised = False
    if s.me == 0:
        wrong = nic.Segment(1, s.there.key + (1 << 20), s.there.nbytes, "rwa")
        s.qp.post(nic.WorkRequest(nic.WRITE, local=s.values, remote=wrong))
        try:
            shmem.quiet()
        except shmem.CompletionError:
            raised = True
    shmem.barrier_all()
    assert not s.words.any()  # stale in any case: what matters is whether PE 0 knows
    assert raised == (sound and s.me == 0)
    if s.me == 0:
        assert [each.status for each in s.cq.wait()] == ["rem_access"]
    s.close()


@pytest.mark.parametrize("how", ["SM_SOUND", "SM_NO_LOCK"])
def test_two_threads_may_post(how):
    """B4: both read one producer position, and one request is lost."""
    s = Setting()
    s.broken(how)
    if s.me == 0:
        requests = [wqe_of(wr, wr.arrays(s.me), 1, s.me) for wr in map(s.write, (3, 5))]
        threads = [threading.Thread(target=s.engine.post, args=(s.qp.name, wqe)) for wqe in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert s.qp.positions[0] == (2 if how == "SM_SOUND" else 1)
        s.qp.doorbell()
    got = s.arrived()
    assert sum(word != 0 for word in got) == (2 if how == "SM_SOUND" else 1)
    s.close()


@pytest.mark.parametrize("way", ["sound", "skips the queue", "skips it, after a quiet of the PE"])
def test_barriers_reach_the_queue_pairs(way, monkeypatch):
    """B5: a WRITE; barrier; the peer reads: stale, but not after a quiet of that PE."""
    s = Setting()
    if s.me == 0:
        s.qp.post(s.write(0))
    if way == "skips it, after a quiet of the PE":
        shmem.pe_quiet(1)
    if way != "sound":
        monkeypatch.setattr(type(s.fabric), "_settle", lambda *_: None)
    shmem.barrier_all()
    if s.me == 1:
        assert s.words[0] == (0 if way == "skips the queue" else 1)
    shmem.barrier_all()
    s.close()


def status_of_a_quiet():
    """What it raises for, "" for nothing."""
    try:
        shmem.quiet()
    except shmem.CompletionError as error:
        return error.status
    return ""


@pytest.mark.parametrize("sound", [True, False], ids=["sound", "stays"])
def test_an_error_moves_the_consumer_position(sound, monkeypatch):
    """B6: one failure, then good requests; the same error would be told for ever."""
    s = Setting()
    s.go()
    if not sound:

        def same(self, number, own):
            own.told = -1
            kept(self, number, own)

        kept = NicEngine._raise_failure
        monkeypatch.setattr(NicEngine, "_raise_failure", same)
    if s.me == 0:
        s.qp.post(nic.WorkRequest(nic.WRITE, local=s.values, remote=s.there, offset=8))
        seen = [status_of_a_quiet() for _ in range(3)]
        assert seen == ["rem_access", *(["", ""] if sound else ["rem_access", "rem_access"])]
        monkeypatch.undo()
        assert [each.status for each in s.cq.wait()] == ["rem_access"]
    s.close()
