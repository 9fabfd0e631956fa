"""Makes one of everything that SHMEMU_LOG=debug tells of; with an argument it ends without finalize."""

from __future__ import annotations

import sys

import numpy as np

import shmem

shmem.init()
x = shmem.zeros(8, np.int64)
shmem.free(x)
with shmem.TEAM_WORLD.split_strided(), shmem.ctx_create(), shmem.Stream():
    pass
assert ("logging" in sys.modules) == (sys.argv[1] == "logs")
if len(sys.argv) < 3:
    shmem.finalize()
