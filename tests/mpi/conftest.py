"""Every test here runs on the PEs of a job, and says so itself (`pytestmark = pytest.mark.mpi`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import shmem
from shmem.slots import SLOTS

from .data import Array, stop
from .team_checks import PREDEFINED, slots_free


@pytest.fixture
def fresh_heap() -> None:
    """A heap of which no byte was ever used: in the resident job, earlier tests have used the old one."""
    stop()
    shmem.init()


@pytest.fixture
def board() -> Iterator[Array]:
    """A symmetric word for each PE."""
    words = shmem.zeros(shmem.n_pes(), np.int64)
    yield words
    shmem.free(words)


@pytest.fixture
def no_team_left() -> Iterator[None]:
    """A test has destroyed the teams that it made."""
    yield
    assert slots_free() == SLOTS - PREDEFINED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    astray = [item.nodeid for item in items if here in item.path.parents and not item.get_closest_marker("mpi")]
    if astray:
        raise pytest.UsageError(f"tests under tests/mpi need @pytest.mark.mpi: {', '.join(astray)}")
