"""A thread of the last PE raises while all main threads wait for something that never comes."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np

import shmem


def fail() -> None:
    shmem.wait_until(words[1:], "==", shmem.n_pes())
    (Path(sys.argv[1]) / "fault").write_text(repr(time.monotonic()))
    raise ValueError("planted in a thread")


words = shmem.zeros(2, np.int64)
shmem.atomic_inc(words[1:], shmem.n_pes() - 1)
if shmem.my_pe() == shmem.n_pes() - 1:
    threading.Thread(target=fail).start()
shmem.wait_until(words[:1], "==", 1)
