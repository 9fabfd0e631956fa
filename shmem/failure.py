"""What happens when a PE fails: it ends the job with its traceback and number, and leaves nobody hanging.

Python's hooks for uncaught exceptions (of any thread) print with the PE's number and abort. An exit with a status
other than 0, however it comes about, is seen by the core's exit handler (`_native/exit.c`), which aborts as well; it
is also what ends MPI, even where the program started it (`_native/finalize.c`).
With `SHMEMU_ON_DEATH=survive` a failing PE only marks itself dead, and the others get `PeerDied` where they need it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import stat
import sys
import termios
import threading
import time
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from . import bootstrap, log, mpi_start
from .mpi_start import rank_text as rank_text

if TYPE_CHECKING:
    import socket

    from .streams import Stream

LATE_S = 1.0  # between PEs of a job that meet the same error
_installed = False
_pid: int | None = None


def _users_part(kind: type[BaseException], tb: TracebackType | None) -> TracebackType | None:
    """The traceback up to the program's last line: how our own errors came about inside these packages helps nobody.

    SHMEMU_LOG=debug shows all of it.
    """
    from .errors import ShmemError
    from .memory import OURS

    frames = [one for one, _ in traceback.walk_tb(tb)]
    inside = [frame.f_code.co_filename.startswith(OURS) for frame in frames]
    if not issubclass(kind, ShmemError) or all(inside) or os.environ.get("SHMEMU_LOG", "").lower() == "debug":
        return tb
    last = max(i for i, ours in enumerate(inside) if not ours)
    links: list[TracebackType] = []
    while tb is not None and len(links) <= last:
        links.append(tb)
        tb = tb.tb_next
    shown: TracebackType | None = None
    for link in reversed(links):
        shown = TracebackType(shown, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return shown


def report(kind: type[BaseException], value: BaseException, tb: TracebackType | None, who: str | None = None) -> None:
    """Prints a traceback on stderr, each line with the PE, in one write so that lines of PEs don't mix.

    What all PEs meet for the same reason (`mpi_start.of_all`) is one line, of the PE that comes first.
    """
    whole_job = getattr(value, "whole_job", False)
    if whole_job and _told_already():
        return
    lines = traceback.format_exception(kind, value, _users_part(kind, tb))
    sys.stderr.write(prefixed(f"{kind.__name__}: {value}" if whole_job else "".join(lines), who))
    sys.stderr.flush()
    if whole_job:
        time.sleep(LATE_S)  # a launcher ends the job with this process; who comes later still finds it told


def prefixed(text: str, who: str | None = None) -> str:
    """A text whose lines begin with the PE."""
    return "".join(f"{who or rank_text()}: {line}\n" for line in text.rstrip().split("\n"))


_told: list[socket.socket] = []  # the name that says that this process has told what all would tell


def _told_already() -> bool:
    """Whether another process of this launcher says what all of them would say: it has taken a name that ends with it,
    in a space that leaves nothing behind. Then this one waits for that end: it would end the job before it was said."""
    import socket  # too long a start for what is hardly ever needed

    from .rank import start_time

    job = os.environ.get("SHMEMU_STATUS_FILE") or f"{os.getppid()}.{start_time(os.getppid())}"
    address, name = f"\0shmemu.{os.getuid()}.{job}", socket.socket(socket.AF_UNIX)
    try:
        name.bind(address)
    except OSError:
        _await_end(name, address)
        return True
    name.listen()
    _told.append(name)
    return False


def _await_end(end: socket.socket, address: str) -> None:
    """Until the process that has the name is gone, or for twice as long as it stays."""
    until = time.monotonic() + 2 * LATE_S
    end.settimeout(2 * LATE_S)
    with end, contextlib.suppress(OSError):
        while end.connect_ex(address) == errno.ECONNREFUSED and time.monotonic() < until:
            time.sleep(0.01)  # it does not listen yet
        end.recv(1)


def _running_mpi() -> Any:
    """mpi4py's MPI, None unless it is between its start and its end."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    return mpi if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() else None


