"""How a job starts: MPI for who is who and for the shared window, and nothing else of it later.

`connect` starts MPI if nobody has, checks that the job has the size its launcher meant, groups the PEs by host and
gets one shared window a host. Where there is no MPI library and no launcher, a process is a job of one PE over
anonymous memory. The C core never sees mpi.h: it gets the addresses it needs for leaving from here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from . import log, mpi_start
from .config import Settings, check_supported, format_size
from .errors import HeapExhausted, ShmemError, StateError, SymmetryError
from .heap import SCRATCH_BYTES

if TYPE_CHECKING:
    from .fabric.interface import Fabric

PAGE = 4096


@dataclass
class World:
    """The PEs of a job as MPI sees them. `comm` is None for a process without MPI."""

    me: int
    n: int
    comm: Any = None
    mpi: Any = None
    hosts: list[str] = field(default_factory=list)
    starts: int = 0  # of shmem, with streams of accesses

    def check(self, settings: Settings) -> None:
        """Raises ArgumentError or StateError for what these PEs can't have."""
        check_supported(settings)
        if settings.fabric == "sim":
            raise StateError(
                "on the fabric sim one process has all PEs, and this one is a PE by itself: start the program with "
                "shmemu run --fabric sim, its main function with shmem.run"
            )

    def agree(self, what: dict[str, object]) -> None:
        """Raises SymmetryError on every PE if the arguments of init differ between PEs."""
        if self.comm is not None:
            check_agreed(self.me, self.comm.allgather(what))

    def fabric(self, settings: Settings, asked: int, given: bool) -> tuple[Fabric, int]:
        """The fabric that the settings name, and the bytes of heap that a PE gets of those asked for. Collective."""
        from .fabric.direct import DirectFabric, clock_bytes, head_bytes

        more = 0 if settings.sanitize is None else clock_bytes()
        if settings.fabric == "nic":
            from .fabric.nic.fabric import arena_bytes

            more += arena_bytes()
        nbytes = fitting_heap(self, asked, given, head_bytes() + SCRATCH_BYTES + more)
        cores = len(os.sched_getaffinity(0))
        job = self.me, self.n, partial(shared_segments, self), cores, settings.on_death == "survive", settings.isa
        if settings.fabric == "nic":
            return self._nic(settings, job), nbytes
        if settings.sanitize is None:
            return DirectFabric(*job), nbytes
        from .sanitize.fabric import RecordingFabric

        return RecordingFabric(*job, *self._stream(settings.sanitize)), nbytes

    def _nic(self, settings: Settings, job: tuple[Any, ...]) -> Fabric:
        """An adapter by the settings. Raises ArgumentError for a profile that there is none of."""
        from .delivery.profiles import profile
        from .fabric.nic import Delivery, NicFabric

        limit, status = settings.timeout_s, settings.status_file
        moves = Delivery(profile(settings.profile), settings.seed, settings.progress, limit_s=limit, status_file=status)
        if settings.sanitize is not None:
            from .sanitize.nic import RecordingNicFabric

            recorded: tuple[Any, ...] = *job, *self._stream(settings.sanitize)
            return RecordingNicFabric(*recorded, delivery=moves)
        if settings.trace is None:
            return NicFabric(*job, delivery=moves)
        from .fabric.nic.traced import TracedFabric

        return TracedFabric(*job, delivery=moves, path=settings.trace, gather=self._gather)

    def _gather(self, mine: Any) -> list[Any] | None:
        """What every PE gives, at PE 0. Collective."""
        found: list[Any] | None = [mine] if self.comm is None else self.comm.gather(mine)
        return found

    def _stream(self, folder: str) -> tuple[str, str]:
        """The file of this PE's stream, and what names the run. Raises ArgumentError on every PE if one can't be."""
        from .sanitize.starting import prepare

        self.starts += 1
        return prepare(folder, self.me, self.n, self.starts, self.comm)

    def tell_leaks(self, text: str) -> None:
        """What was not freed, "" if nothing."""
        sys.stderr.write(text)

    def abort(self, code: int) -> None:
        """Ends every process of the job, this one included."""
        from .failure import let_read
        from .rank import note

        note("exit", code)
        sys.stdout.flush()
        sys.stderr.flush()
        if self.comm is not None:
            let_read()
            self.mpi.COMM_WORLD.Abort(code)  # of a duplicate MPICH only exits, and mpiexec answers with another code
        os._exit(code)


def check_agreed(me: int, everyone: Sequence[dict[str, object]]) -> None:
    """Raises SymmetryError if the arguments of init differ; `everyone` has them by PE."""
    if any(other != everyone[0] for other in everyone):
        calls = {pe: f"init({', '.join(f'{k}={v}' for k, v in args.items())})" for pe, args in enumerate(everyone)}
        text = "; ".join(f"PE {pe}: {call}" for pe, call in calls.items())
        raise SymmetryError(f"the PEs started differently: {text}", calls=calls, pe=me)


