"""A job in which the last PE fails in one way at one place, while the others rely on it there.

Arguments: where, how, folder, and "mpi4py-first" if the program starts MPI itself. Just before the fault it leaves the
time in the folder; a PE that gets past the place where it should have been told leaves its number.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

if "mpi4py-first" in sys.argv:
    from mpi4py import MPI  # noqa: F401

import shmem

WHERE, HOW, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
words: np.ndarray


def other_collective() -> None:
    shmem.zeros(3)


def skip() -> None:
    """Does not come, and does not notice by itself: it waits without a deadline for what nobody sends."""
    shmem.wait_until(words[:1], "==", -1, timeout=math.inf)


def raise_error() -> None:
    raise ValueError("planted")


def raise_exit() -> None:
    raise SystemExit(3)


FAULTS = {
    "exception": raise_error,
    "sys.exit": lambda: sys.exit(3),
    "SystemExit": raise_exit,
    "os._exit": lambda: os._exit(5),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "skip": skip,
    "other": other_collective,
}


def patience(seconds: float) -> None:
    """The deadline of the waits from here on."""
    pe = shmem.runtime.current()
    pe.settings = replace(pe.settings, timeout_s=seconds)


def fail(tell: Callable[[], None] = lambda: None) -> None:
    (FOLDER / "fault").write_text(repr(time.monotonic()))
    tell()
    FAULTS[HOW]()


def wait(word: np.ndarray) -> None:
    shmem.wait_until(word, "==", 1)


# What the others do there while the last PE fails.
PLACES = {
    "barrier": lambda word: shmem.barrier_all(),
    "wait": wait,
    "collective": lambda word: shmem.sum_reduce(word, word),
    "finalize": lambda word: shmem.finalize(),
    "end": lambda word: sys.exit(0),
}


def before_init() -> None:
    """The last PE fails before it starts shmem, and MPI with it; the others wait for it in there."""
    number = next(os.environ[name] for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK") if name in os.environ)
    if int(number) == int(os.environ["JOB_SIZE"]) - 1:
        if HOW == "other":
            (FOLDER / "fault").write_text(repr(time.monotonic()))
            shmem.init(heap_size="2M")
        else:
            fail()
    shmem.init(heap_size="1M")


def tell() -> None:
    for pe in range(shmem.n_pes() - 1):
        shmem.atomic_inc(words[1:], pe)


def main() -> None:
    if WHERE == "init":
        before_init()
    else:
        global words
        short_s = float(os.environ["SHMEMU_TIMEOUT_S"])
        shmem.init()
        patience(20)  # however long it takes to get there
        words = shmem.zeros(2, np.int64)
        last = shmem.n_pes() - 1
        if WHERE == "collective":
            for _ in range(2):  # the third call is replayed in C
                shmem.sum_reduce(words[:1], words[:1])
        if shmem.my_pe() == last:
            shmem.wait_until(words[1:], "==", last)
            patience(short_s)
            fail(tell)
            if HOW == "SIGSTOP":
                return  # Open MPI wakes a stopped process before it ends it; what matters is what the others do
        else:
            shmem.atomic_inc(words[1:], last)
            if short_s < 20:  # their deadline ends the job: it begins with the fault
                shmem.wait_until(words[1:], "==", 1)
                patience(short_s)
            PLACES[WHERE](words[:1])
    (FOLDER / f"passed.{os.getpid()}").touch()


main()
