"""Two PEs with a queue pair to each other, as the tests of queue pairs use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shmem
from shmem import nic

WORDS = 8


class Ends:
    """Two PEs with an array each, registered, and a queue pair to the other."""

    def __init__(self, rights: str = "rwa", words: int = WORDS, cq: int = 64, **more: Any) -> None:
        self.me = shmem.my_pe()
        self.there = 1 - self.me
        self.array = shmem.zeros(words, np.uint64)
        self.segment = nic.register(self.array, rights)
        self.remote = nic.import_segment(self.segment, self.there)
        self.cq = nic.CompletionQueue(cq)
        self.qp = nic.QueuePair(self.there, self.cq, **more)
        shmem.barrier_all()

    def write(self, *values: int, at: int = 0, **more: Any) -> nic.WorkRequest:
        """A WRITE of some words, inline."""
        local = np.array(values, np.uint64)
        return nic.WorkRequest(nic.WRITE, local=local, remote=self.remote, offset=8 * at, inline=True, **more)


def of_pe_0(body: Callable[[Ends], Any], profile: Any = "rc_strict", **more: Any) -> Any:
    """What PE 0 gets from `body`, in the usual order; PE 1 only takes part in barriers."""

    def main() -> Any:
        ends = Ends(**more)
        found = body(ends) if ends.me == 0 else None
        shmem.barrier_all()
        return found

    return shmem.run(main, 2, profile=profile)[0]
