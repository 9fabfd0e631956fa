"""Who moves what an adapter has: the argument names the case. Prints what the tests look for."""

import sys
import threading

import numpy as np

import shmem
from shmem import nic


def taken_over(me: int) -> None:
    """PE 0 posts and never comes back to the library; PE 1 gets data and flag, and answers by a plain store."""
    data, flag, answer = shmem.zeros(100, np.int64), shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    shmem.barrier_all()
    if me == 0:
        shmem.put_nbi(data, np.ones(100, np.int64), 1)
        shmem.fence()
        shmem.atomic_set(flag, 1, 1)
        while answer[0] == 0:
            pass
    else:
        shmem.wait_until(flag, "==", 1)
        assert (data == 1).all()
        shmem.ptr(answer, 0)[0] = 1
    shmem.barrier_all()


def by_threads(me: int) -> None:
    """Four threads, each with a context of its own: a quiet of one covers what its thread has posted."""
    contexts = [shmem.ctx_create() for _ in range(4)]
    rows = shmem.zeros((4, 50), np.int64)
    got = np.zeros((4, 50), np.int64)
    shmem.barrier_all()

    def work(k: int) -> None:
        for i in range(50):
            shmem.put_nbi(rows[k, i : i + 1], np.array([100 * k + i]), 1 - me, ctx=contexts[k])
        shmem.quiet(contexts[k])
        shmem.get(got[k], rows[k], 1 - me, ctx=contexts[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.tolist() == [[100 * k + i for i in range(50)] for k in range(4)]
    shmem.barrier_all()


def by_hand(me: int) -> None:
    """A WRITE of three words: read, placed, told of, one event after the other."""
    words, mine = shmem.zeros(3, np.int64), shmem.array(np.arange(1, 4))
    own = nic.register(words)
    there = nic.import_segment(own, 1 - me)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(1 - me, cq)
    shmem.barrier_all()
    if me == 0:
        remote = shmem.ptr(words, 1)
        qp.post(nic.WorkRequest(nic.WRITE, local=mine, remote=there))
        seen = []
        while nic.step():
            seen.append((int((remote != 0).sum()), len(cq.ring["owner"].nonzero()[0])))
        assert seen[-1] == (3, 1), seen
        assert seen == sorted(seen)
        assert sorted({words for words, _ in seen}) == [0, 1, 2, 3]
        [completion] = cq.poll()
        assert completion.ok
        assert nic.step(10) == 0
    shmem.barrier_all()


CASES = {"taken over": taken_over, "by threads": by_threads, "by hand": by_hand}

shmem.init()
CASES[sys.argv[1]](shmem.my_pe())
print("right", flush=True)
