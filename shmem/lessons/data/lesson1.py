"""Six words through a send queue of four slots. Every step is printed: positions, slots, completions."""

import numpy as np

import shmem
from shmem import nic


def show(what: str, qp: nic.QueuePair) -> None:
    """The ring: its positions, and what lies in each slot (wr_id, owner bit)."""
    produced, consumed = qp.positions
    slots = " ".join(f"[{row['wr_id']} {'o' if row['owner'] else '.'}]" if row["blocks"] else "[   ]" for row in qp.sq)
    print(f"{what:<27} producer {produced}, consumer {consumed}, slots {slots}")


def main() -> None:
    there = 1 - shmem.my_pe()
    box = shmem.zeros(6, np.uint64)
    remote = nic.import_segment(nic.register(box), there)
    cq = nic.CompletionQueue(8)
    qp = nic.QueuePair(there, cq, depth=4)
    if shmem.my_pe() == 1:
        shmem.wait_until(box[5:], "!=", 0)
        print(f"{'PE 1 has':<27} {box.tolist()}")
        return

    def write(i: int) -> nic.WorkRequest:
        word = np.array([i + 1], np.uint64)
        return nic.WorkRequest(nic.WRITE, word, remote, offset=8 * i, inline=True, doorbell=False)

    show("nothing is posted", qp)
    for i in (0, 1, 2):
        qp.post(write(i))
    show("three posted, not rung", qp)
    qp.doorbell()
    show("rung", qp)
    taken = cq.wait(3)
    show(f"completions {[each.wr_id for each in taken]} taken", qp)
    for i in (3, 4, 5):
        qp.post(write(i))
    show("three more: the next lap", qp)
    qp.doorbell()
    cq.wait(3)
    show("rung, and taken", qp)
    told = " ".join(f"[{row['wr_id']} {'o' if row['owner'] else '.'}]" for row in cq.ring)
    print(f"{'the completion queue':<27} {told}")


if __name__ == "__main__":
    main()
