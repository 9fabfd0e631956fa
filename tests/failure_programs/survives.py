"""A job that goes on when its last PE is killed: what each survivor was told, and what it could do afterwards.

Arguments: where (barrier, collective, wait or lines), folder. Each survivor leaves a line for each step in `told.<pe>`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

import shmem

WHERE, FOLDER = sys.argv[1], Path(sys.argv[2])

words = shmem.zeros(8, np.int64)
me, last = shmem.my_pe(), shmem.n_pes() - 1
told = []


def ask(what, call):
    try:
        told.append(f"{what}: {call()}")
    except shmem.PeerDied as error:
        told.append(f"{what}: PeerDied {error.lost_pe} {error.pe}")


FIRST = {
    "barrier": shmem.barrier_all,
    "collective": lambda: shmem.sum_reduce(words[6:7], words[6:7]),
    "wait": lambda: shmem.wait_until(words[:1], "==", 1),
    "lines": lambda: shmem.poll_lines(words, shmem.LL, 1, 8),
}
if WHERE == "collective":
    for _ in range(2):  # the third call is replayed in C
        FIRST[WHERE]()
if me == last:
    shmem.wait_until(words[1:2], "==", last)
    os.kill(os.getpid(), signal.SIGKILL)
shmem.atomic_inc(words[1:2], last)
ask("first", FIRST[WHERE])
ask("put to the dead", lambda: shmem.put(words[:1], np.ones(1, np.int64), last))
ask("get from the dead", lambda: shmem.get(np.ones(1, np.int64), words[:1], last))
ask("atomic on the dead", lambda: shmem.atomic_inc(words[:1], last))
ask("again", shmem.barrier_all)
for pe in range(last):
    shmem.atomic_add(words[2:3], me + 1, pe)
    shmem.put(words[4 + me : 5 + me], np.array([10 * me + pe]), pe)
    shmem.atomic_inc(words[3:4], pe)
ask("wait for the living", lambda: shmem.wait_until(words[3:4], "==", last))
told.append(f"sum {words[2]}, puts {words[4 : 4 + last].tolist()}")
(FOLDER / f"told.{me}").write_text("\n".join(told))
