"""Which cell takes which test."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.launcher import cells, plugin


def test_cells_are_chosen_by_name_and_pattern() -> None:
    assert [cell.name for cell in cells.chosen("direct-8,direct-2")] == ["direct-2", "direct-8"]
    fabrics = sorted({cell.fabric for cell in cells.table()})
    assert cells.chosen(",".join(f"{each}-?" for each in fabrics)) == cells.chosen("") == list(cells.table())
    assert {cell.tests for cell in cells.chosen("full")} == {"all"}
    with pytest.raises(ValueError, match="no cell is called 'direct-5'"):
        cells.chosen("direct-5")


def test_core_cells_take_one_dtype() -> None:
    def item(name: str, cell: cells.Cell, **params: object) -> Any:
        found = SimpleNamespace(params={"cell": cell, **params})
        return SimpleNamespace(path=Path("test_x.py"), originalname=name, callspec=found)

    core, whole = cells.Cell("direct", 4, "core"), cells.Cell("direct", 2)
    items = [
        item("test_a", core, dtype="i4", way=1),
        item("test_a", core, dtype="i8", way=1),
        item("test_a", core, dtype="i8", way=2),
        item("test_b", core, dtype="i8", way=1),
        item("test_a", whole, dtype="i4", way=1),
        item("test_a", whole, dtype="i8", way=1),
        item("test_c", core, way=1),
        item("test_c", core, way=3),
    ]
    assert plugin.repeats(items) == [items[1]]


def test_core_cells_take_core_tests_only() -> None:
    core = cells.Cell("direct", 4, "core")
    assert core.takes({"mpi", "core"})
    assert not core.takes({"mpi"})
    four = cells.Cell("direct", 4)
    assert [four.takes({"mpi"}, sizes) for sizes in (range(1, 9), range(4, 5), range(5, 9), range(1, 4))] == [
        True, True, False, False,
    ]  # fmt: skip


def test_what_a_test_needs_chooses_its_cells() -> None:
    weak, direct = cells.Cell("nic-udma", 2), cells.Cell("direct", 2)
    assert weak.takes([])
    assert direct.takes([])
    assert direct.takes([], needs=["tso"])
    assert direct.takes([], needs=["direct", "tso"])
    assert not weak.takes([], needs=["tso"])
    assert not weak.takes([], needs=["direct"])
    assert cells.Cell("nic-tso", 2).takes([], needs=["tso"])
    assert not cells.Cell("nic-tso", 2).takes([], needs=["direct"])
    of_profiles = [cells.Cell(f"nic-{name}", 2).takes([], needs=["words"]) for name in ("udma", "tso", "openshmem")]
    assert [direct.takes([], needs=["words"]), *of_profiles] == [True, True, True, False]


def test_what_a_parameter_needs_chooses_its_cells() -> None:
    def item(cell: cells.Cell | None, *needs: str) -> Any:
        marks = [pytest.mark.needs(what, "why").mark for what in needs]
        callspec = SimpleNamespace(params={"cell": cell})
        return SimpleNamespace(callspec=callspec, iter_markers=lambda name: iter(marks))

    weak, direct = cells.Cell("nic-udma", 2), cells.Cell("direct", 2)
    assert [plugin.is_home(item(weak, *needs)) for needs in ((), ("words",), ("tso",))] == [True, True, False]
    assert plugin.is_home(item(direct, "tso", "direct"))
    assert not plugin.is_home(item(None))
