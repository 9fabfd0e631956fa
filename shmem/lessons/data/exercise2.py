"""Exercise 2: four messages from one word of memory.

Repair `send`, and leave the rest as it is. PE 1 must get 1, 2, 3 and 4, whenever the adapter reads the word.

    shmemu lesson 2 --try exercise2.py
"""

from typing import Any

import numpy as np

import shmem
from shmem import nic


def send(qp: nic.QueuePair, cq: nic.CompletionQueue, word: Any, remote: nic.Segment) -> None:
    """Sends 1, 2, 3, 4 to the four words of `remote`, each from `word`, which is registered.

    There are: qp.post(request), cq.wait(n), cq.poll(); WorkRequest(..., inline=, signaled=).
    """
    for i in range(4):
        word[0] = i + 1
        qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i))


def main() -> str:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(4, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq)
    if shmem.my_pe() == 0:
        word = np.zeros(1, np.uint64)
        nic.register(word, "")
        send(qp, cq, word, remote)
    else:
        for i in range(4):
            shmem.wait_until(box[i : i + 1], "!=", 0)
        assert box.tolist() == [1, 2, 3, 4], f"PE 1 got {box.tolist()}"
    return "done"
