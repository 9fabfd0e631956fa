"""What holds around each test on a PE, in the resident job and under `mpiexec ... pytest --with-mpi` alike.

Before a test the PEs compare its id: ranks that run different tests would exchange nonsense. After it the
symmetric heap must be as it was: what the test left is named, freed, and makes it fail.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from .heap import Leftovers


class Leak(AssertionError):
    """A test left blocks in the symmetric heap."""


class WrongTest(RuntimeError):
    """The PEs were about to run different tests."""


class OnRank:
    """A pytest plugin; its communicator is its own, so that no message of a test meets one of ours."""

    def __init__(self, *, frees: bool) -> None:
        """`frees`: at once; else whoever compared what the PEs left calls `heap.free`, on all of them or none."""
        from mpi4py import MPI

        self._frees = frees
        self.known = False  # somebody else has compared what the PEs are about to run
        self.comm = MPI.COMM_WORLD.Dup()
        self.heap = Leftovers()

    def agree(self, test: str | None) -> None:
        """Compares the id (None: this PE does not know the test it was asked for) with the other PEs'.

        Not where they are known to be equal: MPI's call polls, and 8 PEs that poll leave little of 2 cores.
        """
        if self.known:
            return
        tests = self.comm.allgather(test)
        if any(other != tests[0] for other in tests) or test is None:
            listed = "\n".join(f"  PE {pe}: {other or 'has no such test'}" for pe, other in enumerate(tests))
            raise WrongTest(f"the PEs are about to run different tests:\n{listed}")

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        item.stash[_failed] = True
        self.agree(item.nodeid)
        self.heap.mark()
        item.stash[_failed] = False
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        if report.failed:
            item.stash[_failed] = True
        return report

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        result = yield
        # After a failure the PEs may be anywhere; freeing is collective, so nothing is freed then.
        if not item.stash[_failed] and (left := self.heap.found()):
            if self._frees:
                self.heap.free()
            raise Leak("the test left in the symmetric heap:\n" + "\n".join(f"  {line}" for line in left))
        return result


_failed = pytest.StashKey[bool]()
