"""The state of a PE, and its start and stop.

Everything that a PE knows hangs on one object, `PE`: `current()` gives it, starting shmem on first use. Where several
PEs live in one process they differ in what `current()` answers and in nothing else.
"""

from __future__ import annotations

import operator
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from . import bootstrap, config, failure, log, mpi_start
from .config import Settings, format_size, parse_size
from .enums import MAJOR_VERSION, MINOR_VERSION, THREAD, VENDOR_STRING
from .errors import ArgumentError, DtypeError, InvalidPE, StateError
from .fabric.interface import Fabric, Members
from .heap import SCRATCH_BYTES, Allocation, SymmetricHeap
from .records import FINALIZE
from .slots import SHARED, Slots

if TYPE_CHECKING:
    from .collectives.plans import LeftOff, Plan
    from .contexts import Context, Session
    from .lock_queue import Place
    from .streams import Stream

LEAK_LINES = 20  # of the list of what was not freed


@dataclass
class PE:
    """One processing element of a running job."""

    settings: Settings
    world: bootstrap.World
    fabric: Fabric
    heap: SymmetricHeap
    members: Members  # of the barrier of all PEs
    hosts: tuple[int, ...] = ()  # the number of each PE's host
    slots: Slots = field(default_factory=Slots)  # its teams
    contexts: list[Context] = field(default_factory=list)  # live ones, without the default
    sessions: dict[int, Session] = field(default_factory=dict)  # running ones, by queue
    starts: int = 1  # calls of init not yet matched by finalize
    told_dead: set[int] = field(default_factory=set)  # deaths that a wait has reported already
    streams: list[Stream] = field(default_factory=list)  # open ones
    turns: dict[int, int] = field(default_factory=dict)  # which word of a set was last returned, by heap offset
    locks: dict[int, Place] = field(default_factory=dict)  # where it stands with each, by heap offset
    plans: dict[object, Plan] = field(default_factory=dict)  # of collectives, by their arguments
    past: tuple[SymmetricHeap, ...] = ()  # before earlier calls of finalize, of which arrays may be left
    left: dict[int, LeftOff] = field(default_factory=dict)  # collectives given up, by slot

    @property
    def me(self) -> int:
        """The number of this PE."""
        return self.world.me

    @property
    def n(self) -> int:
        """How many PEs there are."""
        return self.world.n

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The PEs of this host, this one included."""
        return tuple(pe for pe, host in enumerate(self.hosts) if host == self.hosts[self.me])

    def check_pe(self, pe: object, pes: tuple[int, ...] | None = None, whose: str = "the job") -> int:
        """The PE with number `pe` among `pes` (default: all of the job); raises InvalidPE unless there is one."""
        try:
            number = pe.__index__()  # type: ignore[attr-defined]
        except (AttributeError, TypeError):
            number = None
        if number is None or isinstance(pe, bool):  # True is more likely a misplaced flag than PE 1
            raise InvalidPE(f"a PE is an integer, not {pe!r}", pe=self.me)
        n = self.n if pes is None else len(pes)
        if not 0 <= number < n:
            raise InvalidPE(f"PE {number} does not exist: {whose} has {range_of(n)}", pe=self.me)
        return int(number) if pes is None else pes[number]

    def leaks(self) -> str:
        """What was allocated and not freed, with the lines that allocated it; "" if nothing, or if PE 0 tells it."""
        left: list[Allocation] = self.heap.allocations()
        if not left or self.settings.log == "error" or self.me != 0:
            return ""
        were = "allocation was" if len(left) == 1 else "allocations were"
        return f"PE {self.me}: {len(left)} symmetric {were} not freed:{_listed(left)}\n"

    def let_go(self) -> None:
        """Forgets what keeps memory of the heap: from now on only the program's arrays do."""
        for kept in (self.plans, self.left, self.locks):
            kept.clear()
        self.heap.let_go()

    def leave_dead(self) -> None:
        """Survive mode: marks this PE dead for the others; no MPI call follows."""
        self.fabric.leave_dead()


