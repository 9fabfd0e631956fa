"""The demo's job on a buffer with one planted fault on the last rank, named by ``DEMO_TEST_FAULT``.

``outputs``, ``weights`` and ``received`` flip one bit of what combine or dispatch returned, ``once`` one bit of
a single combine among many; ``raise`` raises; ``heap`` asks, on all ranks, for more than any machine has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import shmem
from moe_ep import EPBuffer
from moe_ep.demo import job

FAULT = os.environ["DEMO_TEST_FAULT"]


def flip(array: Any) -> Any:
    damaged = array.copy()
    damaged.view(np.uint8)[-1, -1] ^= 1
    return damaged


def hit() -> bool:
    return shmem.my_pe() == shmem.n_pes() - 1


class Faulty(EPBuffer):
    combines = 0

    def once(self) -> bool:
        self.combines += 1
        return self.combines == 11

    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        x, *rest = super().dispatch(*args, **kwargs)
        if FAULT == "raise" and hit():
            raise RuntimeError("planted")
        return (flip(x) if FAULT == "received" and hit() else x, *rest)

    def combine(self, *args: Any, **kwargs: Any) -> Any:
        x, weights, event = super().combine(*args, **kwargs)
        return (
            flip(x) if hit() and (FAULT == "outputs" or (FAULT == "once" and self.once())) else x,
            flip(weights) if FAULT == "weights" and hit() else weights,
            event,
        )


if __name__ == "__main__":
    job.EPBuffer = Faulty  # type: ignore[misc]
    if FAULT == "heap":
        job.heap_bytes = lambda _: 1 << 50
    job.main(Path(sys.argv[1]))
