"""Starts MPI by mpi4py and ends in the way its first argument names, each of them right."""

from __future__ import annotations

import atexit
import sys

import mpi4py

WAY = sys.argv[1]
if WAY.startswith("rc"):
    mpi4py.rc.finalize = False

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

import shmem  # noqa: E402


def uses_mpi_after_shmem() -> None:
    shmem.finalize()
    assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size


def finalizes_mpi() -> None:
    MPI.Finalize()
    assert MPI.Is_finalized()


def finalizes_both() -> None:
    shmem.finalize()
    finalizes_mpi()


def finalizes_at_exit() -> None:
    atexit.register(finalizes_mpi)


def finalizes_shmem_at_exit() -> None:
    atexit.register(shmem.finalize)


def starts_again() -> None:
    shmem.finalize()
    shmem.init()


def has_no_entry() -> None:
    """As where mpi4py calls MPI in another way than through its module's table."""


WAYS = {
    "uses_mpi_after_shmem": uses_mpi_after_shmem,
    "finalizes_mpi": finalizes_mpi,
    "finalizes_both": finalizes_both,
    "finalizes_at_exit": finalizes_at_exit,
    "finalizes_shmem_at_exit": finalizes_shmem_at_exit,
    "starts_again": starts_again,
    "has_no_entry": has_no_entry,
    "rc_finalizes_mpi": finalizes_mpi,
    "rc_never_finalizes": lambda: None,
}

if WAY == "has_no_entry":
    MPI.__file__ = "/elsewhere"
words = shmem.zeros(1, np.int64)
for pe in range(shmem.n_pes()):
    shmem.atomic_inc(words, pe)
shmem.barrier_all()
assert words[0] == MPI.COMM_WORLD.size
shmem.free(words)
WAYS[WAY]()
sys.stdout.write(f"end of {MPI.COMM_WORLD.rank if not MPI.Is_finalized() else 'MPI'}\n")
