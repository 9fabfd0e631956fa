"""The time of a program that may run in virtual time: what its clock says, and what its own work takes."""

from __future__ import annotations

import math

from .errors import ArgumentError
from .runtime import current


def virtual_time() -> float:
    """Seconds on the clock of this PE, for differences between two calls. Ours.

    Under a clock (`shmem.run(..., clock=...)`) the modelled time since the job began, the same in every run. On other
    fabrics the time of the machine. On `sim` without a clock 0.0: there an order is chosen, and nothing takes time.
    Raises StateError after finalize.
    """
    return current().fabric.now()


def compute(seconds: float) -> None:
    """Says that the program would now compute for so long. Ours.

    Under a clock the PE's time goes on by that, and what it does next happens so much later. Otherwise nothing: real
    work takes real time. Returns at once. Raises ArgumentError for what is no time, StateError after finalize.
    """
    fabric = current().fabric
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ArgumentError(f"compute({seconds!r}): seconds, 0 or more")
    fabric.compute(seconds)
