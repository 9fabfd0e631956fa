"""Heat that spreads over a plate: rows are split between PEs, which send each other the rows at their borders.

shmemu run -n 4 examples/heat.py
"""

import numpy as np

import shmem


def spread(old):
    """The inner cells after a step, each the mean of its four neighbours."""
    return (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4


def main(rows=32, columns=128, steps=20):
    me, n = shmem.my_pe(), shmem.n_pes()
    start = np.random.default_rng(0).random((n * rows + 2, columns))
    plates = shmem.zeros((rows + 2, columns)), shmem.zeros((rows + 2, columns))
    for plate in plates:
        plate[...] = start[me * rows : (me + 1) * rows + 2]
    shmem.barrier_all()
    for step in range(steps):
        old, new = plates[step % 2], plates[1 - step % 2]
        new[1:-1, 1:-1] = spread(old[...])
        if me > 0:
            shmem.put(new[-1], new[1], me - 1)
        if me < n - 1:
            shmem.put(new[0], new[-2], me + 1)
        shmem.barrier_all()
    for _ in range(steps):
        start[1:-1, 1:-1] = spread(start)
    assert np.array_equal(plates[steps % 2][1:-1], start[1 + me * rows : 1 + (me + 1) * rows])


if __name__ == "__main__":
    main()
