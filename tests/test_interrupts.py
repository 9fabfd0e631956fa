"""A signal is seen during a wait, whenever it comes: its Python handler runs while the wait goes on.

The handler itself stores what the wait waits for, so a wait that hides signals from Python runs into its deadline.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PROGRAM = """
import signal, sys
import numpy as np
import shmem

shmem.init(heap_size="1M")
word = shmem.zeros(1, np.uint64)
shmem.barrier_all()

lines = shmem.zeros(128, np.uint8)

def ring(number, frame):
    word[0] += 1
    shmem.put_lines(lines, word, 0, shmem.LL, int(word[0]))
    shmem.quiet()

def batch(value):
    one = shmem.Batch()
    one.wait(word, "==", value)
    one.run(timeout=5)

waits = {
    "front": lambda value: shmem.wait_until(word, shmem.CMP_EQ, value),
    "python": lambda value: shmem.wait_until.__self__.function(word, "==", value, timeout=5),
    "batch": batch,
    "lines": lambda value: shmem.poll_lines(lines, shmem.LL, value, 8, timeout=5),
}
signal.signal(signal.SIGALRM, ring)
for turn in range(1, 13):
    signal.setitimer(signal.ITIMER_REAL, 0.05 * turn / 4)
    waits[sys.argv[1]](turn)
print("seen", int(word[0]))
"""


@pytest.mark.parametrize("wait", ["front", "python", "batch", "lines"])
def test_handlers_run_during_a_wait(wait: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, wait], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "seen 12\n", done.stderr


WORKERS = """
import os, signal, sys, threading
import numpy as np
import shmem

shmem.init(heap_size="1M")
word, lock = shmem.zeros(1, np.uint64), shmem.new_lock()
shmem.set_lock(lock)
ready = threading.Barrier(2)

def poll():
    while not shmem.test(word, "==", 1):
        shmem.spin()

waits = {
    "front": lambda: shmem.wait_until(word, shmem.CMP_EQ, 1),
    "python": lambda: shmem.wait_until(word, "==", 1, timeout=200),
    "worker_barrier": shmem.worker_barrier,
    "loop": poll,
}

def body(i):
    ready.wait()
    if i:
        os.kill(os.getpid(), signal.SIGINT)  # seen by the main thread, which waits for the workers
    if i or sys.argv[1] != "worker_barrier":
        waits[sys.argv[1]]()
    else:
        poll()

try:
    shmem.workers(2, body)
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
shmem.clear_lock(lock)
print("workers", shmem.workers(2, lambda i: i))
"""


@pytest.mark.parametrize("wait", ["front", "python", "worker_barrier", "loop"])
def test_an_interrupt_ends_the_workers(wait: str) -> None:
    """Whatever they wait for, none is left behind, and the program can go on."""
    done = subprocess.run(
        [sys.executable, "-c", WORKERS, wait], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "interrupted 1\nworkers [0, 1]\n", done.stderr
