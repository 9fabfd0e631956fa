"""The pytest plugin: a test marked `mpi` becomes one item per cell, and each item is run by the cell's job.

It knows three situations. In the process that the user started it launches jobs. In a rank of such a job,
and under `mpiexec -n 4 python -m pytest --with-mpi tests/mpi`, tests run right here; only the parameter
`cell` is added, so that a test has the same id everywhere and `pytest
'tests/mpi/test_rma.py::test_put[direct-4]'` repeats it.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from .cells import ANY_SIZE, CHOICE, SEED, Cell, chosen, of_size
from .coverage import Coverage
from .job import Job, JobFailed
from .on_rank import OnRank
from .spread import Spread
from .verdict import Verdict, merge

# A wait inside a test gives up after SHMEMU_TIMEOUT_S (20) and says what it waited for: that comes first.
DEADLINE_S = 22.0
STARTS_MAX = 2
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
MARKERS = (
    "mpi(min_size, max_size): runs on several PEs, in each cell that has at least min_size and at most max_size",
    "core: one test of each routine; the only ones that a `core` cell runs",
    "needs(what, reason): it needs more than any fabric has: `words` of 8 bytes placed whole, the order of `tso`,"
    " `direct` itself, or `queue pairs`",
    "deadline(seconds): ends the job when a PE has not reported by then",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(_situation(config), "shmemu-cells")


def _situation(config: pytest.Config) -> Ranks | Launcher:
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(cell := getattr(plugin, "cell", None), Cell):
            return Ranks([cell])
    if config.getoption("with_mpi", False) or config.getoption("only_mpi", False):
        config.pluginmanager.register(on_rank := OnRank(frees=True), "shmemu-on-rank")
        return Ranks([of_size(on_rank.comm.size)])
    if any(name in os.environ for name in RANK_VARIABLES):
        raise pytest.UsageError("under mpiexec, pytest needs --with-mpi (or start it without mpiexec)")
    try:
        return Launcher(chosen(), config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Cell:
    """The cell that a test marked `mpi` runs in."""
    found: Cell = request.param
    return found


class Ranks:
    """Gives each test marked `mpi` its cells."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        mark = metafunc.definition.get_closest_marker("mpi")
        if mark is None:
            return
        markers = {marker.name for marker in metafunc.definition.iter_markers()}
        most = mark.kwargs.get("max_size", ANY_SIZE.stop - 1)
        sizes, needs = range(mark.kwargs.get("min_size", 1), most + 1), needs_of(metafunc.definition)
        taken = [cell for cell in self.cells if cell.takes(markers, sizes, needs)]
        metafunc.fixturenames.append("cell")
        metafunc.parametrize("cell", taken, ids=[cell.name for cell in taken], indirect=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Tests that no chosen cell takes disappear (pytest would skip them), also where only a parameter needs more,
        and in `core` cells what differs from another test by its dtype only; the rest is sorted by cell."""
        homeless = [item for item in items if item.get_closest_marker("mpi") and not is_home(item)]
        homeless += repeats(items)
        if homeless:
            config.hook.pytest_deselected(items=homeless)
            items[:] = [item for item in items if item not in homeless]
        order = {cell.name: place for place, cell in enumerate(self.cells)}
        items.sort(key=lambda item: order[found.name] if (found := cell_of(item)) else -1)


def cell_of(item: pytest.Item) -> Cell | None:
    """The cell of an item, None for a test that runs in this process."""
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("cell") if callspec else None
    return found if isinstance(found, Cell) else None


def needs_of(node: pytest.Item) -> set[str]:
    """What a test or its parameters need."""
    return {marker.args[0] for marker in node.iter_markers("needs")}


def is_home(item: pytest.Item) -> bool:
    """Whether an item has a cell, which gives what it needs."""
    found = cell_of(item)
    return found is not None and found.gives >= needs_of(item)


def repeats(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The items of `core` cells that another one before them is equal to but for the parameter `dtype`."""
    known: set[object] = set()
    again = []
    for item in items:
        found = cell_of(item)
        if found is None or found.tests != "core":
            continue
        params = item.callspec.params  # type: ignore[attr-defined]
        rest = tuple((name, repr(value)) for name, value in sorted(params.items()) if name not in ("cell", "dtype"))
        key = item.path, item.originalname, found.name, rest  # type: ignore[attr-defined]
        if key in known:
            again.append(item)
        known.add(key)
    return again


class Launcher(Ranks):
    """Runs the items of a cell in its resident job, one job at a time."""

    def __init__(self, cells: Sequence[Cell], config: pytest.Config) -> None:
        super().__init__(cells)
        self._config = config
        self._job: Job | None = None
        self._files: dict[str, dict[str, None]] = {}  # in their order, each once
        self._broken: dict[str, list[str]] = {}
        self._coverage = Coverage()
        config.pluginmanager.register(self._coverage, "shmemu-coverage")
        config.pluginmanager.register(Spread(), "shmemu-spread")

    def pytest_report_header(self) -> str:
        return f"cells: {', '.join(cell.name for cell in self.cells)}"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        chosen = {item: found for item in session.items if (found := cell_of(item))}
        for item, found in chosen.items():
            self._files.setdefault(found.name, {})[str(item.path)] = None
        self._coverage.collected(session, chosen)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        found = cell_of(item)
        if found is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began = time.time()
        verdict = self._verdict(item, found)
        if nextitem is None or cell_of(nextitem) != found:
            self._close(verdict)
        for report in reports(item, verdict, began):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # What the test before this one kept for a neighbour in the same module goes now.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def _verdict(self, item: pytest.Item, cell: Cell) -> Verdict:
        try:
            job = self._running(cell)
        except JobFailed as error:
            return Verdict("failed", text=f"the job {cell.name} did not start: {error}", crash="no job")
        heard = job.run(item.nodeid, deadline_of(item))
        verdict = merge(heard)
        called = [name for report in heard.reports.values() for name in report.get("called", ())]
        self._coverage.ran(item, cell, verdict.outcome, called)
        if verdict.ends_job:
            self._job = None
            job.kill()
        return verdict

    def _running(self, cell: Cell) -> Job:
        if self._job is not None and self._job.cell == cell:
            return self._job
        failures = self._broken.setdefault(cell.name, [])
        if len(failures) >= STARTS_MAX:
            raise JobFailed(f"{failures[-1]}\n(not tried again)")
        job = Job(cell, self._options(cell))
        try:
            job.start()
        except JobFailed as error:
            failures.append(str(error))
            raise
        failures.clear()
        self._job = job
        return job

    def _options(self, cell: Cell) -> list[str]:
        ini = ["--ini", str(self._config.inipath)] if self._config.inipath else []
        style = ["--tb", self._config.getoption("tbstyle", "auto")]
        return ["--root", str(self._config.rootpath), *ini, *style, *self._files[cell.name]]

    def _close(self, verdict: Verdict) -> None:
        """Ends the cell's job; what goes wrong then goes to its last test: nothing else can show it."""
        job, self._job = self._job, None
        problem = job.close() if job else ""
        if problem:
            verdict.outcome, verdict.crash = "failed", verdict.crash or "the job did not end well"
            verdict.text = "\n\n".join(filter(None, [verdict.text, problem]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        if report.failed:
            report.sections.append(("repeat", repeat(item)))
        return report

    def pytest_sessionfinish(self) -> None:
        if self._job:
            self._job.kill()
            self._job = None


def deadline_of(item: pytest.Item) -> float:
    mark = item.get_closest_marker("deadline")
    return float(mark.args[0]) if mark else DEADLINE_S


def repeat(item: pytest.Item) -> str:
    """The command that runs this one test again."""
    found = cell_of(item)
    settings = f"{CHOICE}={found.name} " if found and CHOICE in os.environ else ""
    settings = f"{SEED}={os.environ[SEED]} {settings}" if found and SEED in os.environ else settings
    return f"{settings}python -m pytest {shlex.quote(item.nodeid)}"


class _Crash:
    def __init__(self, message: str) -> None:
        self.message = message


class Merged:
    """What the terminal shows of a verdict; `reprcrash` is where pytest's summary finds its one line."""

    def __init__(self, verdict: Verdict) -> None:
        self.text = verdict.text
        self.reprcrash = _Crash(verdict.crash)

    def toterminal(self, terminal: Any) -> None:
        for line in self.text.splitlines():
            terminal.line(line)

    def __str__(self) -> str:
        return self.text


def reports(item: pytest.Item, verdict: Verdict, began: float) -> list[pytest.TestReport]:
    """The reports of a test that pytest's other plugins look at: of thousands of tests each one counts."""
    skipped = verdict.outcome == "skipped" and not verdict.expected
    phases = ["setup" if skipped else "call", "teardown"]
    made = [_report(item, *each, began) for each in zip(phases, (verdict, Verdict("passed")), strict=True)]
    if verdict.expected:
        made[0].wasxfail = verdict.reason
    return made


def _report(item: pytest.Item, phase: str, verdict: Verdict, began: float) -> pytest.TestReport:
    longrepr: Any = None
    sections = list(verdict.sections)
    if verdict.outcome == "failed":
        longrepr = Merged(verdict)
        sections.append(("repeat", repeat(item)))
    elif verdict.outcome == "skipped" and not verdict.expected:
        longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {verdict.reason}")
    return pytest.TestReport(
        item.nodeid,
        item.location,
        {},
        verdict.outcome,  # type: ignore[arg-type]
        longrepr,
        phase,  # type: ignore[arg-type]
        sections=sections,
        duration=verdict.duration_s,
        start=began,
        stop=began + verdict.duration_s,
    )
