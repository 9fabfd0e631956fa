"""Two batches of two rows from the same memory, one doorbell each; between them PE 0 waits for an answer of PE 1."""

import numpy as np

import shmem
from shmem import nic


def main() -> list[int]:
    there = 1 - shmem.my_pe()
    box, answer = shmem.zeros(4, np.uint64), shmem.zeros(1, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq, depth=4)
    if shmem.my_pe() == 0:
        rows = np.zeros((2, 1), np.uint64)
        nic.register(rows, "")
        for batch in range(2):
            rows[:, 0] = 2 * batch + 1, 2 * batch + 2
            offsets = 8 * (2 * batch + np.arange(2))
            qp.post_many(nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets, signaled=[False, True]))
            shmem.wait_until(answer, "==", batch + 1)
            print(f"PE 1 has the last row of batch {batch + 1}: producer, consumer {qp.positions}")
        cq.wait(2)
        print(f"two completions taken: producer, consumer {qp.positions}")
        return [1, 2, 3, 4]
    for last in (1, 3):
        shmem.wait_until(box[last : last + 1], "!=", 0)
        shmem.p(answer, (last + 1) // 2, there)
    for i in range(4):
        shmem.wait_until(box[i : i + 1], "!=", 0)
    got: list[int] = box.tolist()
    print(f"PE 1 got {got}")
    return got


if __name__ == "__main__":
    main()
