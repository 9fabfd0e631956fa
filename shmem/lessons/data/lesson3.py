"""A send queue of four slots: first every second request is signaled, then none is."""

import numpy as np

import shmem
from shmem import nic
from shmem.errors import QueueFull


def main() -> None:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(16, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue()
    qp = nic.QueuePair(there, cq, depth=4)
    if shmem.my_pe() == 1:
        return

    def post(i: int, signaled: bool) -> None:
        word = np.array([i + 1], np.uint64)
        qp.post(nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i, inline=True, signaled=signaled))

    for i in range(6):
        post(i, signaled=i % 2 == 1)
        if i % 2 == 1:
            [told] = cq.wait()
            print(f"completion of request {told.wr_id}: producer, consumer {qp.positions}")
    try:
        for i in range(6, 16):
            post(i, signaled=False)
    except QueueFull as error:
        print(f"request {i} is refused: {error}")
    shmem.quiet()
    print(f"all that was posted has arrived, and there are {len(cq.poll())} completions")
    print(f"producer, consumer {qp.positions}: full for good")


if __name__ == "__main__":
    main()
