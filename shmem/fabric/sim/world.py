"""The PEs of a job on `sim`, as one of them meets them when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import bootstrap, runtime

if TYPE_CHECKING:
    from .fabric import SimFabric
    from .tasks import Job


class SimWorld(bootstrap.World):
    """The PEs of a job on `sim`, as one of them sees them."""

    def __init__(self, job: Job, pe: int) -> None:
        super().__init__(pe, job.program.n, hosts=["sim"] * job.program.n)
        self.job = job

    def check(self, settings: Any) -> None:
        """A program is taken to mean this fabric, whatever it says."""

    def fabric(self, settings: Any, asked: int, given: bool) -> tuple[SimFabric, int]:
        """A fabric for this PE, and the size of its heap."""
        from .fabric import SimFabric

        return SimFabric(self.job, self.me), -(-asked // bootstrap.PAGE) * bootstrap.PAGE

    def agree(self, what: dict[str, object]) -> None:
        """Compares with what the PEs that have come gave."""
        self.job.starts[self.me] = what
        bootstrap.check_agreed(self.me, list(self.job.starts.values()))

    def tell_leaks(self, text: str) -> None:
        """Kept for whoever looks."""
        if text:
            self.job.leaks.append(text)

    def abort(self, code: int) -> None:
        """Ends the job, all its PEs."""
        raise JobExit(code)


class JobExit(BaseException):
    """`global_exit` on `sim`."""


def begin(job: Job, pe: int) -> None:
    """Makes the running task the PE of that number."""
    runtime.here().world = SimWorld(job, pe)
    runtime.here().settings = job.program.settings
