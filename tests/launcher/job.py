"""One resident job: `mpiexec` with a rank on each PE that waits for tests.

The launcher talks to each rank over a socket of its own, so it counts reports and sees a death at once.
Whatever goes wrong in a test ends the job: the ranks may be anywhere then. Nothing of a job outlives
`close` or `kill`.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from shmem import launch

from . import processes
from .cells import Cell
from .verdict import Heard, names
from .wire import Message, Wire

REPOSITORY = Path(__file__).parents[2]
START_S = 90.0  # eight interpreters that import NumPy, on two busy cores
END_S = 60.0  # eight that leave MPI together, with other jobs on the cores
GRACE_S = 3.0  # what the other PEs get to report, once one has failed
STACK_S = 1.0
OUTPUT_MAX = 4000


class JobFailed(Exception):
    """The job did not start, or did not end as it should."""


class Rank:
    """One connected rank."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.wire = Wire(sock)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.process = processes.hold(struct.unpack("3i", credentials)[0])
        self.hello: Message = {}
        self.ready: Message = {}
        self.ended = False

    @property
    def pe(self) -> int:
        return int(self.hello["rank"])


def environment(cell: Cell) -> dict[str, str]:
    """What the ranks find: the cell's variables, and nothing of the outer pytest; plugins load by name only."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    ours = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    found = launch.environment(cell.pes, env={**ours, **cell.environment()})
    return {name: value for name, value in found.items() if name in ours or not name.startswith("PYTEST_")}


class Job:
    """The job of one cell; `options` are the arguments of `rank.py` after the cell's name."""

    def __init__(self, cell: Cell, options: Sequence[str]) -> None:
        self.cell = cell
        self._options = list(options)
        self._ranks: list[Rank] = []
        self._shm: set[str] = set()
        self._free = False  # the last test left memory, alike on all PEs
        self._alike = False  # all of them know the same tests: which one they run is then compared here
        self._select = selectors.DefaultSelector()

    # -- start -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the ranks and waits until each has collected its tests; JobFailed says why not."""
        self._folder = Path(tempfile.mkdtemp(prefix="shmemu-test-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / "socket"))
        self._listener.listen(self.cell.pes)
        program = ["-m", "tests.launcher.rank", "--job", str(self._folder), "--cell", self.cell.name]
        with (self._folder / "output").open("wb") as output:
            self._mpiexec = subprocess.Popen(
                launch.command(self.cell.pes, [sys.executable, *program, *self._options]),
                env=environment(self.cell),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._root = processes.Process(self._mpiexec.pid)
        self._select.register(self._listener, selectors.EVENT_READ)
        self._select.register(self._root, selectors.EVENT_READ)
        try:
            self._connect(time.monotonic() + START_S)
        except BaseException:
            self.kill()
            raise
        self._note_shm()

    def _connect(self, until: float) -> None:
        while not (len(self._ranks) == self.cell.pes and all(rank.ready for rank in self._ranks)):
            for rank, message in self._events(until - time.monotonic()):
                if message is None:
                    raise JobFailed(f"a rank ended before its first test\n{self.output()}")
                if message.get("size", self.cell.pes) != self.cell.pes:
                    raise JobFailed(f"{launch.find().mpiexec} started jobs of {message['size']} PEs")
                rank.hello = rank.hello or message
                rank.ready = message if "ready" in message else {}
            if time.monotonic() > until:
                raise JobFailed(f"{len(self._ranks)} ranks within {START_S:.0f} s\n{self.output()}")
        self._ranks.sort(key=lambda rank: rank.pe)
        self._alike = len({rank.ready["tests"] for rank in self._ranks}) == 1

    def _events(self, left: float) -> Iterator[tuple[Rank, Message | None]]:
        """What happened within `left` seconds: (rank, message), None for the end of its stream."""
        for key, _ in self._select.select(max(left, 0.0)):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._root:
                self._select.unregister(self._root)
                if len(self._ranks) < self.cell.pes:
                    raise JobFailed(f"mpiexec ended with code {self._mpiexec.wait()}\n{self.output()}")
            else:
                yield from self._receive(key.data)

    def _accept(self) -> None:
        rank = Rank(self._listener.accept()[0])
        self._ranks.append(rank)
        self._select.register(rank.sock, selectors.EVENT_READ, rank)

    def _receive(self, rank: Rank) -> Iterator[tuple[Rank, Message | None]]:
        messages = rank.wire.receive()
        if messages is None:
            self._select.unregister(rank.sock)
            rank.ended = True
            yield rank, None
        else:
            yield from ((rank, message) for message in messages)

    # -- a test ------------------------------------------------------------------------------------------

    def run(self, test: str, deadline_s: float) -> Heard:
        """Has every PE run the test; what they reported, who died, and where the silent ones are."""
        # An empty look first: epoll then lists events in the order they came, and the first death is the cause.
        list(self._events(0.0))
        reports: dict[int, Message] = {}
        heard = Heard(test, self.cell.pes, reports, [rank.pe for rank in self._ranks if rank.ended])
        began = time.monotonic()
        until = began + (GRACE_S if heard.gone else deadline_s)
        for rank in self._ranks:
            rank.wire.send(run=test, free=self._free, alike=self._alike)
        while len(reports) + len(heard.gone) < self.cell.pes and (left := until - time.monotonic()) > 0:
            for rank, message in self._events(left):
                if message is not None:
                    reports[rank.pe] = message
                elif rank.pe not in reports:
                    heard.gone.append(rank.pe)
                if message is None or (message["outcome"] == "failed" and not message["leaked"]):
                    until = min(until, time.monotonic() + GRACE_S)
        self._free = any(report["leaked"] for report in reports.values())
        heard.waited_s = time.monotonic() - began
        silent = [rank for rank in self._ranks if rank.pe not in reports and rank.pe not in heard.gone]
        heard.stacks = {**self._stacks(silent), **{pe: self._stack(pe) for pe in heard.gone}}
        heard.output = self.output()
        if heard.gone:  # mpiexec is about to say how
            select.select([self._root], [], [], STACK_S)
            heard.output = self.output()
        return heard

    def _stacks(self, ranks: Sequence[Rank]) -> dict[int, str]:
        """Asks each rank (faulthandler, in C: it answers whatever Python does) where it is."""
        for rank in ranks:
            if rank.process:
                rank.process.signal(signal.SIGUSR1)
        until = time.monotonic() + STACK_S
        before: dict[int, str] = {}
        now = {rank.pe: self._stack(rank.pe) for rank in ranks}
        while time.monotonic() < until and not (before == now and all(now.values())):
            time.sleep(0.05)
            before, now = now, {rank.pe: self._stack(rank.pe) for rank in ranks}
        return now

    def _stack(self, pe: int) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / f"pe{pe}.stacks").read_text(errors="replace")
        return ""

    def output(self) -> str:
        """The end of what mpiexec and the ranks printed past pytest's capture."""
        text = (self._folder / "output").read_text(errors="replace")
        return text[-OUTPUT_MAX:]

    # -- the end -----------------------------------------------------------------------------------------

    def close(self) -> str:
        """Lets the ranks finish; what went wrong with that, else an empty string."""
        for rank in self._ranks:
            rank.sock.shutdown(socket.SHUT_WR)
        try:
            code = self._mpiexec.wait(END_S)
            problem = f"the job ended with code {code}\n{self.output()}" if code else ""
        except subprocess.TimeoutExpired:
            stacks = self._stacks(self._ranks).items()
            where = "\n".join(f"{names([pe], self.cell.pes)}:\n{stack}" for pe, stack in stacks)
            problem = f"the job did not end within {END_S:.0f} s of its last test\n{where}\n{self.output()}"
        self.kill()
        return problem

    def kill(self) -> None:
        """Ends every process of the job and removes what it left."""
        self._note_shm()
        held = [process for pid in processes.below(self._mpiexec.pid) if (process := processes.hold(pid))]
        held += [rank.process for rank in self._ranks if rank.process]
        if self._mpiexec.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._mpiexec.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._mpiexec.wait(1.0)
        left = processes.end(held)
        self._mpiexec.wait()
        self._release([*held, self._root])
        if left:
            raise JobFailed(f"processes {left} of the job {self.cell.name} can't be ended")

    def _note_shm(self) -> None:
        self._shm |= processes.shm_files(processes.below(self._mpiexec.pid))

    def _release(self, held: Iterable[processes.Process]) -> None:
        self._select.close()
        closing: list[Any] = [self._listener, *(rank.sock for rank in self._ranks), *held]
        for thing in closing:
            thing.close()
        processes.remove(self._shm)
        shutil.rmtree(self._folder, ignore_errors=True)
