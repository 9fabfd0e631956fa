"""Exercise 8: one request in five is bad.

Repair `send`, and leave the rest as it is. All good requests must reach PE 1, and `send` returns the bad ones.

    shmemu lesson 8 --try exercise8.py
"""

import numpy as np

import shmem
from shmem import nic


def send(qp: nic.QueuePair, cq: nic.CompletionQueue, requests: list[nic.WorkRequest]) -> list[int]:
    """Carries out the five requests; one of them goes beyond its segment. Returns the places in `requests` of those
    that can't be carried out.

    A completion has a wr_id (what qp.post returned for its request), a status ("ok", "flush", ...) and ok. There are:
    qp.post(request), cq.wait(n), qp.state, qp.reset().
    """
    for request in requests:
        qp.post(request)
    cq.wait(len(requests))
    return []


def main() -> str:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(5, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq, depth=8)
    bad: list[int] = []
    if shmem.my_pe() == 0:
        words = [np.array([i + 1], np.uint64) for i in range(5)]
        places = [0, 1, 7, 3, 4]  # the segment ends before word 7
        bad = send(qp, cq, [
            nic.WorkRequest(nic.WRITE, words[i], remote, offset=8 * places[i], inline=True) for i in range(5)
        ])  # fmt: skip
    shmem.barrier_all()
    if shmem.my_pe() == 0:
        assert bad == [2], f"send says that {bad} are bad"
    else:
        assert box.tolist() == [1, 2, 0, 4, 5], f"PE 1 has {box.tolist()}"
    return "done"
