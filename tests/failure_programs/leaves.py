"""The last PE calls global_exit while the others wait for something that never comes."""

from __future__ import annotations

import numpy as np

import shmem

words = shmem.zeros(2, np.int64)
last = shmem.n_pes() - 1
if shmem.my_pe() == last:
    shmem.wait_until(words[1:], "==", last)
    print(f"PE {last} leaves")
    shmem.global_exit(7)
shmem.atomic_inc(words[1:], last)
shmem.wait_until(words[:1], "==", 1)
