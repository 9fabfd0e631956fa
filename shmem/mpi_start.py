"""How MPI starts in a process: which library it is, whether the launcher is of its kind, and how long it may take.

MPI's start returns when every PE of the job has come to it. It holds the GIL and knows no limit, so a watchdog of the
core looks after it. A library under the launcher of another MPI would print pages, or run N jobs of one PE, all green:
so it is looked at before it starts.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from . import log
from .config import Settings
from .errors import StateError

LAUNCHED = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
NOTICE_S = 10.0
LAUNCHERS = {"mpich": "HYDI_CONTROL_FD", "openmpi": "OMPI_COMM_WORLD_SIZE"}  # what only ranks of that launcher have
LIBRARIES = {"mpich": ("mpich", "intel(r) mpi"), "openmpi": ("open mpi",)}
NAMES = {"mpich": "MPICH", "openmpi": "Open MPI"}
MILLION_S = 1e6

refused = False  # the job can't be one: each of its processes may be a job of its own


def launched() -> bool:
    """Whether an MPI launcher started this process."""
    return any(name in os.environ for name in LAUNCHED)


def first() -> bool:
    """Whether this is PE 0 as far as the launcher's variables tell, before MPI runs; a lone process is."""
    return all(os.environ.get(name, "0") == "0" for name in LAUNCHED)


def rank_text() -> str:
    """'PE 3' as far as the launcher's variables tell; 'PE 0' for a lone process."""
    return f"PE {next((os.environ[name] for name in LAUNCHED if name in os.environ), 0)}"


def of_all(text: str) -> StateError:
    """An error that every PE of the job meets for the same reason: it is told once, see `failure.report`.

    The exit handler then leaves MPI alone.
    """
    from ._native import _core

    global refused
    refused = True
    _core.lib.sm_exit_state(3)
    error = StateError(text)
    error.whole_job = True  # type: ignore[attr-defined]
    return error


def library_name(mpi: Any) -> str:
    """Name and version of an MPI library, which need not run."""
    line = str(mpi.Get_library_version()).partition("\n")[0].partition(",")[0].strip("\0 ")
    return " ".join(line.replace("Version:", " ").split())


def start() -> Any:
    """mpi4py's MPI, running; None for a process without MPI library and launcher.

    Raises StateError where the launcher is of another MPI, where there is one but no library, and after MPI's end.
    """
    fresh = "mpi4py.MPI" not in sys.modules
    try:
        import mpi4py

        if fresh:
            mpi4py.rc.initialize = mpi4py.rc.finalize = False  # here, and by the exit handler of the core
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        if launched():
            why = str(error).partition("\n")[0]
            raise of_all(f"a launcher of MPI started this, but no MPI library is found ({why}): {_install()}") from None
        log.info("no MPI library and no launcher: a job of one PE")
        return None
    if MPI.Is_finalized():
        raise StateError("MPI was finalised by the program; shmem can't start after that")
    if not MPI.Is_initialized():
        _check_launcher(MPI)
        log.debug("starts MPI and waits for all PEs in it")
        MPI.Init_thread(getattr(MPI, f"THREAD_{mpi4py.rc.thread_level.upper()}"))
    return MPI


def _check_launcher(mpi: Any) -> None:
    """Raises StateError if the launcher and the library are of different kinds."""
    name = library_name(mpi)
    kinds = [kind for kind, marks in LIBRARIES.items() if any(mark in name.lower() for mark in marks)]
    launchers = [kind for kind, variable in LAUNCHERS.items() if variable in os.environ]
    if len(kinds) == len(launchers) == 1 and kinds != launchers:
        ours, theirs = NAMES[kinds[0]], NAMES[launchers[0]]
        raise of_all(
            f"the mpiexec of {theirs} started this, but mpi4py loaded {name}: use the mpiexec of {ours} "
            f"(`shmemu run` does), or {_install(launchers[0])}"
        )


def _install(kind: str = "mpich") -> str:
    return f"pip install 'shmemu[{kind}]'"


def check_size(mpi: Any, n: int, expected: int | None) -> None:
    """Raises StateError if the job has another size than its launcher meant: `expected`, or what its variables say."""
    meant = expected or next((int(os.environ[name]) for name in SIZES if name in os.environ), n)
    if meant != n:
        kind = library_name(mpi) if mpi else "no MPI library"
        raise of_all(
            f"{meant} PEs were launched, but this process finds {n}: the launcher and the MPI that mpi4py loaded "
            f"({kind}) are of different kinds; set SHMEMU_MPI, or {_install()}"
        )


@contextlib.contextmanager
def limited(settings: Settings) -> Iterator[None]:
    """Ends the process if what is inside, a wait for all PEs in the start of MPI, takes longer than the timeout; it is
    told of after 10 s, as other waits are."""
    from ._native import _core

    n = next((f"all {os.environ[name]} PEs" for name in SIZES if name in os.environ), "all PEs")
    what, now = f"{n} of the job in the start of MPI", time.time()
    since = time.strftime("%H:%M:%S", time.localtime(now))
    limit = settings.timeout_s
    texts = (
        f"{rank_text()}: waits since {since} for {what}\n",
        f"{rank_text()}: waited {limit:g} s for {what}; some have not come: each must start shmem, or MPI\n",
    )
    notice, end = (text.encode() for text in texts)
    seconds = limit if math.isfinite(limit) and limit < MILLION_S else MILLION_S * 1000
    _core.lib.sm_watch(notice, int(NOTICE_S * 1e9), end, int(seconds * 1e9))
    try:
        yield
    finally:
        _core.lib.sm_unwatch()
