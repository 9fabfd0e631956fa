"""What tests do that have the marker `shmem_check` or the fixture `shmem_explore` (`shmemu_pytest` names them).

A marked test is the program that is explored: it runs many times, on all its PEs, with its parameters as arguments.
Failures are saved as those of `shmemu check` are, and each tells the pytest command that replays it.
"""

from __future__ import annotations

import inspect
import os
import shlex
import unittest
from collections.abc import Callable, Generator
from typing import Any

import pytest

from ..errors import ArgumentError, ReplayMismatch, ShmemError
from .exploration import explore, named, replay
from .instrument.asked import instrumented
from .report import Report
from .saved import save, token_of

_MARKER = "shmem_check"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuses what a marked test can't have, before any fixture is made."""
    marker = item.get_closest_marker(_MARKER)
    if marker is not None and isinstance(item, pytest.Function):
        try:
            _options(marker)
            _check(item)
        except ArgumentError as error:
            raise _failed(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Explores a marked test, instead of calling it."""
    marker = pyfuncitem.get_closest_marker(_MARKER)
    if marker is None:
        return None
    options = _options(marker)
    complete, pes = options.pop("complete", False), options.pop("pes", 2)
    args = [pyfuncitem.funcargs[name] for name in _parameters(pyfuncitem)]
    try:
        report = Explorer.of(pyfuncitem).run(pyfuncitem.nodeid, pyfuncitem.obj, pes, args=args, **options)
    except ShmemError as error:
        raise _failed(f"{type(error).__name__}: {error}") from None
    if not report.ok:
        raise _failed(str(report))
    if complete and not report.complete and report.strategy != "replay":
        raise _failed(f"the search was not complete\n{report}")
    return True


def _failed(text: str) -> BaseException:
    """The failure of a test, in these words and no others."""
    return pytest.fail.Exception(text, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Puts what `shmem_explore` found into an assertion that failed."""
    error = call.excinfo.value if call.excinfo is not None else None
    if call.when == "call" and isinstance(error, AssertionError):
        failed = [str(report) for report in Explorer.of(item).reports if not report.ok]
        error.args = ("\n".join([str(error), *failed]),)
    return (yield)


def _options(marker: pytest.Mark) -> dict[str, Any]:
    """The arguments of a marker. Raises ArgumentError for those that there are not."""
    known = {"pes", *inspect.signature(explore).parameters} - {"program", "n_pes", "args"}
    if marker.args:
        raise ArgumentError(f"{_MARKER} takes its arguments by name: pes=2, profile='udma'")
    if unknown := sorted(set(marker.kwargs) - known):
        raise ArgumentError(f"{_MARKER} has no {', '.join(unknown)}: it has {', '.join(sorted(known))}")
    return dict(marker.kwargs)


def _parameters(item: pytest.Function) -> list[str]:
    return list(inspect.signature(item.obj).parameters)


def _check(item: pytest.Function) -> None:
    """Raises ArgumentError for a marked test that is no program."""
    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        raise ArgumentError(f"{_MARKER} is for functions, and {item.name} belongs to a unittest.TestCase")
    callspec = getattr(item, "callspec", None)
    given = set() if callspec is None else {name for name in callspec.params if not _indirect(item, name)}
    if fixtures := [name for name in _parameters(item) if name not in given]:
        raise ArgumentError(
            f"{item.originalname} asks for {', '.join(fixtures)}: a test that is explored runs many times, on all PEs, "
            "and can have no fixtures; parametrize gives it arguments"
        )


def _indirect(item: pytest.Function, name: str) -> bool:
    """Whether a parameter goes to a fixture of that name."""
    marks = [mark.kwargs.get("indirect", False) for mark in item.iter_markers("parametrize")]
    return any(mark is True or (mark and name in mark) for mark in marks)


class Explorer:
    """The fixture `shmem_explore`: called as `explore` is. Failures are saved, and shown if the test's assertion fails.

    With `--shmem-replay TOKEN` the program that the token is of runs that execution only.
    """

    _KEY = pytest.StashKey["Explorer"]()

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self.reports: list[Report] = []

    @classmethod
    def of(cls, item: pytest.Item) -> Explorer:
        """That of a test."""
        return item.stash.setdefault(cls._KEY, cls(item))

    def __call__(self, program: Callable[..., Any], n_pes: int = 2, *args: Any, **options: Any) -> Report:
        """Explores a program. Arguments, result and errors are those of `explore`."""
        name = f"{self._item.nodeid}: {named(program)}"
        try:
            report = self.run(name, program, n_pes, *args, **options)
        except ReplayMismatch:  # the token is of another program of this test
            with instrumented():
                report = self._told(name, explore(program, n_pes, *args, **options), new=True)
        self.reports.append(report)
        return report

    def run(self, name: str, program: Callable[..., Any], n_pes: int, *more: Any, **options: Any) -> Report:
        """Explores, or replays what the command line asks for: then raises ReplayMismatch for another program."""
        with instrumented():
            return self._run(name, program, n_pes, *more, **options)

    def _run(self, name: str, program: Callable[..., Any], n_pes: int, *more: Any, **options: Any) -> Report:
        wanted = self._item.config.getoption("--shmem-replay")
        if wanted is None:
            return self._told(name, explore(program, n_pes, *more, **options), new=True)
        bound = inspect.signature(explore).bind(program, n_pes, *more, **options).arguments
        same = {key: bound[key] for key in ("profile", "args", "max_polls", "leaks", "races") if key in bound}
        return self._told(name, replay(program, token_of(wanted), n_pes, **same), new=False)

    def _told(self, name: str, report: Report, new: bool) -> Report:
        """Writes down how to see the failures again."""
        report.program = name
        file = os.path.relpath(self._item.path, self._item.config.invocation_params.dir)
        test = shlex.quote(f"{file}::{self._item.nodeid.partition('::')[2]}")
        for failure in report.failures:
            failure.command = f"pytest {test} --shmem-replay {failure.token}"
            if new:
                save(report, failure)
        return report
