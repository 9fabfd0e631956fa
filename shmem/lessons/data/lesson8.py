"""Four requests, of which the second goes beyond its segment."""

import numpy as np

import shmem
from shmem import nic


def main() -> None:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(4, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq, depth=4)
    if shmem.my_pe() == 0:

        def post(i: int, word: int) -> None:
            data = np.array([i + 1], np.uint64)
            qp.post(nic.WorkRequest(nic.WRITE, data, remote, offset=8 * word, inline=True, signaled=i == 3))

        for i, word in enumerate([0, 4, 2, 3]):  # there is no word 4
            post(i, word)
        for told in cq.wait(3):  # of 0, which went well and is not signaled, nothing is told
            print(f"request {told.wr_id}: {told.status}")
        print(f"queue pair: {qp.state}, producer, consumer {qp.positions}")
        post(3, 3)
        print(f"posted again: {cq.wait()[0].status}")
        qp.reset()
        print(f"after reset: {qp.state}, producer, consumer {qp.positions}")
        post(3, 3)
        print(f"posted again: {cq.wait()[0].status}")
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        print(f"PE 1 has {box.tolist()}")


if __name__ == "__main__":
    main()
