"""Every test here runs on the PEs of a job, and says so itself (`pytestmark = pytest.mark.mpi`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import shmem
from shmem.runtime import current
from shmem.slots import SLOTS

from .data import Array, stop
from .team_checks import PREDEFINED, slots_free


@pytest.fixture
def fresh_heap() -> None:
    """A heap of which no byte was ever used: in the resident job, earlier tests have used the old one."""
    stop()
    shmem.init()


@pytest.fixture
def only_woken() -> Iterator[None]:
    """No wait of the test found its word by looking again after a sleep: somebody woke it.

    Sleeps last so long that no PE stands between its store and its wake for all of one. Usually they end after
    0.1 s, or after 1 ms once a test of the same job has called `ptr`.
    """
    fabric = current().fabric
    before = fabric.counts()["missed"]
    fabric.lib.sm_set_cap(fabric.pe, 8 * 10**9)
    yield
    fabric.lib.sm_set_cap(fabric.pe, 0)
    assert fabric.counts()["missed"] == before


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
