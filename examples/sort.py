"""A sort over all PEs: in each round neighbours take each other's keys, and keep the lower or the upper half.

shmemu run -n 4 examples/sort.py
"""

import numpy as np

import shmem


def main(keys=20_000):
    me, n = shmem.my_pe(), shmem.n_pes()
    mine, theirs = shmem.zeros(keys, np.int64), np.zeros(keys, np.int64)
    mine[:] = np.sort(np.random.default_rng(me).integers(0, 1 << 40, keys))
    for turn in range(n):
        other = me + 1 if me % 2 == turn % 2 else me - 1
        shmem.barrier_all()
        if 0 <= other < n:
            shmem.get(theirs, mine, other)
        shmem.barrier_all()
        if 0 <= other < n:
            both = np.sort(np.concatenate((mine[:], theirs)), kind="stable")
            mine[:] = both[:keys] if me < other else both[keys:]
    every = [np.random.default_rng(pe).integers(0, 1 << 40, keys) for pe in range(n)]
    assert np.array_equal(mine, np.sort(np.concatenate(every))[me * keys : (me + 1) * keys])


if __name__ == "__main__":
    main()