class Local:
    """What belongs to the PE that made it: to copy or pickle it raises DtypeError, as of what can't be in Python."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[object, ...]:
        kind, here = type(self).__name__, started()
        text = f"a {kind} belongs to the PE that made it and can't be copied or pickled"
        raise DtypeError(text, pe=None if here is None else here.me)


def range_of(n: int) -> str:
    """The numbers of n PEs in words."""
    return f"PEs 0 to {n - 1}" if n > 1 else "PE 0 only"


def _listed(left: list[Allocation]) -> str:
    """A line for each line of the program that made some of them, LEAK_LINES at most and one for the rest."""
    groups = Counter(f"{item.text} at {item.where}" for item in left).most_common()  # equal ones in their order
    shown = groups if len(groups) <= LEAK_LINES else groups[: LEAK_LINES - 1]
    lines = [f"{times} x {what}" if times > 1 else what for what, times in shown]
    if len(shown) < len(groups):
        lines.append(f"and {len(left) - sum(times for _, times in shown)} more")
    return "".join(f"\n  {line}" for line in lines)


@dataclass(slots=True)
class Process:
    """What of shmem runs in this process, or in a task that stands for one."""

    world: bootstrap.World | None = None  # MPI runs once in a process, however often shmem starts
    current: PE | None = None
    ended: PE | None = None  # kept: its window and tables live as long as the process
    settings: Settings | None = None  # None: those of the environment


_here = Process()


def here() -> Process:
    """The process, or the task that stands for one, that runs here."""
    return _here


def switch(to: Process) -> Process:
    """Makes another process the one that runs here; returns the one that did. For what runs PEs as tasks."""
    global _here
    before, _here = _here, to
    return before


def started() -> PE | None:
    """The running PE of this process, None before init and after finalize."""
    return _here.current


def connected() -> bool:
    """Whether shmem knows the job: true from the first init on, for ever."""
    return _here.world is not None


def current() -> PE:
    """The PE that runs here; starts shmem with the settings of the environment on first use.

    Raises StateError after finalize.
    """
    if (pe := _here.current) is not None:
        return pe
    if _here.ended is not None:
        raise StateError("shmem was finalised; call init to start again", pe=_here.ended.me)
    init()
    return current()


def init(
    heap_size: int | str | None = None, fabric: str | None = None, profile: str | None = None, seed: int | None = None
) -> None:
    """Starts shmem on this PE. Collective: returns when every PE of the job has come.

    heap_size: bytes of each PE's symmetric heap, or text like "512M"; default `SHMEMU_HEAP_SIZE`, else 1G. Pages cost
    memory only once touched. fabric: how bytes travel, default `SHMEMU_FABRIC`. profile, seed: of deliveries on `nic`,
    default `SHMEMU_PROFILE`, `SHMEMU_SEED`; without a seed all arrives at once and in order.
    Calls nest: each needs its finalize, and arguments, always checked, count in the first only. Any first call of
    another routine does the same with the defaults. Raises SymmetryError if the PEs differ in arguments,
    HeapExhausted if the heaps do not fit into shared memory, ArgumentError for values that mean nothing, StateError for
    `sim` in a process that is a PE.
    OpenSHMEM 1.6, 9.1 (shmem_init).
    """
    process = _here
    running = process.current
    settings = running.settings if running else process.settings or config.read(warn=mpi_start.first())
    given = settings.heap_size_given or heap_size is not None
    asked = _size(heap_size, settings)
    chosen = _chosen(settings, fabric=fabric, profile=profile, seed=seed)
    (process.world or bootstrap.World(0, 1)).check(chosen)
    _check_profile(chosen)
    if running is not None:
        running.starts += 1
        log.debug("init once more: %d calls of finalize to come", running.starts)
        return
    log.begin(settings.log)
    if process.world is None:
        failure.install()
        process.world = bootstrap.connect(settings)
    world = process.world
    same: dict[str, object] = {"check_symmetry": settings.check_symmetry, "hosts_emulated": settings.hosts_emulated}
    if settings.sanitize is not None:
        same["sanitize"] = settings.sanitize
    if chosen.fabric == "nic":
        same |= {"profile": chosen.profile, "seed": chosen.seed, "progress": chosen.progress}
    world.agree({"heap_size": asked, "fabric": chosen.fabric, **same})
    process.current = _attach(chosen, world, asked, given)
    _tell_start(process.current)
    if (before := process.ended) is not None:
        process.current.past = tuple(heap for heap in (*before.past, before.heap) if heap.mapped)


def _tell_start(pe: PE) -> None:
    fabric = type(pe.fabric).__name__.removesuffix("Fabric").lower()
    told = pe.n, fabric, format_size(pe.heap.size), pe.settings.timeout_s
    log.info("started with %d PEs, fabric %s, a heap of %s for each, waits end after %g s", *told)


def init_thread(requested: THREAD = THREAD.MULTIPLE) -> THREAD:
    """Starts shmem as `init` does; returns the thread level provided, which is always THREAD_MULTIPLE.

    requested: THREAD. All routines may be called from all threads at any time; what a collective call needs, one
    thread at a time a team, is the program's affair. Raises as `init`, ArgumentError for what is no THREAD.
    OpenSHMEM 1.6, 9.2 (shmem_init_thread).
    """
    if not isinstance(requested, THREAD):
        raise ArgumentError(f"{requested!r} is no thread level: use a THREAD_ constant")
    init()
    return THREAD.MULTIPLE


def query_thread() -> THREAD:
    """The thread level provided: THREAD_MULTIPLE. OpenSHMEM 1.6, 9.2 (shmem_query_thread).

    Raises StateError after finalize.
    """
    current()
    return THREAD.MULTIPLE


def _chosen(settings: Settings, **given: object) -> Settings:
    """Settings in which what was given replaces what the environment says. Raises ArgumentError."""
    chosen = replace(settings, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    seed = chosen.seed
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or seed < 0):
        raise ArgumentError(f"seed={seed!r}: a whole number from 0 up is needed")
    return chosen


def _check_profile(chosen: Settings) -> None:
    """Raises ArgumentError where deliveries need a profile and the one named does not exist."""
    if chosen.fabric == "nic":
        from .delivery.profiles import profile as named

        named(chosen.profile)


def _size(heap_size: int | str | None, settings: Settings) -> int:
    if heap_size is None:
        return settings.heap_size
    try:
        asked = parse_size(heap_size) if isinstance(heap_size, str) else int(heap_size)
    except ArgumentError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"heap_size={heap_size!r}: must be a number of bytes, or text like '512M'") from None
    if asked <= 0:
        raise ArgumentError(f"heap_size={heap_size!r}: must be above 0 bytes")
    return asked


def _attach(settings: Settings, world: bootstrap.World, asked: int, given: bool) -> PE:
    fabric, nbytes = world.fabric(settings, asked, given)
    heap = SymmetricHeap(fabric, fabric.attach(nbytes + SCRATCH_BYTES), nbytes, settings.poison)
    if world.comm is not None:
        world.comm.Barrier()  # every header is ready before anybody looks at it
    note_shared_files(settings)
    hosts = bootstrap.host_numbers(world.n, settings.hosts_emulated)
    pe = PE(settings, world, fabric, heap, Members(0, tuple(range(world.n))), hosts)
    fabric.team(Members(SHARED, pe.neighbours))
    fabric.start(settings, world.comm is not None)
    return pe


def note_shared_files(settings: Settings) -> None:
    """Tells the launcher which files MPI made in shared memory, which an abnormal end would leave behind."""
    if settings.status_file is not None:
        from . import rank

        rank.note_shm()


def finalize() -> None:
    """Ends the use of shmem by this PE. Collective: includes a quiet and a barrier of all PEs.

    Allocations not freed are listed on stderr with the lines that made them. Arrays stay readable, and the memory of
    the heap is given back when none is left. Any communication afterwards raises StateError, until the next init.
    Matches the innermost init. OpenSHMEM 1.6, 9.1 (shmem_finalize).
    """
    process = _here
    pe = process.current
    if pe is None:
        if process.ended is None:
            raise StateError("finalize before init")
        return
    if pe.starts > 1:
        pe.starts -= 1
        log.debug("finalize of an inner init: %d to come", pe.starts)
        return
    from . import barriers, contexts

    for stream in list(pe.streams):
        stream.close()
    contexts.end(pe, pe.contexts)
    barriers.collective(pe, FINALIZE)
    pe.world.tell_leaks(pe.leaks())
    pe.fabric.close()
    stats = pe.heap.stats()
    log.info("finalized: at most %s of the heap in use, %d blocks not freed", format_size(stats.peak), stats.blocks)
    process.current, process.ended = None, pe
    pe.let_go()


def initialized() -> bool:
    """Whether shmem runs on this PE (between init and finalize)."""
    return _here.current is not None


def query_initialized() -> bool:
    """As `initialized`, under the name of OpenSHMEM 1.6, 9.1 (shmem_query_initialized). Callable at any time."""
    return _here.current is not None


def my_pe() -> int:
    """The number of this PE, 0 .. n_pes()-1. Raises StateError after finalize. OpenSHMEM 1.6, 9.1 (shmem_my_pe)."""
    return current().me


def n_pes() -> int:
    """How many PEs the job has. Raises StateError after finalize. OpenSHMEM 1.6, 9.1 (shmem_n_pes)."""
    return current().n


def pe_accessible(pe: int) -> bool:
    """Whether `pe` is a living PE of the job that can be reached; False for what is no PE.

    PEs of other hosts, emulated ones included, are reached by transfers, if not by `ptr`.
    OpenSHMEM 1.6, 9.1 (shmem_pe_accessible).
    """
    try:
        number = current().check_pe(pe)
    except InvalidPE:
        return False
    return number not in current().fabric.dead(look=False)


def info_get_name() -> str:
    """The name of this implementation, VENDOR_STRING. OpenSHMEM 1.6, 9.1 (shmem_info_get_name)."""
    return VENDOR_STRING


def info_get_version() -> tuple[int, int]:
    """(major, minor) of the OpenSHMEM specification followed. OpenSHMEM 1.6, 9.1 (shmem_info_get_version)."""
    return MAJOR_VERSION, MINOR_VERSION


def pcontrol(level: int = 1) -> None:
    """Tells a profiler how much to record; without one it does nothing. OpenSHMEM 1.6, 10 (shmem_pcontrol).

    level: 0 nothing, 1 the default, 2 and above as the profiler likes. Raises ArgumentError for what is no integer.
    """
    if not isinstance(level, int):
        raise ArgumentError(f"pcontrol({level!r}): the level is an integer")


def global_exit(status: int = 0) -> NoReturn:
    """Ends the whole job with an exit status, whatever the other PEs do. Never returns.

    Raises ArgumentError for a status that is no integer; then the job goes on.
    OpenSHMEM 1.6, 9.1 (shmem_global_exit).
    """
    pe = _here.current or _here.ended
    try:
        code = operator.index(status)
    except TypeError:
        me = None if pe is None else pe.me
        raise ArgumentError(f"global_exit({status!r}): the status is an integer", pe=me) from None
    sys.stdout.flush()
    sys.stderr.flush()
    log.info("global_exit(%d)", code)
    if pe is None:
        sys.exit(code)
    pe.world.abort(code)
    raise AssertionError("abort returned")
