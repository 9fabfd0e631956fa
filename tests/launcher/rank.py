"""What each PE of the resident job runs: one pytest in this process, fed with test ids by the launcher.

It collects the files it is given, then runs each test that a line asks for and answers with one line.
pytest loads no plugin that it does not need and writes to no terminal; the end of the stream ends the loop
and the process.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import signal
import socket
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from .calls import Calls
from .cells import Cell
from .on_rank import Leak, OnRank
from .wire import Message, Wire

UNNEEDED = ("cacheprovider", "faulthandler", "junitxml", "pastebin", "stepwise", "debugging", "setuponly")
UNNEEDED += ("xdist", "xdist.looponfail")


class Resident:
    """The pytest plugin that replaces the loop over tests."""

    def __init__(self, wire: Wire, cell: Cell) -> None:
        self.wire = wire
        self.cell = cell
        self.on_rank = OnRank(frees=False)
        self.calls = Calls()
        self._errors: list[str] = []
        self._reports: list[pytest.TestReport] = []
        self._leaked: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collectstart(self) -> None:
        """The names that a test module binds when it is imported are wrapped already, if a conftest imports shmem."""
        self._record()

    def _record(self) -> None:
        if self.cell.pes >= 2:
            self.calls.install()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._errors.append(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_exception_interact(self, node: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        if call.excinfo is not None and call.excinfo.errisinstance(Leak):
            self._leaked = self.on_rank.heap.found()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._record()
        items = {item.nodeid: item for item in session.items}
        gc.freeze()  # thousands of tests are no garbage: nobody needs to look through them again
        self.wire.send(ready=len(items), tests=zlib.crc32("\n".join(items).encode()), errors=self._errors)
        for order in self.wire:
            self.on_rank.known = order["alike"] and order["run"] in items
            if order["free"]:
                self.on_rank.heap.free()
            line = self.run(items.get(order["run"]), order["run"])
            self.wire.send(**line)
        return True

    def run(self, item: pytest.Item | None, test: str) -> Message:
        """Runs one test with its set-up and tear-down, of its module too: nothing may outlive a test."""
        self._reports, self._leaked = [], []
        if item is None:
            return self._unknown(test)
        item.config.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        # What is named as the next item stays set up: here the folders, which have nothing of their own to set up.
        item.ihook.pytest_runtest_protocol(item=item, nextitem=item.getparent(pytest.Package))
        return {**summary(item.nodeid, self._reports, self._leaked), "called": self.calls.fresh()}

    def _unknown(self, test: str) -> Message:
        try:
            self.on_rank.agree(None)
        except RuntimeError as error:
            text = "\n".join([str(error), *self._errors])
        return _line(test, "failed", text=text, crash="has no such test")


def summary(test: str, reports: list[pytest.TestReport], leaked: list[str]) -> Message:
    """The line about a test: the first phase that failed, else skipped, else passed."""
    failed = [report for report in reports if report.failed]
    skipped = [report for report in reports if report.skipped]
    last = (failed or skipped or reports)[0]
    text = "\n".join(f"{'' if r.when == 'call' else f'in {r.when}: '}{r.longreprtext}" for r in failed)
    crash = getattr(last.longrepr, "reprcrash", None)
    outcome = "failed" if failed else "skipped" if skipped else "passed"
    return _line(
        test,
        outcome,
        text=text,
        crash=crash.message if crash else last.longreprtext.strip().partition("\n")[0],
        reason=getattr(last, "wasxfail", "") or _reason(last),
        expected=hasattr(last, "wasxfail"),
        sections=reports[-1].sections,
        duration=sum(report.duration for report in reports),
        leaked=leaked,
    )


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""


def _line(test: str, outcome: str, **more: Any) -> Message:
    empty = {"text": "", "crash": "", "reason": "", "expected": False, "sections": [], "duration": 0.0}
    return {"id": test, "outcome": outcome, "leaked": [], **empty, **more}


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--cell", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--ini")
    parser.add_argument("--tb", default="auto")
    parser.add_argument("files", nargs="+")
    return parser.parse_args(argv)


def options(given: argparse.Namespace) -> list[str]:
    """The command line of the inner pytest."""
    ini = ["-c", given.ini] if given.ini else []
    plugins = [word for name in UNNEEDED for word in ("-p", f"no:{name}")]
    quiet = ["-o", "addopts=", "-o", "faulthandler_timeout=0", "-q", "--no-header", f"--tb={given.tb}"]
    return [*ini, "--rootdir", given.root, *plugins, *quiet, *given.files]


def main(argv: list[str]) -> int:
    given = arguments(argv)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(given.job / "socket"))
    wire = Wire(sock)
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    stacks = (given.job / f"pe{world.rank}.stacks").open("w", encoding="utf-8")
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks)
    wire.send(rank=world.rank, size=world.size)
    fabric, _, pes = given.cell.rpartition("-")
    plugin = Resident(wire, Cell(fabric, int(pes)))
    code = pytest.main(options(given), plugins=[plugin, plugin.on_rank])
    return 0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
