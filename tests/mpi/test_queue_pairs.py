"""Queue pairs on `nic`: what arrives, what completions say, and how the rings look, against positions and bytes worked
out here."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem import nic

pytestmark = [pytest.mark.mpi, pytest.mark.needs("queue pairs", "it posts work requests")]

N = 64


class Setting:
    """Queue pairs to the right and from the left neighbour; what is sent, and where it goes, are symmetric arrays."""

    def __init__(self, depth: int = 64, cq_depth: int = 256, **more):
        self.n, self.me = shmem.n_pes(), shmem.my_pe()
        self.right, self.left = (self.me + 1) % self.n, (self.me - 1) % self.n
        self.to, self.source = shmem.zeros(N, np.int64), shmem.zeros(N, np.int64)
        self.source[:] = self.values(self.me)
        self.own = nic.register(self.to)
        self.there = nic.import_segment(self.own, self.right)
        self.cq, self.received = nic.CompletionQueue(cq_depth), nic.CompletionQueue(cq_depth)
        self.qp = nic.QueuePair(self.right, self.cq, self.received, depth, **more)
        alone = self.left == self.right
        self.back = self.qp if alone else nic.QueuePair(self.left, self.cq, self.received, depth, **more)
        shmem.barrier_all()

    def values(self, pe):
        return np.arange(N) * 1000 + pe

    def write(self, rows=slice(None), **more):
        offset = 8 * (rows.start or 0)
        return nic.WorkRequest(nic.WRITE, local=self.source[rows], remote=self.there, offset=offset, **more)

    def close(self):
        shmem.quiet()
        shmem.barrier_all()
        for qp in {self.qp, self.back}:
            qp.close()
        self.cq.close()
        self.received.close()
        self.own.close()
        shmem.free(self.source)
        shmem.free(self.to)


@pytest.mark.mpi(min_size=2)
@pytest.mark.core
def test_a_write_arrives_and_is_told_of():
    s = Setting()
    for round_ in range(40):
        wr_id = s.qp.post(s.write())
        [done] = s.cq.wait()
        assert (done.status, done.wr_id, done.qp, done.opcode, done.nbytes) == ("ok", round_, s.qp, nic.WRITE, 8 * N)
        assert wr_id == round_
    s.qp.quiet()
    shmem.barrier_all()
    assert (s.to == s.values(s.left)).all()
    s.close()


@pytest.mark.mpi(min_size=2)
def test_positions_count_blocks_and_owner_bits_tell_laps():
    """Depth 8: a request of one block, then one of two (an immediate), five times over: 15 blocks, nearly two laps."""
    s = Setting(depth=8)
    expected = {}
    position = 0
    for _ in range(5):
        for blocks, wr in ((1, s.write(slice(0, 1))), (4, s.write(slice(0, 26), inline=True))):
            assert s.qp.positions == (position, position)
            number = s.qp.post(wr)
            for block in range(blocks):
                at = position + block
                expected[at % 8] = (int(at & 8 == 0), block, blocks, number)
            position += blocks
            [done] = s.cq.wait()
            assert done.ok
            assert done.wr_id == number
    ring = s.qp.sq
    shown = {i: tuple(int(ring[i][name]) for name in ("owner", "block", "blocks", "wr_id")) for i in range(8)}
    assert shown == expected
    s.close()


@pytest.mark.mpi(min_size=2)
def test_one_signaled_completion_gives_back_the_blocks_before_it():
    s = Setting(depth=8)
    for lap in range(5):
        for k in range(7):
            s.qp.post(s.write(slice(k, k + 1), signaled=False))
        assert s.qp.positions == (8 * lap + 7, 8 * lap)
        s.qp.post(s.write(slice(7, 8)))
        with pytest.raises(shmem.QueueFull, match="8 blocks, 8 in use"):
            s.qp.post(s.write(slice(0, 1)))
        [done] = s.cq.wait()
        assert done.wr_id == 8 * lap + 7
        assert s.qp.positions == (8 * lap + 8, 8 * lap + 8)
    s.close()


@pytest.mark.mpi(min_size=2)
@pytest.mark.core
def test_a_completion_queue_is_a_ring_with_owner_bits():
    s = Setting(cq_depth=4)
    assert not s.cq.poll()
    assert not s.cq.ring["owner"].any()
    for i in range(11):
        s.qp.post(s.write(slice(i, i + 1)))
        [done] = s.cq.wait()
        assert done.ok
    ring = s.cq.ring
    last = {i % 4: (int(i // 4 % 2 == 0), i, i, 8) for i in range(7, 11)}
    shown = {i: tuple(int(ring[i][name]) for name in ("owner", "entry", "wr_id", "nbytes")) for i in range(4)}
    assert shown == last
    s.close()


@pytest.mark.mpi(min_size=2)
def test_a_completion_queue_without_room_is_overrun():
    s = Setting(cq_depth=2)
    for i in range(3):
        s.qp.post(s.write(slice(i, i + 1)))
    shmem.quiet()
    with pytest.raises(shmem.CompletionQueueOverrun):
        s.cq.wait(2)
    s.close()


@pytest.mark.mpi(min_size=2)
@pytest.mark.core
@pytest.mark.parametrize("private", [False, True], ids=["symmetric", "private"])
def test_what_is_sent_goes_to_posted_receives_in_order(private):
    s = Setting()
    buffers = [np.full(8, -1) if private else shmem.full(8, -1) for _ in range(6)]
    known = [nic.register(each) for each in buffers]
    for i, buffer in enumerate(buffers):
        assert s.back.post_recv(buffer) == i
    shmem.barrier_all()
    for i in range(6):
        s.qp.post(nic.WorkRequest(nic.SEND_IMM, local=s.source[i : i + 4], imm=100 * s.me + i))
    told = [s.received.wait()[0] for _ in range(6)]
    assert sorted(each.wr_id for each in told) == list(range(6))
    assert all((each.status, each.opcode, each.nbytes) == ("ok", nic.RECEIVE, 32) for each in told)
    assert sorted(each.imm for each in told) == [100 * s.left + i for i in range(6)]
    for each in told:
        i = each.imm - 100 * s.left
        assert buffers[each.wr_id].tolist() == [*s.values(s.left)[i : i + 4], -1, -1, -1, -1]
    assert [each.wr_id for each in s.cq.wait(6)] == list(range(6))
    s.close()
    for segment, buffer in zip(known, buffers, strict=True):
        segment.close()
        if not private:
            shmem.free(buffer)


@pytest.mark.mpi(min_size=2)
@pytest.mark.core
def test_who_sees_the_completion_of_a_receive_may_close_the_queue_pair():
    """Nothing of the sender is still in its way. Read as `close` reads it, so that one pair does for many rounds."""
    s = Setting()
    fabric = shmem.runtime.current().fabric
    tables = fabric.arena_of(s.me)
    held = []
    for _ in range(100):
        s.back.post_recv(s.to[:1])
        shmem.barrier_all()
        s.qp.post(nic.WorkRequest(nic.SEND, local=s.source[:1]))
        s.received.wait()
        rings = [fabric.ffi.cast("sm_rq_ring *", fabric.ffi.cast("char *", tables) + tables.pair[i].offset)
                 for i in range(tables.pairs) if tables.pair[i].offset]  # fmt: skip
        held.append([ring.using for ring in rings])
        s.cq.wait()
    s.close()
    assert held == [[0] * len(held[0])] * 100
    assert len(held[0]) == (1 if s.n == 2 else 2)


@pytest.mark.mpi(min_size=2)
def test_immediates_and_notified_words():
    s = Setting()
    s.back.post_recv(np.zeros(0, np.int64))
    shmem.barrier_all()
    s.qp.post(nic.WorkRequest(nic.WRITE_IMM, local=s.source[:8], remote=s.there, imm=5))
    [told] = s.received.wait()
    assert (told.status, told.imm, told.nbytes) == ("ok", 5, 64)
    assert (s.to[:8] == s.values(s.left)[:8]).all()
    flag = shmem.zeros(1, np.uint64)
    own = nic.register(flag)
    there = nic.import_segment(own, s.right)
    s.qp.post(nic.WorkRequest(nic.WRITE_NOTIFY, local=s.source[8:16], remote=s.there, offset=64, notify=(there, 0, 9)))
    shmem.signal_wait_until(flag, "==", 9)
    assert (s.to[8:16] == s.values(s.left)[8:16]).all()
    s.qp.quiet()
    shmem.barrier_all()
    own.close()
    shmem.free(flag)
    s.close()


@pytest.mark.mpi(min_size=2)
@pytest.mark.core
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_atomics_of_all_pes_on_one_word(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    word, old = shmem.zeros(2, dtype), np.zeros(1, dtype)
    own, local = nic.register(word), nic.register(old)
    cq = nic.CompletionQueue()
    pairs = {pe: nic.QueuePair(pe, cq) for pe in range(n) if pe != me}
    there = {pe: nic.import_segment(own, pe) for pe in pairs}
    shmem.barrier_all()
    seen = []
    for _ in range(50):
        for pe, qp in pairs.items():
            qp.post(nic.WorkRequest(nic.FAA, local=old, remote=there[pe], value=1))
            [done] = cq.wait()
            assert done.ok
            if pe == (1 if me == 0 else 0):
                seen.append(int(old[0]))
    shmem.barrier_all()
    assert word.tolist() == [50 * (n - 1), 0]
    assert seen == sorted(set(seen))
    shmem.barrier_all()
    for pe, qp in pairs.items():
        qp.post(nic.WorkRequest(nic.CAS, local=old, remote=there[pe], offset=word.itemsize, value=me + 1, compare=0))
        [done] = cq.wait()
        assert done.ok
        assert old[0] in {0, *range(1, n + 1)} - {me + 1}
    shmem.barrier_all()
    assert int(word[1]) in set(range(1, n + 1)) - {me + 1}
    for qp in pairs.values():
        qp.close()
    for segment in (own, local):
        segment.close()
    shmem.free(word)


@pytest.mark.mpi(min_size=2)
@pytest.mark.core
def test_a_failure_flushes_what_comes_later():
    """Beyond the segment: nothing is placed, signaled or not it is told of, and later requests come back as flushed."""
    s = Setting()
    s.qp.post(nic.WorkRequest(nic.WRITE, local=s.source[:2], remote=s.there, offset=8 * (N - 1), signaled=False))
    s.qp.post(s.write(signaled=False))
    s.qp.post(s.write(doorbell=False))
    told = s.cq.wait(3)
    assert [(each.wr_id, each.status) for each in told] == [(0, "rem_access"), (1, "flush"), (2, "flush")]
    assert s.qp.state == "error"
    assert (s.qp.error.pe, s.qp.error.wr_id, s.qp.error.status) == (s.right, 0, "rem_access")
    shmem.quiet()  # the program was told
    shmem.barrier_all()
    assert not s.to.any()
    s.qp.reset()
    assert (s.qp.state, s.qp.positions) == ("ready", (0, 0))
    shmem.barrier_all()
    number = s.qp.post(s.write())
    [done] = s.cq.wait()
    assert (done.wr_id, done.status) == (number, "ok")
    s.close()


@pytest.mark.mpi(min_size=2)
def test_a_quiet_raises_for_a_failure_that_nobody_was_told_of():
    s = Setting()
    s.qp.post(nic.WorkRequest(nic.READ, local=s.source, remote=s.there, offset=8))
    with pytest.raises(shmem.CompletionError, match="request 0 to PE") as caught:
        shmem.quiet()
    assert (caught.value.pe, caught.value.wr_id, caught.value.status) == (s.right, 0, "rem_access")
    shmem.quiet()
    [told] = s.cq.poll()
    assert told.status == "rem_access"
    s.qp.reset()
    shmem.barrier_all()
    s.close()


@pytest.mark.mpi(min_size=2)
def test_rights_and_segments_that_have_ended():
    s = Setting()
    word = shmem.zeros(2, np.int64)
    reading = nic.register(word, "r")
    there = nic.import_segment(reading, s.right)
    shmem.barrier_all()
    s.qp.post(nic.WorkRequest(nic.READ, local=s.source[:2], remote=there))
    s.qp.post(nic.WorkRequest(nic.WRITE, local=s.source[:2], remote=there))
    assert [each.status for each in s.cq.wait(2)] == ["ok", "rem_access"]
    s.qp.reset()
    shmem.barrier_all()
    reading.close()
    shmem.barrier_all()
    s.qp.post(nic.WorkRequest(nic.READ, local=s.source[:2], remote=there))
    assert [each.status for each in s.cq.wait()] == ["rem_access"]
    s.qp.post(nic.WorkRequest(nic.WRITE, local=np.zeros(2), remote=s.there))
    assert [each.status for each in s.cq.wait()] == ["flush"]
    s.qp.reset()
    s.qp.post(nic.WorkRequest(nic.WRITE, local=np.zeros(2), remote=s.there))
    assert [each.status for each in s.cq.wait()] == ["loc_access"]
    s.qp.reset()
    shmem.barrier_all()
    shmem.free(word)
    s.close()


@pytest.mark.mpi(min_size=2)
def test_no_receive_ends_with_rnr_retry():
    s = Setting(rnr_retry=0)
    s.qp.post(nic.WorkRequest(nic.SEND, local=s.source[:1]))
    assert [each.status for each in s.cq.wait()] == ["rnr_retry"]
    shmem.barrier_all()
    s.qp.reset()
    if s.left == 0:
        s.back.post_recv(s.to[:1])
    shmem.barrier_all()
    if s.me == 0:
        s.qp.post(nic.WorkRequest(nic.SEND, local=s.source[:2]))  # longer than the receive
        assert [each.status for each in s.cq.wait()] == ["rem_inv_req"]
        s.qp.reset()
    if s.left == 0:
        assert [each.status for each in s.received.wait()] == ["loc_len"]
        assert not s.to.any()
    shmem.barrier_all()
    s.close()


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("doorbell", ["batch", "each"])
def test_many_requests_are_posted_from_arrays(doorbell):
    s = Setting(depth=64)
    rows = s.source.reshape(32, 2)
    order = np.random.default_rng([7, s.me]).permutation(32)
    signaled = np.arange(32) % 8 == 7
    many = nic.WorkRequests(nic.WRITE, rows, s.there, offset=16 * order, signaled=signaled)
    ids = s.qp.post_many(many, doorbell=doorbell)
    assert list(ids) == list(range(32))
    assert [each.wr_id for each in s.cq.wait(4)] == [7, 15, 23, 31]
    assert s.qp.positions == (32, 32)
    s.qp.quiet()
    shmem.barrier_all()
    expected = np.zeros((32, 2), np.int64)
    left = np.random.default_rng([7, s.left]).permutation(32)
    for i in range(32):
        expected[left[i]] = s.values(s.left).reshape(32, 2)[i]
    assert (s.to.reshape(32, 2) == expected).all()
    shmem.barrier_all()
    s.qp.post_many(nic.WorkRequests(nic.WRITE, rows, s.there, signaled=False))
    with pytest.raises(shmem.QueueFull, match="had room for 32 of 64") as caught:
        s.qp.post_many(nic.WorkRequests(nic.WRITE, s.source.reshape(64, 1), s.there, signaled=False))
    assert list(caught.value.posted) == list(range(64, 96))
    s.close()


@pytest.mark.mpi(min_size=2)
def test_nothing_moves_before_the_doorbell():
    s = Setting()
    s.qp.post(s.write(doorbell=False))
    shmem.quiet()  # covers what was rung for
    shmem.barrier_all()
    assert not s.to.any()
    with pytest.raises(shmem.ShmemTimeout, match="the queue pair to PE"):
        s.qp.quiet(timeout=0.01)
    shmem.barrier_all()
    s.qp.doorbell()
    assert [each.status for each in s.cq.wait()] == ["ok"]
    s.close()
