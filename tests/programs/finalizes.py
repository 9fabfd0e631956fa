"""A Python whose exit is watched by functions in C that stand for MPI's and say when they are called.

Arguments: library with these functions, module that calls MPI_Finalize, status, and when it calls: "at exit", where
mpi4py does, or "before". Prints how many entries of the module were changed.
"""

from __future__ import annotations

import ctypes
import os
import sys

from shmem._native import _core

library, path, status, when = sys.argv[1:]
mpi = ctypes.CDLL(library)
module = ctypes.CDLL(path)


def address(function: object) -> int:
    value = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert value is not None
    return value


_core.lib.sm_exit_mpi(address(mpi.MPI_Abort), address(mpi.MPI_Finalize), address(mpi.MPI_Finalized), 0)
is_initialized = address(ctypes.pythonapi.Py_IsInitialized)
changed = _core.lib.sm_defer_finalize(path.encode(), address(mpi.MPI_Finalize), is_initialized)
os.write(1, f"changed {changed}\n".encode())
if when == "before":
    module.call()
else:
    ctypes.pythonapi.Py_AtExit(module.call)
raise SystemExit(int(status))
