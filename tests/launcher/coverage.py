"""The demand that every public function of `shmem` ran with two or more PEs, judged at the end of a whole run.

The ranks say which functions ran in a test (`calls`); those of tests that passed in a cell of two or more PEs count.
The demand holds for a run of everything only: all files of tests/mpi, no test deselected, every one run, none failed.
What can't run in a resident job is in `tests/data/openshmem_api.toml` under [[unrecorded]], with the reason.

Under pytest-xdist each worker runs a part of the tests it collected, and hands in its part of the record at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from . import calls
from .cells import Cell

FOLDER = Path(__file__).parents[1] / "mpi"  # the tests that must all run
PART = "shmemu-coverage"  # the key of a worker's part


class Coverage:
    """The pytest plugin that knows what ran; `Launcher` tells it."""

    def __init__(self) -> None:
        self._ran: set[str] = set()
        self._wanted = 0  # tests that are to run,
        self._done: set[str] = set()  # and those that did
        self._whole = True
        self._text = ""

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        if any(item.get_closest_marker("mpi") for item in items):
            self._whole = False

    def collected(self, session: pytest.Session, chosen: Mapping[pytest.Item, Cell]) -> None:
        """Tells which tests are to run in which cells."""
        self._wanted = len(chosen)
        files = set(FOLDER.glob("test_*.py"))
        parts = any("::" in str(argument) for argument in session.config.args)
        several = any(cell.pes >= 2 and cell.tests == "all" for cell in chosen.values())
        if parts or not several or not files <= {item.path for item in chosen}:
            self._whole = False

    def ran(self, item: pytest.Item, cell: Cell, outcome: str, names: Iterable[str]) -> None:
        """Tells that a test was run, and which functions ran in it."""
        self._done.add(item.nodeid)
        if outcome == "passed" and cell.pes >= 2:
            self._ran.update(names)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """In the process that the user started: takes a worker's part."""
        part = getattr(node, "workeroutput", {}).get(PART)
        if part is None:  # it died: its tests are missing
            self._whole = False
            return
        self._wanted = part["wanted"]
        self._done.update(part["done"])
        self._ran.update(part["ran"])
        self._whole &= part["whole"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            done, ran = sorted(self._done), sorted(self._ran)
            output[PART] = {"wanted": self._wanted, "done": done, "ran": ran, "whole": self._whole}
            return
        if session.exitstatus != pytest.ExitCode.OK or not self._whole or len(self._done) < self._wanted:
            return
        self._text = self.problem()
        if self._text:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def problem(self) -> str:
        """What is wrong with what ran, else an empty string."""
        import shmem
        from tests.api_table import table

        allowed = {name for group in table()["unrecorded"] for name in group["names"]}
        wanted = {name for name, _, _ in calls.public(shmem)}
        never, stale = sorted(wanted - allowed - self._ran), sorted(allowed & self._ran)
        lines = [f"public functions that never ran with two or more PEs: {', '.join(never)}"] if never else []
        lines += [f"[[unrecorded]] lists what did run: {', '.join(stale)}"] if stale else []
        return "\n".join(lines)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._text:
            terminalreporter.section("coverage of the API", red=True)
            terminalreporter.write_line(self._text)
