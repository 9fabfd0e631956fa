"""Blocks and their flags, with nothing between them; `fenced` as an argument puts a fence there."""

import sys

import numpy as np

import shmem

ROUNDS = 8


def main() -> None:
    """PE 0 sends blocks of eight words to each of the others, who wait for the flags."""
    me, fenced = shmem.my_pe(), "fenced" in sys.argv[1:]
    boxes, flags = shmem.zeros((ROUNDS, 8), np.int64), shmem.zeros(ROUNDS, np.int64)
    for i in range(ROUNDS):
        shmem.barrier_all()
        if me == 0:
            for pe in range(1, shmem.n_pes()):
                shmem.put(boxes[i], np.arange(1, 9), pe)
                if fenced:
                    shmem.fence()
                shmem.p(flags[i : i + 1], 1, pe)
        else:
            shmem.wait_until(flags[i : i + 1], "==", 1)
            got = boxes[i].tolist()
            assert got == list(range(1, 9)), got


if __name__ == "__main__":
    main()
