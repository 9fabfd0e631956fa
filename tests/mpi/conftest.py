"""Every test here runs on the PEs of a job, and says so itself (`pytestmark = pytest.mark.mpi`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import shmem

from .data import stop


@pytest.fixture
def fresh_heap() -> None:
    """A heap of which no byte was ever used: in the resident job, earlier tests have used the old one."""
    stop()
    shmem.init()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    astray = [item.nodeid for item in items if here in item.path.parents and not item.get_closest_marker("mpi")]
    if astray:
        raise pytest.UsageError(f"tests under tests/mpi need @pytest.mark.mpi: {', '.join(astray)}")
