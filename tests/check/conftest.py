"""Programs of these tests reach symmetric memory by puts, gets, atomics and waits only, and so do without arrays that
notice loads and stores."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def _plain_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("shmem.tracked") is None:
        monkeypatch.setattr("shmem.fabric.sim.memory.SimHeap.seen", lambda self, array: array)
