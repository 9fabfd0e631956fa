"""Exercise 1: four words through a send queue of two slots.

Write `send`, and leave the rest as it is. PE 1 must get all four words, whatever the adapter does when.

    shmemu lesson 1 --try exercise1.py
"""

import numpy as np

import shmem
from shmem import nic


def send(qp: nic.QueuePair, cq: nic.CompletionQueue, requests: list[nic.WorkRequest]) -> None:
    """Posts the four requests. The send queue has two slots, and no request rings the doorbell by itself.

    There are: qp.post(request), qp.doorbell(), cq.wait(n), cq.poll(), qp.positions (producer, consumer).
    """
    # Your lines.


def main() -> str:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(4, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq, depth=2)
    if shmem.my_pe() == 0:
        words = [np.array([i + 1], np.uint64) for i in range(4)]
        send(qp, cq, [
            nic.WorkRequest(nic.WRITE, words[i], remote, offset=8 * i, inline=True, doorbell=False) for i in range(4)
        ])  # fmt: skip
    else:
        for i in range(4):
            shmem.wait_until(box[i : i + 1], "==", i + 1)
    return "done"
