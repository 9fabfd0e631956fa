"""PE 0 writes two words, takes the completion, and tells PE 1 on another way."""

import numpy as np

import shmem
from shmem import nic


def main() -> list[int]:
    there = 1 - shmem.my_pe()
    box, flag = shmem.zeros(2, np.uint64), shmem.zeros(1, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq)
    if shmem.my_pe() == 0:
        qp.post(nic.WorkRequest(nic.WRITE, np.array([7, 8], np.uint64), remote, inline=True))
        [told] = cq.wait()
        print(f"PE 0: completion of request {told.wr_id}: {told.status}")
        shmem.p(flag, 1, there)  # not by this queue pair
        return [7, 8]
    shmem.wait_until(flag, "==", 1)
    got: list[int] = box.tolist()
    print(f"PE 1: was told, and reads {got}")
    return got


if __name__ == "__main__":
    main()
