"""Canaries first: where they do not die, no other test of the explorer means anything."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_canaries.py" not in item.nodeid)
