"""A job that carries out one put or get after the other as PE 0 is told over a socket.

A case says who calls what with which views; the answer is the memory of every PE afterwards, and the error if there was
one. The caller of this program knows what must have come out; nothing here does.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import shmem
from tests.launcher.wire import Wire
from tests.mpi.data import DTYPES, Array, payload

WORLD = MPI.COMM_WORLD
HEAP_BYTES = 1 << 14


def view(array: Array, index: list[Any], transposed: bool) -> Array:
    """`array[index]`, where a list is a slice."""
    found = array[tuple(slice(*part) if isinstance(part, list) else part for part in index)]
    return found.T if transposed else found


def carry_out(case: dict[str, Any], heap: Array) -> dict[str, Any]:
    """Runs a case on all PEs; PE 0's answer is the whole one."""
    me, dtype = WORLD.rank, DTYPES[case["dtype"]]
    shape = tuple(case["shape"])
    nbytes = shape[0] * shape[1] * dtype.itemsize
    symmetric = heap[:nbytes].view(dtype).reshape(shape)
    symmetric[...] = payload(dtype, symmetric.size, case["seed"], me).reshape(shape)
    private = payload(dtype, symmetric.size, case["seed"], me, 1).reshape(shape)
    shmem.barrier_all()
    error = ""
    if me == case["origin"]:
        near = view(private, case["private"], case["private_transposed"])
        far = view(symmetric, case["symmetric"], case["symmetric_transposed"])
        try:
            if case["call"].startswith("put"):
                getattr(shmem, case["call"])(far, near, case["pe"], case["size"])
            else:
                getattr(shmem, case["call"])(near, far, case["pe"], case["size"])
        except shmem.ShmemError as caught:
            error = type(caught).__name__
    shmem.barrier_all()
    parts = WORLD.gather((heap.tobytes().hex(), private.tobytes().hex(), error))
    heap[...] = 0
    shmem.barrier_all()
    return {"pes": parts}


def main() -> None:
    heap = shmem.zeros(HEAP_BYTES, np.uint8)
    wire = None
    if WORLD.rank == 0:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(sys.argv[1])
        wire = Wire(sock)
    cases = iter(wire or ())
    while (case := WORLD.bcast(next(cases, None))) is not None:
        answer = carry_out(case, heap)
        if wire:
            wire.send(**answer)
    shmem.free(heap)


main()
