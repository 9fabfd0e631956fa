"""`shmem.run`: a program with all its PEs in this process. The simulation is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError

if TYPE_CHECKING:
    from .delivery.model import Model
    from .delivery.profiles import Profile


def run(
    program: Callable[..., Any],
    n_pes: int,
    fabric: str = "sim",
    profile: str | Profile | None = None,
    seed: int | None = None,
    clock: str | Model | None = None,
) -> list[Any]:
    """Runs a program once with n PEs that are tasks of this process: in a notebook, in a unit test. Ours.

    program: a function of no arguments, or of the PE's number. fabric: "sim" is the only one that has its PEs in one
    process. profile: a delivery profile, by name or as one, default `openshmem`. seed: draws the order in which PEs
    go on and messages arrive; without one all arrives at once, in the same order each time. clock: a model of what
    communication costs, its name, or a TOML file: what comes first is then what is due first, `virtual_time()` tells
    the program when that is, and a seed draws only what of equal times comes first.
    Returns what each PE returned, PE 0 first; symmetric arrays as copies, since they end with the job. Raises what a PE
    raised (a note tells which), SystemExit for `global_exit`, ShmemTimeout where all PEs wait for one another,
    ArgumentError.
    """
    if fabric != "sim":
        raise ArgumentError(
            f"run(fabric={fabric!r}): only sim has its PEs in one process; for the others: "
            f"shmemu run -n {n_pes} --fabric {fabric} prog.py"
        )
    from .check.once import results

    return results(program, n_pes, profile, seed, clock)