def leave_to_core(mpi: Any) -> None:
    """Tells the core's exit handler how to end MPI that runs, and the job after a failure; mpi4py no longer does."""
    from ._native import _core

    library = ctypes.CDLL(_mpi_library())
    abort, finalize, finalized = map(_address, (library.MPI_Abort, library.MPI_Finalize, library.MPI_Finalized))
    _core.lib.sm_exit_mpi(abort, finalize, finalized, mpi._handleof(mpi.COMM_WORLD))
    _core.lib.sm_defer_finalize(os.fsencode(mpi.__file__), finalize, _address(ctypes.pythonapi.Py_IsInitialized))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _mpi_library() -> str:
    """Path of the MPI library that mpi4py loaded into this process."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    for path in sorted(paths):
        if os.path.basename(path).startswith(("libmpi.so", "libmpich.so", "libmpi_abi.so")):
            return path
    raise StateError("no MPI library is loaded, though MPI runs: it must be a shared library")


def connect(settings: Settings) -> World:
    """Starts MPI where needed and finds out who is who. Waits until every PE of the job has come.

    Raises StateError as `mpi_start.start`, and if the job has another size than its launcher meant.
    """
    with mpi_start.limited(settings) if mpi_start.launched() else contextlib.nullcontext():
        world = _world(mpi_start.start())
    mpi_start.check_size(world.mpi, world.n, settings.expect_pes)
    return world


def _world(mpi: Any) -> World:
    if mpi is None:
        return World(0, 1, hosts=["localhost"])
    leave_to_core(mpi)
    comm = mpi.COMM_WORLD.Dup()
    hosts = comm.allgather(mpi.Get_processor_name())
    take_names_of_shared_files()
    log.info("PE %d of %d on %s, %s", comm.rank, comm.size, hosts[comm.rank], mpi_start.library_name(mpi))
    return World(comm.rank, comm.size, comm, mpi, hosts)


def take_names_of_shared_files() -> None:
    """Unlinks MPICH's file in /dev/shm, once every PE has mapped it: an abnormal end would leave it there."""
    from .rank import shm_names

    for name in shm_names("self"):
        if "/mpich_shm_" in name:
            with contextlib.suppress(OSError):
                os.unlink(name)


def host_numbers(n: int, hosts: int) -> tuple[int, ...]:
    """The host of each of n PEs that share a machine, which passes for `hosts` of them: contiguous blocks."""
    hosts = min(hosts, n)
    return tuple(pe * hosts // n for pe in range(n))


def fitting_heap(world: World, asked: int, given: bool, head: int) -> int:
    """The heap size in bytes, whole pages, that the shared memory of this host can hold for all its PEs.

    A size that was asked for and does not fit raises HeapExhausted on every PE; a default is halved until it fits.
    """
    nbytes = max(1, -(-asked // PAGE)) * PAGE
    room = shared_memory_free() if world.me == 0 else 0
    if world.comm is not None:
        room = world.comm.bcast(room)
    if world.n == 1 or nbytes + head <= room // world.n:
        return nbytes
    limit = room // world.n - head
    if given or limit < PAGE:
        raise HeapExhausted(
            f"a heap of {format_size(nbytes)} for each of {world.n} PEs does not fit /dev/shm, which has "
            f"{format_size(room)} free: give it more (docker: --shm-size) or set SHMEMU_HEAP_SIZE",
            asked=nbytes * world.n, free=room, largest_free=room, pe=world.me,
        )  # fmt: skip
    while nbytes > limit:
        nbytes = max(PAGE, nbytes // 2 // PAGE * PAGE)
    if world.me == 0:
        sys.stderr.write(
            f"shmemu: warning: /dev/shm has only {format_size(room)} free, so each of {world.n} PEs gets a heap of "
            f"{format_size(nbytes)}: give it more (docker: --shm-size) or set SHMEMU_HEAP_SIZE\n"
        )
    return nbytes


def shared_memory_free() -> int:
    """Bytes that /dev/shm can still hold; a very large number where there is none."""
    try:
        stat = os.statvfs("/dev/shm")
    except OSError:
        return 1 << 62
    return stat.f_bavail * stat.f_frsize


def shared_segments(world: World, head: int, nbytes: int) -> list[int]:
    """A segment for each PE of this host, `head` bytes and behind them `nbytes` (whole pages): their addresses here.

    The two parts are mappings of our own of the pages of two windows, which nobody but us ends; the windows are freed
    at once. So arrays stay readable after finalize and after MPI's, the exit handler has its words, and the memory of
    the heaps is given back when no PE has any of it mapped any more: a header may outlive them.
    """
    from ._native import _core

    if world.n == 1:  # MPI gives a lone PE ordinary memory, which is neither aligned nor zero
        segments = [int(_core.lib.sm_map_segment(0, head, 0, nbytes)) if nbytes < 1 << 62 else 0]
    else:
        host = world.comm.Split_type(world.mpi.COMM_TYPE_SHARED)
        if host.size != world.n:
            names = ", ".join(sorted(set(world.hosts)))
            raise ShmemError(f"the fabric direct needs all PEs on one host; this job spans {names}", pe=world.me)
        heads, heaps = _window(world, host, head), _window(world, host, nbytes)
        addresses = zip(heads[1], heaps[1], strict=True)
        segments = [int(_core.lib.sm_map_segment(at, head, heap, nbytes)) for at, heap in addresses]
        for window in (heads[0], heaps[0]):
            window.Free()  # collective: by then every PE has its mappings
        host.Free()
    if not all(segments):
        text = f"no memory for a heap of {format_size(nbytes)}: ask for less (SHMEMU_HEAP_SIZE)"
        raise HeapExhausted(text, asked=nbytes, free=0, largest_free=0, pe=world.me)
    return segments


def _window(world: World, host: Any, nbytes: int) -> tuple[Any, list[int]]:
    """A shared window of `nbytes` a PE, and the addresses of its parts."""
    window = world.mpi.Win.Allocate_shared(nbytes, 1, comm=host)
    parts = [window.Shared_query(rank)[0].address for rank in range(world.n)]
    if any(address % PAGE for address in parts):
        raise ShmemError("this MPI gave a shared window that is not page aligned", pe=world.me)
    return window, parts
