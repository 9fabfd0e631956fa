"""A put on a context, and a quiet of the default one; `own` as an argument waits for the context itself."""

import sys

import numpy as np

import shmem


def main() -> None:
    """Every PE sends a block to the next one and says so, once it takes it for delivered."""
    me, n, own = shmem.my_pe(), shmem.n_pes(), "own" in sys.argv[1:]
    box, flag = shmem.zeros(4, np.int64), shmem.zeros(1, np.int64)
    ctx = shmem.ctx_create()
    shmem.put_nbi(box, np.full(4, me + 1), (me + 1) % n, ctx=ctx)
    shmem.quiet(ctx=ctx if own else None)
    shmem.atomic_set(flag, 1, (me + 1) % n)
    shmem.wait_until(flag, "==", 1)
    assert box.tolist() == [(me - 1) % n + 1] * 4, box.tolist()
    shmem.ctx_destroy(ctx)


if __name__ == "__main__":
    main()