def _end_running_job(code: int) -> None:
    """Ends the job if MPI runs; in survive mode only this PE. Returns where there is nothing to end but the process."""
    from . import runtime

    sys.stdout.flush()
    sys.stderr.flush()
    if _pid not in (None, os.getpid()):
        return  # a child that the program forked: its end is its parent's affair
    pe = runtime.started()
    if pe is not None and pe.settings.on_death == "survive":
        pe.leave_dead()
        os._exit(code)
    if (mpi := _running_mpi()) is not None and not (mpi_start.refused and mpi.COMM_WORLD.size == 1):
        bootstrap.take_names_of_shared_files()
        let_read()
        mpi.COMM_WORLD.Abort(code)


def let_read(within_s: float = 1.0) -> None:
    """Waits until what this process printed has been read: MPICH's launcher loses what it has not when a job aborts."""
    until = time.monotonic() + within_s
    for fd in (1, 2):
        with contextlib.suppress(OSError):
            while stat.S_ISFIFO(os.fstat(fd).st_mode) and time.monotonic() < until:
                if not any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4))):
                    break
                time.sleep(0.001)


def end_job(code: int) -> NoReturn:
    """Ends the whole job with an exit code other than 0; in survive mode only this PE. Never returns."""
    _end_running_job(code)
    sys.exit(code)


class _Told(str):
    """The text of a sys.exit: Python prints it with the PE; for all else it is the text."""

    __slots__ = ()

    def __str__(self) -> str:
        return prefixed(str.__str__(self)).rstrip("\n")


def _exit(status: Any = None, /) -> NoReturn:
    """As sys.exit; a text that Python prints at the end of the program then begins with the PE."""
    raise SystemExit(_Told(status) if type(status) is str and os.getpid() == _pid else status)


def _uncaught(kind: type[BaseException], value: BaseException, tb: TracebackType | None) -> None:
    report(kind, value, tb)
    _end_running_job(130 if issubclass(kind, KeyboardInterrupt) else 1)


def _uncaught_in_thread(args: Any) -> None:
    if args.exc_type is SystemExit:
        return
    report(args.exc_type, args.exc_value, args.exc_traceback)
    _end_running_job(1)
    os._exit(1)  # a lone process whose thread failed must not end as if all were well


def _at_exit() -> None:
    """Leaves to the core's exit handler what depends on the exit status, which nobody knows yet.

    That is whether MPI ends well, also where shmem never started; and the list of what was not freed, since after a
    failure it would only hide the cause.
    """
    from . import runtime

    if _pid != os.getpid():
        return
    pe = runtime.started()
    if pe is not None:
        log.info("the program ends without finalize, which waits for the other PEs now")
        _drain(pe.streams)
    if pe is not None and pe.world.comm is None:
        sys.stderr.write(pe.leaks())
    elif pe is not None:
        pe.fabric.say_at_exit(pe.leaks())
    elif not runtime.connected() and (mpi := _running_mpi()) is not None:
        bootstrap.take_names_of_shared_files()  # as init does: MPI_Init returns when all PEs have mapped them
        bootstrap.leave_to_core(mpi)


def _drain(streams: list[Stream]) -> None:
    """Waits for what was launched, as finalize does: Python is about to free what it reads and writes."""
    try:
        for stream in list(streams):
            stream.close()
    except BaseException as error:
        report(type(error), error, error.__traceback__)
        _end_running_job(1)
        os._exit(1)  # a lone process


def install() -> None:
    """Installs the hooks, once. Hooks of the program that were there before are replaced only if they are Python's.

    A lone process without a launcher keeps Python's own: there is nobody to end, and it may be a notebook.
    """
    global _installed, _pid
    if _installed:
        return
    _installed, _pid = True, os.getpid()
    atexit.register(_at_exit)
    if not mpi_start.launched():
        return
    if "SHMEMU_STATUS_FILE" not in os.environ:  # else `shmem.rank` sees the exit
        sys.exit = _exit
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _uncaught
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _uncaught_in_thread
    _register()


def adopt() -> None:
    """Says that this process, forked from the one that installed the hooks, is the PE from now on."""
    global _pid
    if _installed:
        _pid = os.getpid()
        _register()


def _register() -> None:
    try:
        from ._native import _core
    except ImportError:
        return
    _core.lib.sm_exit_register(os.fsencode(sys.executable))
