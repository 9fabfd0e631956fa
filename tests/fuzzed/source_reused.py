"""A source that is written again before it has been read; `quiet` as an argument waits for that."""

import sys

import numpy as np

import shmem


def main() -> None:
    """PE 0 sends four blocks to each of the others out of one buffer."""
    me, quiet = shmem.my_pe(), "quiet" in sys.argv[1:]
    boxes, source = shmem.zeros((4, 4), np.int64), np.zeros(4, np.int64)
    if me == 0:
        for pe in range(1, shmem.n_pes()):
            for i in range(4):
                source[:] = 10 * pe + i
                shmem.put_nbi(boxes[i], source, pe)
                if quiet:
                    shmem.quiet()
    shmem.barrier_all()
    if me:
        got = boxes.tolist()
        assert got == [[10 * me + i] * 4 for i in range(4)], got


if __name__ == "__main__":
    main()
