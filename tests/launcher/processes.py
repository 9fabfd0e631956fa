"""Processes of a job: which they are, how to end them, and what they left in /dev/shm.

Every rank is a session of its own under hydra, so one group id does not name a job. Processes are found
below the `mpiexec` that was started here, held by a pidfd (a number that is reused names nobody else), and
ended by it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from pathlib import Path

SHM = "/dev/shm/"


class Process:
    """A process by number, as long as it is that process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, number)

    def fileno(self) -> int:
        """Readable once the process has ended."""
        return self._fd

    def running(self) -> bool:
        return not select.select([self._fd], [], [], 0)[0]

    def close(self) -> None:
        os.close(self._fd)


def hold(pid: int) -> Process | None:
    """The process, None if it has ended already."""
    try:
        return Process(pid)
    except ProcessLookupError:
        return None


def below(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):  # one that ends meanwhile
            for thread in os.listdir(f"/proc/{parent}/task"):
                listing = Path(f"/proc/{parent}/task/{thread}/children")
                found += [int(word) for word in listing.read_text().split()]
    return found


def with_word(word: str) -> list[int]:
    """The processes that have this word in their environment: all of a job that was started with it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def end(processes: Iterable[Process], wait_s: float = 5.0) -> list[int]:
    """Kills each and waits; the numbers of those that are still there."""
    waiting = {process.fileno(): process for process in processes}
    for process in waiting.values():
        process.signal(signal.SIGKILL)
    until = time.monotonic() + wait_s
    while waiting and (left := until - time.monotonic()) > 0:
        for fd in select.select(list(waiting), [], [], left)[0]:
            del waiting[fd]
    return [process.pid for process in waiting.values()]


def shm_files(pids: Iterable[int]) -> set[str]:
    """The files of /dev/shm that these processes have mapped and that still have a name."""
    files: set[str] = set()
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        words = (line.split(maxsplit=5) for line in maps.splitlines())
        files.update(row[5] for row in words if len(row) == 6 and row[5].startswith(SHM))
    return {name for name in files if os.path.exists(name)}


def remove(files: Iterable[str]) -> None:
    for name in files:
        with contextlib.suppress(OSError):
            os.unlink(name)
