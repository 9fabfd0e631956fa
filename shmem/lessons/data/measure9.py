"""What lesson 9 measures: PE 0 sends to PE 1, as two processes on `nic`. Writes seconds, a number for each round.

measure9.py FILE ROUNDS posting|messages
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter  # one clock for all processes of a machine
from typing import Any

import numpy as np
import numpy.typing as npt

import shmem
from shmem import nic

ROWS, NBYTES = 64, 64  # rows in a batch, bytes of a row and of a message
EVENTS = 1 << 20  # more than there are
BATCHES, MESSAGES = 20, 100  # in a round, of which the median counts
SHARED: list[Any] = []
Seconds = dict[str, tuple[float, ...]]


def main(file: str, rounds: int, what: str) -> None:
    shmem.init(fabric="nic", profile="rc_strict")
    measured = Posting() if what == "posting" else Messages()
    found = [measured.round() for _ in range(1 + rounds)]  # the first one is for practice
    if shmem.my_pe() == 0:
        every = {name: [each[name] for each in found[1:]] for name in found[0]}
        Path(file).write_text(json.dumps(every), encoding="utf-8")
    for array in reversed(SHARED):
        shmem.free(array)
    shmem.finalize()


def zeros(n: int, dtype: npt.DTypeLike = np.uint64) -> Any:
    """Symmetric memory, until the end."""
    SHARED.append(shmem.zeros(n, dtype))
    return SHARED[-1]


class Posting:
    """Batches of rows, of which the last one is signaled, with an adapter that is stepped by hand (SHMEMU_PROGRESS is
    "manual"). Measured: posting, a row; the adapter's work, a row; taking the completion."""

    def __init__(self) -> None:
        rows, box = zeros(ROWS * NBYTES // 8).reshape(ROWS, -1), zeros(ROWS * NBYTES // 8)
        remote = nic.import_segment(nic.register(box), 1 - shmem.my_pe())
        self.cq = nic.CompletionQueue()
        self.qp = qp = nic.QueuePair(1 - shmem.my_pe(), self.cq, depth=ROWS)
        offsets, signaled = NBYTES * np.arange(ROWS), np.arange(ROWS) == ROWS - 1
        many = nic.WorkRequests(nic.WRITE, rows, remote, offset=offsets, signaled=signaled)
        single = list(many.one_by_one(shmem.my_pe()))
        self.ways: dict[str, Callable[[], object]] = {
            "one by one": lambda: [qp.post(each) for each in single],
            "each": lambda: qp.post_many(many, doorbell="each"),
            "batch": lambda: qp.post_many(many, doorbell="batch"),
        }

    def round(self) -> Seconds:
        shmem.barrier_all()
        found = {name: self._way(post) for name, post in self.ways.items()} if shmem.my_pe() == 0 else {}
        shmem.barrier_all()
        return found

    def _way(self, post: Callable[[], object]) -> tuple[float, ...]:
        stamps = np.zeros((BATCHES, 4))
        for each in stamps:
            each[0] = perf_counter()
            post()
            each[1] = perf_counter()
            nic.step(EVENTS)
            each[2] = perf_counter()
            self.cq.wait(1)
            each[3] = perf_counter()
        posting, moving, taking = np.median(np.diff(stamps), axis=0).tolist()
        return posting / ROWS, moving / ROWS, taking


class Messages:
    """Messages that PE 1 answers. Measured: from the post until PE 1 has a copy, and until its answer is back."""

    def __init__(self) -> None:
        self.sent = 0
        self.there = there = 1 - shmem.my_pe()
        self.data, self.box = zeros(NBYTES // 8), zeros(NBYTES // 8)
        self.flag, self.answer = zeros(1), zeros(1)
        self.lines = zeros(shmem.LL.span(NBYTES), np.uint8)
        self.stamps = zeros(MESSAGES, np.float64)
        to_box = nic.import_segment(nic.register(self.box), there)
        to_flag = nic.import_segment(nic.register(self.flag), there)
        self.out = np.zeros_like(self.box)
        self.cq = nic.CompletionQueue()
        self.qp = nic.QueuePair(there, self.cq)
        self.write = nic.WorkRequest(nic.WRITE, self.data, to_box)
        self.quiet_write = nic.WorkRequest(nic.WRITE, self.data, to_box, signaled=False)
        self.number = np.zeros(1, np.uint64)
        self.tell = nic.WorkRequest(nic.WRITE, self.number, to_flag, inline=True)
        self.ways: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "completion first": (self.after_completion, self.by_flag),
            "same queue": (self.behind, self.by_flag),
            "data as flag": (self.as_lines, self.by_lines),
        }

    def after_completion(self) -> None:
        self.qp.post(self.write)
        self.cq.wait(1)
        self.qp.post(self.tell)

    def behind(self) -> None:
        self.qp.post(self.quiet_write)
        self.qp.post(self.tell)

    def as_lines(self) -> None:
        shmem.put_lines(self.lines, self.data, self.there, shmem.LL, self.sent)

    def by_flag(self) -> None:
        shmem.wait_until(self.flag, "==", self.sent)
        self.out[:] = self.box

    def by_lines(self) -> None:
        shmem.poll_lines(self.lines, shmem.LL, self.sent, out=self.out)

    def round(self) -> Seconds:
        return {name: self._way(send, receive) for name, (send, receive) in self.ways.items()}

    def _way(self, send: Callable[[], None], receive: Callable[[], None]) -> tuple[float, ...]:
        began, back = np.zeros(MESSAGES), np.zeros(MESSAGES)
        shmem.barrier_all()
        for i in range(MESSAGES):
            self.sent += 1
            self.number[0] = self.data[:] = self.sent
            if shmem.my_pe() == 0:
                began[i] = perf_counter()
                send()
                shmem.wait_until(self.answer, "==", self.sent)
                back[i] = perf_counter()
                self.qp.quiet()  # not measured: takes what completions there are
            else:
                receive()
                self.stamps[i] = perf_counter()
                assert self.out.tolist() == NBYTES // 8 * [self.sent], self.out
                shmem.p(self.answer, self.sent, self.there)
        shmem.barrier_all()
        ready = np.zeros(MESSAGES)
        shmem.get(ready, self.stamps, 1)
        shmem.barrier_all()
        return float(np.median(ready - began)), float(np.median(back - began))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
