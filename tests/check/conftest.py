"""Canaries first: where they do not die, no other test of the explorer means anything.

And what writes modules of a user.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .copies import Write


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_canaries.py" not in item.nodeid)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules of a user, and imports the last."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(sources: dict[str, str]) -> Any:
        for name, source in sources.items():
            file = tmp_path / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield made
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", None)):
            del sys.modules[name]
