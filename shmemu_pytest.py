"""The pytest plugin of shmemu as pytest finds it: names only, so that a test run without them costs nothing.

What the marker `shmem_check` and the fixture `shmem_explore` do is in `shmem.check.plugin`, which is imported, and with
it `shmem`, once a test has one of them. This module is outside of the package for that reason alone.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

MARKER = (
    "shmem_check(pes=2, profile='openshmem', strategy='exhaustive', budget=None, complete=False, ...): the test is a "
    "program of so many PEs, which shmem.check explores; other arguments as for explore"
)
PLUGIN = "shmem.check.plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--shmem-replay`."""
    group = parser.getgroup("shmem", "exploring programs of several PEs")
    text = "run the execution of this token (or saved failure) again, instead of exploring"
    group.addoption("--shmem-replay", metavar="TOKEN|FILE", default=None, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Loads the rest where a test needs it."""
    manager = item.config.pluginmanager
    needed = item.get_closest_marker("shmem_check") or "shmem_explore" in getattr(item, "fixturenames", ())
    if needed and not manager.has_plugin(PLUGIN):
        manager.register(importlib.import_module(PLUGIN), PLUGIN)


@pytest.fixture
def shmem_explore(request: pytest.FixtureRequest) -> Any:
    """`explore` for tests: failures are saved, and a failed assertion of the test tells them."""
    from shmem.check.plugin import Explorer

    return Explorer.of(request.node)
