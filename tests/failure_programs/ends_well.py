"""A job that does everything right, and leaves `passed.<pe>` in the folder that it is given.

Further arguments: "mpi4py-first" if the program starts MPI itself; "0" or "None" if it ends by raise SystemExit(that).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

if "mpi4py-first" in sys.argv:
    from mpi4py import MPI  # noqa: F401

import shmem

me, n = shmem.my_pe(), shmem.n_pes()
words = shmem.zeros(n, np.int64)
for pe in range(n):
    shmem.p(words[me : me + 1], me + 1, pe)
shmem.barrier_all()
assert words.tolist() == list(range(1, n + 1))
shmem.free(words)
(Path(sys.argv[1]) / f"passed.{me}").touch()
if {"0", "None"} & set(sys.argv):
    raise SystemExit(0 if "0" in sys.argv else None)
