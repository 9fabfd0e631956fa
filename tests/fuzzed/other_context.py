"""Puts on a context, and a quiet of the default one; `own` as an argument waits for the context itself."""

import sys

import numpy as np

import shmem

ROUNDS = 8


def main() -> None:
    """Every PE sends blocks to the next one and says of each so, once it takes it for delivered."""
    me, n, own = shmem.my_pe(), shmem.n_pes(), "own" in sys.argv[1:]
    boxes, flags = shmem.zeros((ROUNDS, 4), np.int64), shmem.zeros(ROUNDS, np.int64)
    ctx = shmem.ctx_create()
    for i in range(ROUNDS):
        shmem.put_nbi(boxes[i], np.full(4, me + 1), (me + 1) % n, ctx=ctx)
        shmem.quiet(ctx=ctx if own else None)
        shmem.atomic_set(flags[i : i + 1], 1, (me + 1) % n)
        shmem.wait_until(flags[i : i + 1], "==", 1)
        got = boxes[i].tolist()
        assert got == [(me - 1) % n + 1] * 4, got
    shmem.ctx_destroy(ctx)


if __name__ == "__main__":
    main()
