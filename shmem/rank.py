"""What each rank of `shmemu run` executes: `python -m shmem.rank prog.py args...` or `... -m module args...`.

It runs the program as Python would (`__main__`, sys.argv, sys.path), and keeps a file for the launcher: who
this process is, which files MPI made in /dev/shm, how the program ended. Launchers don't notice a rank that
dies before MPI_Init while its peers wait in there for ever; with these files ours does. Imports neither MPI
nor NumPy.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import io
import os
import resource
import runpy
import signal
import sys
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import NoReturn

RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
SHM_FILES = tuple(f"/dev/shm/{name}" for name in ("mpich_shm_", "sm_segment.", "vader_segment.", "Intel_MPI_"))


def number() -> int:
    """This process's PE number by the variables of MPI's launchers; 0 if none of them started it."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if name in os.environ), 0)


def start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot: tells a recycled pid apart. None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def mapped_files(pid: int | str) -> set[str]:
    """Files that a process has mapped; none if it has ended."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return {line.split(None, 5)[5].rstrip("\n") for line in maps if "/" in line}
    except OSError:
        return set()


def shm_names(pid: int | str) -> set[str]:
    """Files of MPI's own in /dev/shm that a process has mapped and that have a name still."""
    ours = (path for path in mapped_files(pid) if path.startswith(SHM_FILES))
    return {path for path in ours if not path.endswith(" (deleted)")}


def note(*words: object) -> None:
    """Appends a line to this rank's file, with the time; nothing where no launcher of ours asked for one.

    `exit CODE` tells how this rank ends, before it does: an exit code, or minus a signal's number. The first counts.
    """
    if status := os.environ.get("SHMEMU_STATUS_FILE"):
        try:
            name = os.path.join(os.path.dirname(status), f"rank.{number()}")
            with open(name, "a", encoding="utf-8") as file:
                file.write(" ".join(map(str, [*words, time.monotonic_ns()])) + "\n")
        except OSError:
            pass  # the launcher is gone and its folder with it: nobody reads this any more


def note_shm() -> None:
    """Tells the launcher that MPI runs here, and what it made in /dev/shm: to be called after MPI_Init. An
    abnormal end leaves those files behind, and the launcher removes them.
    """
    note("init")
    for name in sorted(shm_names("self")):
        note("shm", name)


def no_stdin(status_file: str | Path) -> Path:
    """The file by whose existence the launcher says that there is nothing to read."""
    return Path(status_file).with_name("no-stdin") if status_file else Path(os.devnull, "none")


def run(argv: list[str]) -> None:
    """Runs `prog.py args...` or `-m module args...` as the main program; raises what it raises."""
    if argv[0] == "-m":
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = argv
    if not getattr(sys.flags, "safe_path", False):  # `-m shmem.rank` put the current folder there
        sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    runpy.run_path(argv[0], run_name="__main__")


def _program_frames(tb: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's own first frame on; None, for the message alone, if it has none."""
    frame = tb
    while frame is not None and frame.tb_frame.f_code.co_filename.endswith((__file__, "runpy.py", "runpy>")):
        frame = frame.tb_next
    return frame


def _failed(error: BaseException) -> int:
    """Says on stderr how the program failed; the exit code that this means."""
    from shmem import failure

    if isinstance(error, SystemExit):
        if not isinstance(error.code, int):
            sys.stderr.write(failure.prefixed(str(error.code)))
        return error.code if isinstance(error.code, int) else 1
    code = 130 if isinstance(error, KeyboardInterrupt) else 1
    note("exit", code)  # before the hook: that of a running PE ends the job and doesn't return
    hook = failure.report if sys.excepthook is sys.__excepthook__ else sys.excepthook
    hook(type(error), error, _program_frames(error.__traceback__))
    return code


def main() -> None:
    """Runs the program of sys.argv. A failure of it is shown with the PE's number and ends the whole job."""
    if "SHMEMU_STATUS_FILE" in os.environ:
        _supervise()
    # mpiexec feeds PE 0 only: MPICH lets the others wait for their stdin for ever, and Open MPI even PE 0 for its end.
    if number() != 0 or no_stdin(os.environ.get("SHMEMU_STATUS_FILE", "")).exists():
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
    pid = os.getpid()
    note("pid", pid, start_time(pid))
    if sys.stderr is not None:
        faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whole lines, at once: else those of several PEs mix
            stream.reconfigure(line_buffering=True, write_through=False)
    atexit.register(_note_leaving, pid)  # registered first, so it runs last
    try:
        run(sys.argv[1:])
    except BaseException as error:
        if os.getpid() != pid or (isinstance(error, SystemExit) and error.code in (None, 0)):
            raise  # a child that the program forked, or a good end
        _end(_failed(error))


def _supervise() -> None:
    """Goes on in a child; this process waits for it, tells the launcher of its end, and ends in the same way.

    So the launcher learns which PE failed first and how, whatever killed it: MPI's launchers kill the others as soon
    as they notice, and don't say whom they noticed. In survive mode this process ends without a signal, since MPICH's
    launcher kills everybody once it reaps a process that a signal killed, even if told not to clean up; and well, since
    Open MPI's (5.0.11) now and then does so for another exit code.
    """
    for meant_for_child in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(meant_for_child, signal.SIG_IGN)  # it is in the same group; USR1 is MPICH's
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which NumPy's BLAS may have and looks after
        child = os.fork()
    if child == 0:
        _restore(parent)
        return
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0 and _left_early():
        sys.stderr.write(f"PE {number()}: left by os._exit(0), without finalize: its peers can't end well\n")
        code = 1
    note("exit", code)
    if code < 0 and not _surviving():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
        if code not in (-signal.SIGKILL, -signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(parent, -code)
    survivors = _surviving() and "OMPI_COMM_WORLD_RANK" in os.environ
    os._exit(0 if survivors else code if code >= 0 else 128 - code)


def _left_early() -> bool:
    """Whether MPI was started and Python not left in the ordinary way: peers wait, and MPICH takes 0 for a good end."""
    status = os.environ.get("SHMEMU_STATUS_FILE", "")
    try:
        text = Path(status).with_name(f"rank.{number()}").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    said = {line.split(" ")[0] for line in text.splitlines()}
    return "init" in said and "leaving" not in said


def _restore(parent: int) -> None:
    """The child, the PE from now on: signals as they were, and no life after its supervisor's."""
    from shmem import failure

    failure.adopt()
    for ignored in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not _surviving():
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _surviving() -> bool:
    return os.environ.get("SHMEMU_ON_DEATH") == "survive"


def _end(code: int) -> NoReturn:
    from shmem import failure

    note("exit", code)
    failure.end_job(code)


def _note_leaving(pid: int) -> None:
    """Peers that start MPI wait for all PEs, and so for ever for one that ended well without having started it."""
    if os.getpid() == pid:
        note("leaving" if "mpi4py.MPI" in sys.modules else "without-mpi")


if __name__ == "__main__":
    main()
