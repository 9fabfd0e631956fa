"""How `pytest -n 3` (pytest-xdist) shares the suite out: a cell is one unit of work, for its job is resident.

What runs in the parent goes by files, which may have fixtures of their own, but for those files whose tests are jobs of
a second or two each. The two largest units start first; then come those jobs, which wait more than they compute, beside
them; then the rest, the smallest last. Each worker hands its part of the record of `coverage` to the process that the
user started, which judges the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from .cells import chosen

# Files of many jobs without a shared fixture: test by test.
SINGLE = ("tests/test_failure.py", "tests/test_launch.py")
FIRST = 2  # units that compute all the time: as many as small machines have cores


def unit(nodeid: str, cells: list[str]) -> str:
    """What a test is run together with: its cell, its file, or nothing else."""
    path, _, rest = nodeid.partition("::")
    params = rest.partition("[")[2].rstrip("]")
    for cell in cells:
        # The parameter `cell` comes first (see `plugin`).
        if params == cell or params.startswith(f"{cell}-"):
            return cell
    return nodeid if path in SINGLE else path


def ranked(units: Iterable[str]) -> dict[str, int]:
    """The place of each unit, one name a test, among those that are started one after the other."""
    counts = Counter(units)
    by_size = sorted((name for name in counts if not name.startswith(SINGLE)), key=lambda name: -counts[name])
    singles = [name for name in counts if name.startswith(SINGLE)]
    return {name: place for place, name in enumerate(by_size[:FIRST] + singles + by_size[FIRST:])}


class Spread:
    """The plugin; xdist may be absent, and without `-n` none of its hooks is called."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Workers of xdist agree on the order."""
        if hasattr(config, "workerinput"):
            cells = [cell.name for cell in chosen()]
            places = ranked(unit(item.nodeid, cells) for item in items)
            items.sort(key=lambda item: places[unit(item.nodeid, cells)])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        from xdist.scheduler import LoadScopeScheduling

        cells = [cell.name for cell in chosen()]
        config.option.loadscopereorder = False  # it is ours

        class ByUnit(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                return unit(nodeid, cells)

        return ByUnit(config, log)
