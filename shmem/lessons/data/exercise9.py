"""Exercise 9: three batches of two rows, a ring of four slots, and one piece of memory for all of them.

Repair `send`, and leave the rest as it is. PE 1 must get 1 to 6, whenever the adapter reads a row.

    shmemu lesson 9 --try exercise9.py
"""

from typing import Any

import numpy as np

import shmem
from shmem import nic


def send(qp: nic.QueuePair, cq: nic.CompletionQueue, rows: Any, remote: nic.Segment, answer: Any) -> None:
    """Sends 1 to 6 to the six words of `remote`, in batches of two rows, from `rows` [2, 1], which is registered.

    When PE 1 has the last row of batch 0, 1, 2 it sets `answer` to 1, 2, 3. There are: qp.post_many(requests),
    cq.wait(n), cq.poll(), qp.positions (producer, consumer); WorkRequests(..., signaled=) takes a list of bool, too.
    """
    for batch in range(3):
        rows[:, 0] = 2 * batch + 1, 2 * batch + 2
        offsets = 8 * (2 * batch + np.arange(2))
        qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets))


def main() -> str:
    there = 1 - shmem.my_pe()
    box, answer = shmem.zeros(6, np.uint64), shmem.zeros(1, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq, depth=4)
    if shmem.my_pe() == 0:
        rows = np.zeros((2, 1), np.uint64)
        nic.register(rows, "")
        send(qp, cq, rows, remote, answer)
    else:
        for batch in range(3):
            last = 2 * batch + 1
            shmem.wait_until(box[last : last + 1], "!=", 0)
            shmem.p(answer, batch + 1, there)
        for i in range(6):
            shmem.wait_until(box[i : i + 1], "!=", 0)
        assert box.tolist() == [1, 2, 3, 4, 5, 6], f"PE 1 got {box.tolist()}"
    return "done"
