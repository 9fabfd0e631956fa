"""What a program costs on a modelled machine: one run in virtual time, and what went over which links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..delivery.model import Model
from ..delivery.profiles import Profile
from ..fabric.sim.network import Traffic
from ..fabric.sim.tasks import Job
from .exploration import prepare
from .once import once, raise_failure


@dataclass(frozen=True)
class Timing:
    """One run of a program in virtual time. Lists are by PE."""

    results: list[Any]  # what the PEs returned
    finish_us: list[float]  # when each returned
    traffic: Mapping[str, Traffic]  # by class of links
    events: int  # that the simulation went through
    seconds: float  # of this machine, that it took for them, without what comes before and after

    @property
    def end_us(self) -> float:
        """When the last PE returned."""
        return max(self.finish_us)

    @property
    def messages(self) -> int:
        """On all links."""
        return sum(each.messages for each in self.traffic.values())

    @property
    def bytes(self) -> int:
        """On all links."""
        return sum(each.bytes for each in self.traffic.values())

    def __str__(self) -> str:
        lines = [f"PE {pe}: {us:.3f} us" for pe, us in enumerate(self.finish_us)]
        for name, each in sorted(self.traffic.items()):
            lines.append(f"{name}: {each.messages} messages, {each.bytes} bytes")
        return "\n".join(lines)


def simulate(
    program: Callable[..., Any], n_pes: int, clock: str | Model, profile: str | Profile | None = None, *,
    args: Sequence[Any] = (), seed: int | None = None,
) -> Timing:  # fmt: skip
    """Runs a program once in virtual time.

    program: a function of no arguments, of the PE's number, or of `args`. clock: a Model, the name of one, or a TOML
    file. profile: a delivery profile, default `openshmem`. seed: draws what of equal times comes first. The same
    arguments give the same times. Raises as `shmem.run`.
    """
    with once(prepare(program, n_pes, profile, args, clock=clock, ties=seed), None) as job:
        raise_failure(job)
        return timing(job)


def timing(job: Job) -> Timing:
    """What a job that has ended well in virtual time has taken."""
    clock, n = job.clock, job.program.n
    assert clock is not None
    results = [job.tasks[pe].result for pe in range(n)]
    return Timing(results, [clock.finish[pe] for pe in range(n)], clock.network.traffic, clock.events, clock.seconds)
