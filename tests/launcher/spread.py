"""How `pytest -n 3` (pytest-xdist) shares the suite out: a cell is one unit of work, for its job is resident.

What runs in the parent goes by files, which may have fixtures of their own, but for those files whose tests are jobs of
a second or two each; the largest units start first, so the small ones fill the end. Each worker hands its part of the
record of `coverage` to the process that the user started, which judges the whole.
"""

from __future__ import annotations

from typing import Any

import pytest

from .cells import chosen

# Files of many jobs without a shared fixture: test by test.
SINGLE = ("tests/test_failure.py", "tests/test_launch.py")


def unit(nodeid: str, cells: list[str]) -> str:
    """What a test is run together with: its cell, its file, or nothing else."""
    path, _, rest = nodeid.partition("::")
    params = rest.partition("[")[2].rstrip("]")
    for cell in cells:
        # The parameter `cell` comes first (see `plugin`).
        if params == cell or params.startswith(f"{cell}-"):
            return cell
    return nodeid if path in SINGLE else path


class Spread:
    """The plugin; xdist may be absent, and without `-n` none of its hooks is called."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        from xdist.scheduler import LoadScopeScheduling

        cells = [cell.name for cell in chosen()]

        class ByUnit(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                return unit(nodeid, cells)

        return ByUnit(config, log)
