"""The tests of tests/mpi over the fabric `nic`, with one seed of its adapters after the other.

    python tests/fuzz_suite.py [--minutes 1] [--seed S] [--cells PATTERN] [PATH ...]

A round is one cell with one seed: every test that may run there. The cells (`seeded` in tests/launcher/cells.py: three
profiles with 2, 3 and 4 PEs each) take turns, the first round has the seed S (random and printed by default), each
further one the next. It ends in the middle of a round when the time is over, or at the first test that fails, with the
command that repeats this test with this seed. Exit code 0: nothing was found; 1: a test failed; 2: wrong use.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a program of its own: `tests` is no installed package

from tests.launcher.cells import CHOICE, SEED, Cell, matching, seeded  # noqa: E402


@dataclass
class Round:
    """What came of a round: how many of its tests ran, which failed and how it is run again, why it ended early."""

    tests: int = 0
    ran: int = 0
    failed: str = ""
    repeat: str = ""
    over: bool = False


class Watch:
    """The plugin of the pytest of a round: keeps count, and stops it when its time is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.round = Round()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._session = session
        self.round.tests = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.round.failed:
            self.round.failed, self.round.repeat = report.nodeid, dict(report.sections)["repeat"]

    def pytest_runtest_logfinish(self) -> None:
        self.round.ran += 1
        if time.monotonic() > self._end and self.round.ran < self.round.tests:
            self.round.over = True
            self._session.shouldstop = "the time is over"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--cells", default="*", metavar="PATTERN", help="names and patterns, separated by commas")
    parser.add_argument("--report", type=Path, default=None, help=argparse.SUPPRESS)  # a round: where its result goes
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders of tests instead of tests/mpi")
    options = parser.parse_args(argv)
    if options.seed is not None and options.seed < 0:
        parser.error(f"--seed {options.seed}: must be a whole number from 0 up")
    if not chosen(options.cells):
        known = ", ".join(cell.name for cell in seeded(0))
        parser.error(f"--cells {options.cells}: no cell is called so; there are {known}")
    return options


def chosen(patterns: str) -> list[Cell]:
    """The cells of these names and patterns, in their order."""
    return matching(seeded(0), [word.strip() for word in patterns.split(",")])


def play(paths: list[str], seconds: float, report: Path) -> int:
    """In the process of a round: runs its tests and writes what came of them. Gives pytest's exit code."""
    watch = Watch(seconds)
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *paths], plugins=[watch])
    report.write_text(json.dumps(asdict(watch.round)), encoding="utf-8")
    return int(code)


def start(cell: Cell, seed: int, paths: list[str], seconds: float, folder: Path) -> tuple[Round, str]:
    """Runs a round in a process of its own. Gives what came of it, and all that it said."""
    settings = {CHOICE: cell.name, SEED: str(seed)}
    report, said = folder / "report.json", folder / "said.txt"
    report.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--report", str(report), "--minutes", str(seconds / 60), *paths]
    with said.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            command,
            env={**os.environ, **settings},
            cwd=None if paths else ROOT,  # where the command that repeats a test is right
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    found = Round(**json.loads(report.read_text(encoding="utf-8"))) if report.exists() else Round()
    if done.returncode and not found.failed and not found.over:  # no test failed: it could not run them
        found.failed = f"pytest ended with code {done.returncode}"
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        found.repeat = f"{words} python -m pytest {' '.join(paths) or 'tests/mpi'}"
    return found, said.read_text(encoding="utf-8", errors="replace")


def main(argv: list[str] | None = None) -> int:
    """Runs rounds; see the module."""
    options = arguments(argv)
    if options.report:
        return play(options.paths or [str(ROOT / "tests" / "mpi")], 60 * options.minutes, options.report)
    first = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"seed {first}", flush=True)
    began, total, rounds = time.monotonic(), 0, 0
    end = began + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        for seed, cell in zip(itertools.count(first), itertools.cycle(chosen(options.cells)), strict=False):
            then = time.monotonic()
            found, said = start(cell, seed, options.paths, max(0.0, end - then), Path(folder))
            rounds, total = rounds + 1, total + found.ran
            part = f" of {found.tests}" if found.ran < found.tests else ""
            line = f"{cell.name:15} seed {seed:10}  {found.ran:5}{part} tests, {int(bool(found.failed))} failed"
            print(f"{line}, {time.monotonic() - then:.0f} s", flush=True)
            if found.failed:
                print(f"{said}\nfound: {found.failed}\nrepeat: {found.repeat}", flush=True)
            if found.failed or time.monotonic() >= end:
                break
    outcome = "1 failure" if found.failed else "nothing found"
    print(f"{outcome}: {total} tests in {rounds} rounds, seeds {first} to {seed}, {time.monotonic() - began:.0f} s")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
