"""Litmus tests with queue pairs as programs on `sim`: the same statements, written with the calls of `shmem.nic`.

Messages outside the memory (`tell`, `hear`) are the job's own: no call of shmem orders so little.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shmem
from shmem import nic, runtime
from shmem.check.litmus import as_program
from shmem.check.litmus.syntax import STATUS_VALUES, Statement, Test
from shmem.errors import CompletionError, QueueFull
from shmem.fabric.sim.tasks import Step

from .as_program import Watched

RECEIVES = 8  # posted on each queue pair, where the test does not say how many
ORDERS = ("relax", "strong")
REQUESTS = ("write", "write_imm", "write_notify", "send", "read", "faa", "cas")
Pair = tuple[int, int, int]  # of a PE, to a PE, which


def pairs(test: Test) -> set[Pair]:
    """The queue pairs that a test uses, at both ends."""
    found = set(_pairs(test))
    return found | {(there, pe, which) for pe, there, which in found}


def _pairs(test: Test) -> Iterator[Pair]:
    for pe, statements in test.programs.items():
        for each in statements:
            if each.verb in REQUESTS:
                yield pe, each.pes[0] if each.verb == "send" else each.remote.pe, each.flags.get("qp", 1)  # type: ignore[union-attr]


class Requests(as_program.Translated):
    """One PE of a test with queue pairs."""

    def __init__(self, test: Test, job: Watched, me: int) -> None:
        super().__init__(as_program.memory(test), as_program.private(test), job.registers[me])
        self.job, self.me = job, me
        depth = int(test.settings.get("depth", 64))
        self.recv_cq = nic.CompletionQueue(64)
        mine = sorted(pair for pair in pairs(test) if pair[0] == me)
        self.cqs = {there: nic.CompletionQueue(64) for _, there, _ in mine}
        self.qps = {
            (there, which): nic.QueuePair(there, self.cqs[there], self.recv_cq, depth, which)
            for _, there, which in mine
        }
        for qp in self.qps.values():
            for _ in range(int(test.settings.get("recvs", RECEIVES))):
                qp.post_recv(np.zeros(0, np.uint64))
        self.segments = {name: nic.register(array) for name, array in self.arrays.items()}
        for array in self.private.values():
            nic.register(array, "")

    # ---- requests ----

    def _segment(self, name: str, pe: int) -> nic.Segment:
        return nic.import_segment(self.segments[name], pe)

    def _post(self, s: Statement, opcode: nic.Opcode, pe: int, **more: Any) -> None:
        flags = s.flags
        remote = s.remote
        if remote is not None and "remote" not in more:
            segment = self._segment(remote.word.name, pe)
            key = segment.key ^ 1 << 31 if "badkey" in flags else segment.key
            more |= {"remote": nic.Segment(pe, key, segment.nbytes, segment.rights), "offset": 8 * remote.word.lo}
        order = next((name for name in ORDERS if name in flags), "none")
        wr = nic.WorkRequest(
            opcode, signaled="unsignaled" not in flags, inline="inline" in flags, fence="fence" in flags, order=order,
            doorbell="nodb" not in flags, **more,
        )  # fmt: skip
        status = "ok"
        try:
            self.qps[pe, flags.get("qp", 1)].post(wr)
        except QueueFull:
            status = "full"
        if s.into:
            self.registers[s.into] = STATUS_VALUES[status]
        else:
            assert status == "ok"

    def _sent(self, s: Statement) -> Any:
        """What is sent: an own word, or a buffer that lives as long as the test."""
        source = self._source(s)
        if s.source is not None and s.source.buffer is None:
            nic.register(source, "")
        return source

    def do_write(self, s: Statement) -> None:
        self._post(s, nic.WRITE, self._pe(s), local=self._sent(s))

    def do_write_imm(self, s: Statement) -> None:
        self._post(s, nic.WRITE_IMM, self._pe(s), local=self._sent(s), imm=7)

    def do_write_notify(self, s: Statement) -> None:
        assert s.signal is not None
        assert s.update is not None
        there = self._segment(s.signal.word.name, s.signal.pe)
        notify = there, 8 * s.signal.word.lo, self.value(s.update.value)
        self._post(s, nic.WRITE_NOTIFY, self._pe(s), local=self._sent(s), notify=notify)

    def do_send(self, s: Statement) -> None:
        self._post(s, nic.SEND, s.pes[0])

    def do_read(self, s: Statement) -> None:
        word = s.word
        assert word is not None
        self._post(s, nic.READ, self._pe(s), local=self.private[word.name][word.lo : word.hi])

    def _old(self) -> Any:
        """Where the old value of an atomic goes, which nobody looks at."""
        made = np.zeros(1, np.uint64)
        self.kept.append(made)
        nic.register(made, "")
        return made

    def do_faa(self, s: Statement) -> None:
        self._post(s, nic.FAA, self._pe(s), local=self._old(), value=self.value(s.values[0]))

    def do_cas(self, s: Statement) -> None:
        compare, value = (self.value(each) for each in s.values)
        self._post(s, nic.CAS, self._pe(s), local=self._old(), value=value, compare=compare)

    def _pe(self, s: Statement) -> int:
        assert s.remote is not None
        return s.remote.pe

    # ---- order ----

    def _quiets(self, quiet: Callable[[], None]) -> None:
        """Until all failures are told, which are none of the test."""
        try:
            quiet()
        except CompletionError:
            self._quiets(quiet)

    def do_quiet(self, s: Statement) -> None:
        self._quiets(shmem.quiet)

    def do_pe_quiet(self, s: Statement) -> None:
        self._quiets(lambda: shmem.pe_quiet(s.pes))

    # ---- doorbells, completions, messages ----

    def do_doorbell(self, s: Statement) -> None:
        if qp := self.qps.get((s.pes[0], s.count)):  # where there is none nobody has posted anything
            qp.doorbell()

    def do_poll_cq(self, s: Statement) -> None:
        told = self.cqs[s.pes[0]].wait(s.count) if s.pes[0] in self.cqs else nic.CompletionQueue(1).wait()
        if s.into:
            self.registers[s.into] = STATUS_VALUES[told[-1].status]

    def do_poll_recv(self, s: Statement) -> None:
        while not self.recv_cq.wait()[0].ok:  # the language's receives are the PE's, and stay
            pass

    def do_tell(self, s: Statement) -> None:
        pair = self.me, s.pes[0]
        self.job.told[pair] = self.job.told.get(pair, 0) + 1
        self.job.give(("told", pair))

    def do_hear(self, s: Statement) -> None:
        pair, told = (s.pes[0], self.me), self.job.told
        self.job.do(Step("hear", lambda: None, lambda: told.get(pair, 0) > 0, needs=lambda: [("told", pair)]))
        told[pair] -= 1


def body(job: Callable[[], Watched], test: Test) -> Callable[[int], None]:
    """What a PE runs. `job` gives the execution it belongs to."""

    def run(pe: int) -> None:
        here = Requests(test, job(), pe)
        shmem.barrier_all()
        for statement in test.programs.get(pe, ()):
            here.do(statement)
        job().finished.add(pe)
        engine = runtime.current().fabric.nic()
        for own in engine._own.values():  # type: ignore[union-attr]
            own.told = sys.maxsize, 0  # a failure that no statement looks at is none of the test

    return run
