"""Exercise 4, solved: tell PE 1 that its data are there.

Repair `send`, and leave the rest as it is. When PE 1 sees the flag it must see the data, under `rc_strict` and under
`rc_relaxed` (which may place the writes of one queue pair in any order).

    shmemu lesson 4 --try exercise4.py
"""

from typing import Any

import numpy as np

import shmem
from shmem import nic


def send(
    qp: nic.QueuePair, cq: nic.CompletionQueue, data: Any, back: Any, box: nic.Segment, flag: Any, word: nic.Segment
) -> None:
    """Writes `data` to `box` of PE 1, then sets `flag` there.

    The flag can be set by shmem.p(flag, 1, 1), which is another way than the queue pair, or by a WRITE to the segment
    `word`. `back` is memory of your own, as large as `data`; it is registered. There are: nic.WRITE, nic.READ,
    qp.post(request), cq.wait(n), cq.poll().
    """
    qp.post(nic.WorkRequest(nic.WRITE, data, box, signaled=False))
    qp.post(nic.WorkRequest(nic.READ, back, box))  # behind the WRITE: its answer shows that the data are placed
    cq.wait(1)
    shmem.p(flag, 1, 1)


def main() -> str:
    there = 1 - shmem.my_pe()
    box, flag = shmem.zeros(2, np.uint64), shmem.zeros(1, np.uint64)
    to_box = nic.import_segment(nic.register(box), there)
    to_flag = nic.import_segment(nic.register(flag), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq)
    if shmem.my_pe() == 0:
        data, back = np.array([7, 8], np.uint64), np.zeros(2, np.uint64)
        nic.register(data, "")
        nic.register(back, "")
        send(qp, cq, data, back, to_box, flag, to_flag)
    else:
        shmem.wait_until(flag, "==", 1)
        got = box.tolist()
        assert got == [7, 8], f"PE 1 reads {got}"
    return "done"
