"""A block and its flag, with nothing between them; `fenced` as an argument puts a fence there."""

import sys

import numpy as np

import shmem


def main() -> None:
    """PE 0 sends eight words to each of the others, who wait for the flag."""
    me, fenced = shmem.my_pe(), "fenced" in sys.argv[1:]
    box, flag = shmem.zeros(8, np.int64), shmem.zeros(1, np.int64)
    if me == 0:
        for pe in range(1, shmem.n_pes()):
            shmem.put(box, np.arange(1, 9), pe)
            if fenced:
                shmem.fence()
            shmem.p(flag, 1, pe)
    else:
        shmem.wait_until(flag, "==", 1)
        got = box.tolist()
        assert got == list(range(1, 9)), got


if __name__ == "__main__":
    main()
