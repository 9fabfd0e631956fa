"""One word of memory is sent three times, with another value each time: twice as it is, once inline."""

import numpy as np

import shmem
from shmem import nic


def main() -> list[int]:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(3, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq)
    if shmem.my_pe() == 0:
        word = np.zeros(1, np.uint64)
        nic.register(word, "")
        for i, inline in enumerate([False, False, True]):
            word[0] = i + 1
            qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i, inline=inline))
        cq.wait(3)
        print("PE 0 sent [1, 2, 3]")
        return [1, 2, 3]
    for i in range(3):
        shmem.wait_until(box[i : i + 1], "!=", 0)
    got: list[int] = box.tolist()
    print(f"PE 1 got  {got}")
    return got


if __name__ == "__main__":
    main()
