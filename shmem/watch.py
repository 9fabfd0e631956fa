"""The launcher's view of a running job: its ranks by the files that `shmem.rank` writes, and its processes.

MPICH's launcher doesn't notice a rank that ends before MPI_Init, and its peers then spin in there for ever;
it doesn't say which rank died first either. `Watch` knows both. Processes of a job are those that carry its
status file in their environment: ranks, what they started, and MPI's own helpers, whatever session they put
themselves in.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .rank import shm_names, start_time


@dataclass
class Rank:
    """What is known of one rank. `code` is what was written at its end: its exit code, or minus a signal's
    number; None if nothing was.
    """

    pe: int
    pid: int
    start: str
    started_mpi: bool = False
    code: int | None = None
    gone: bool = False
    mapped: bool = False  # its files in /dev/shm are known
    read: int = field(default=0, repr=False)  # bytes of its file

    @property
    def failed(self) -> bool:
        """Whether it ended in another way than well."""
        return bool(self.code) or (self.gone and self.code is None)

    def fate(self) -> str:
        if self.code is None:
            return f"PE {self.pe} (process {self.pid}) died without a word: a signal, os._exit or MPI_Abort"
        if self.code < 0:
            return f"PE {self.pe} (process {self.pid}) was killed by {signal.Signals(-self.code).name}"
        return f"PE {self.pe} ended with exit code {self.code}"


class Watch:
    """The ranks of the job whose files lie in `folder`. `look` finds out what is new and is to be called
    every now and then. Where the kernel has pidfds, `select` tells of the ends of ranks at once and in their
    order: its events that carry a Rank are for `ended`.
    """

    def __init__(self, n: int, folder: Path, select: selectors.BaseSelector) -> None:
        self.n = n
        self.ranks: dict[int, Rank] = {}
        self.first_failed: Rank | None = None
        self.shm: set[str] = set()
        self._folder = folder
        self._select = select

    def look(self) -> None:
        """Reads what is new in the files, and sees who has ended."""
        for pe in range(self.n):
            self._read(pe)
        for rank in self.ranks.values():
            if not rank.gone:
                self._find_shm(rank)
                if start_time(rank.pid) != rank.start:
                    self.ended(rank)
            self._judge(rank)

    def ended(self, rank: Rank) -> None:
        """Takes note that the process of a rank is gone. Another may have said before that it fails: that was
        first, and this one was killed for it.
        """
        rank.gone = True
        for pe in range(self.n):
            self._read(pe)
        for other in self.ranks.values():
            if other.code:
                self._judge(other)
        self._judge(rank)

    def _judge(self, rank: Rank) -> None:
        if rank.failed and self.first_failed is None:
            self.first_failed = rank

    def hopeless(self, survive: bool) -> bool:
        """Whether the job can't go on by itself: a rank failed, or, where the others are to survive that,
        failed before MPI_Init, in which the others wait; or all ranks are gone.
        """
        if len(self.ranks) == self.n and all(rank.gone for rank in self.ranks.values()):
            return True
        failed = [rank for rank in self.ranks.values() if rank.failed]
        return any(not (survive and rank.started_mpi) for rank in failed)

    def verdict(self) -> str | None:
        """Who failed first, in one sentence; None if nobody did."""
        return self.first_failed.fate() if self.first_failed else None

    def exit_code(self) -> int:
        """What the job's exit code is by the ranks alone: the first failure's, 1 if that is not known."""
        code = self.first_failed.code if self.first_failed else None
        return 128 - code if code is not None and code < 0 else (code or 1) & 255 or 1

    def _find_shm(self, rank: Rank) -> None:
        """A rank that is stopped inside MPI_Init can't tell: its memory map does."""
        if not rank.mapped and (names := shm_names(rank.pid)):
            self.shm |= names
            rank.mapped = True

    def _read(self, pe: int) -> None:
        try:
            with open(self._folder / f"rank.{pe}", encoding="utf-8") as file:
                file.seek(self.ranks[pe].read if pe in self.ranks else 0)
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind("\n") + 1]
        for line in whole.splitlines():
            self._take(pe, line.split(" ", 1))
        if pe in self.ranks:
            self.ranks[pe].read += len(whole.encode())

    def _take(self, pe: int, words: list[str]) -> None:
        kind, rest = words[0], words[1] if len(words) == 2 else ""
        if kind == "pid":
            pid, start = rest.split()
            self.ranks[pe] = Rank(pe, int(pid), start)
            with contextlib.suppress(OSError):
                self._select.register(os.pidfd_open(int(pid)), selectors.EVENT_READ, self.ranks[pe])
        elif kind == "init":
            self.ranks[pe].started_mpi = True
        elif kind == "shm":
            self.shm.add(rest)
        elif kind == "exit" and self.ranks[pe].code is None:
            self.ranks[pe].code = int(rest)


def processes(status_file: Path) -> Iterator[int]:
    """The processes of the job with this status file, but zombies, which have no environment."""
    mark = f"SHMEMU_STATUS_FILE={status_file}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    yield int(entry)


def end_processes(status_file: Path, within_s: float = 5.0) -> None:
    """Kills every process of the job and waits until none is left, not longer than `within_s`: one in an
    uninterruptible sleep stays.
    """
    until = time.monotonic() + within_s
    while pids := list(processes(status_file)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return
        time.sleep(0.005)


def remove(names: set[str]) -> None:
    """Removes files of MPI's that its ranks could not remove themselves."""
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(name)
