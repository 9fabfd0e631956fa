"""The launcher's view of a running job: its ranks by the files that `shmem.rank` writes, and its processes.

MPICH's launcher doesn't notice a rank that ends before MPI_Init, and its peers then spin in there for ever; nor does it
say which rank failed first. `Watch` knows both. The processes of a job are those that carry its status file in their
environment: ranks, what they started, and MPI's own helpers, whatever session they put themselves in.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .rank import mapped_files, shm_names, start_time


@dataclass
class Rank:
    """What is known of one rank. `code` is what was written at its end: its exit code, or minus a signal's number;
    None if nothing was. `ended_ns` is when, by the clock that all processes share.
    """

    pe: int
    pid: int
    start: str
    started_mpi: bool = False
    without_mpi: bool = False  # it ended and had never loaded it
    code: int | None = None
    ended_ns: int = 0
    gone: bool = False
    mapped: bool = False  # its files in /dev/shm are known
    read: int = field(default=0, repr=False)  # bytes of its file

    @property
    def failed(self) -> bool:
        """Whether it ended in another way than well."""
        return bool(self.code) or (self.gone and self.code is None)

    @property
    def told(self) -> bool:
        """Whether it is known why it failed. SIGTERM is no reason: MPI's launchers end the others by it."""
        return bool(self.code) and self.code != -signal.SIGTERM

    def fate(self) -> str:
        if self.code is None:
            return f"PE {self.pe} (process {self.pid}) disappeared"
        if self.code < 0:
            return f"PE {self.pe} (process {self.pid}) was killed by {signal.Signals(-self.code).name}"
        return f"PE {self.pe} ended with exit code {self.code}"


class Watch:
    """The ranks of the job whose files lie in `folder`. `look` finds out what is new; call it every now and then."""

    def __init__(self, n: int, folder: Path) -> None:
        self.n = n
        self.ranks: dict[int, Rank] = {}
        self.shm: set[str] = set()
        self._folder = folder

    def look(self) -> None:
        """Sees who has ended, and reads what is new in the files: in this order, as a rank writes before it ends."""
        for rank in self.ranks.values():
            if not rank.gone:
                self._find_shm(rank)
                rank.gone = start_time(rank.pid) != rank.start
        for pe in range(self.n):
            self._read(pe)

    def hopeless(self, survive: bool) -> str | None:
        """Why the job can't go on by itself, if so: a rank failed, or, where the others are to survive that, failed
        before MPI_Init, in which the others wait; one ended well without MPI, but others have it; all are gone.
        """
        ranks = self.ranks.values()
        first = self.first_failed()
        if first and any(rank.failed and not (survive and rank.started_mpi) for rank in ranks):
            return first.fate()
        if self.all_gone():
            return "all PEs have ended, but mpiexec has not"
        for rank in ranks:
            if rank.gone and rank.without_mpi and (waiting := self._with_mpi()):
                return f"PE {rank.pe} ended without MPI, in whose start PE {waiting.pe} waits for it"
        return None

    def all_gone(self) -> bool:
        """Whether all ranks have been there and ended, in whatever way."""
        return len(self.ranks) == self.n and all(rank.gone for rank in self.ranks.values())

    def _with_mpi(self) -> Rank | None:
        alive = (rank for rank in self.ranks.values() if not rank.gone)
        return next((rank for rank in alive if any("/libmpi" in path for path in mapped_files(rank.pid))), None)

    def first_failed(self) -> Rank | None:
        """The rank that failed first, of those that told why; any other that failed if none did."""
        failed = [rank for rank in self.ranks.values() if rank.failed]
        told = [rank for rank in failed if rank.told]
        return min(told, key=lambda rank: rank.ended_ns) if told else next(iter(failed), None)

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
            *words, when = line.split(" ")
            self._take(pe, words, int(when))
        if pe in self.ranks:
            self.ranks[pe].read += len(whole.encode())

    def _take(self, pe: int, words: list[str], when_ns: int) -> None:
        match words:
            case ["pid", pid, start]:
                self.ranks[pe] = Rank(pe, int(pid), start)
            case ["init"]:
                self.ranks[pe].started_mpi = True
            case ["without-mpi"]:
                self.ranks[pe].without_mpi = True
            case ["shm", name]:
                self.shm.add(name)
            case ["exit", code] if self.ranks[pe].code is None:
                self.ranks[pe].code, self.ranks[pe].ended_ns = int(code), when_ns


def exit_code(rank: Rank | None) -> int:
    """What a rank that failed makes of the job's exit code: its own, 128 + the signal's number, 1 if nobody knows."""
    if rank is None or rank.code is None:
        return 1
    return 128 - rank.code if rank.code < 0 else rank.code & 255 or 1


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
