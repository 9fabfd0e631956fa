"""A job of three PEs that goes on when PE 1 is killed in the queue of a lock, or with the lock: what the others hear.

Arguments: which (queued, holder), folder. Each survivor leaves a line for each step in `told.<pe>`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

import shmem

ROLE, FOLDER = sys.argv[1], Path(sys.argv[2])

lock, count, go = shmem.new_lock(), shmem.zeros(1, np.int64), shmem.zeros(1, np.uint64)
node = lock.view(np.uint32)[:1]  # of each PE: who is behind it
me, holder = shmem.my_pe(), 0 if ROLE == "queued" else 1
told = []


def ask(what, call):
    try:
        told.append(f"{what}: {call()}")
    except shmem.PeerDied as error:
        told.append(f"{what}: PeerDied {error.lost_pe} {error.pe}")


def await_behind(pe, behind):
    while shmem.atomic_fetch(node, pe) & 0xFFFF != behind + 1:
        shmem.spin()


def add():
    shmem.p(count, int(shmem.g(count, 0)) + 1, 0)
    shmem.clear_lock(lock)


if me == holder:
    shmem.set_lock(lock)
shmem.barrier_all()
if me == 1:
    if ROLE == "queued":
        threading.Thread(target=shmem.set_lock, args=(lock,), daemon=True).start()
    await_behind(holder, 1 - holder)
    shmem.signal_set(go, 1, 2)
    await_behind(1 - holder, 2)
    os.kill(os.getpid(), signal.SIGKILL)
if me == 2:
    shmem.signal_wait_until(go, "==", 1)
if me != holder:
    ask("first", lambda: shmem.set_lock(lock))
    shmem.signal_set(go, 2, 0)
    ask("again", lambda: shmem.set_lock(lock))
else:
    ask("first", lambda: shmem.wait_until(count, "==", 99))
    while go[0] != 2:
        shmem.spin()
    ask("clear", lambda: shmem.clear_lock(lock))
    ask("again", lambda: shmem.set_lock(lock))
if ROLE == "queued":
    add()
    while shmem.g(count, 0) != 2:
        shmem.spin()
(FOLDER / f"told.{me}").write_text("\n".join(told))
