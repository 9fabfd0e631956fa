"""`shmemu run --fabric sim`: a file or module as the main program of PEs that are tasks of this process.

Each PE executes it as `__main__` with globals and a `sys.argv` of its own, which are put in place before it goes on;
modules that it imports are shared. The end is told as `shmemu run` tells it of processes: the traceback of the PE that
failed, and its exit code.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any

from .. import failure
from ..config import Settings
from ..delivery.model import model
from ..delivery.profiles import profile as profile_named
from ..errors import ArgumentError
from ..fabric.sim import Job, Program, name_of
from ..fabric.sim.world import JobExit
from ..launch import TIMED_OUT, check_job
from ..memory import OURS
from .once import once, waiting
from .timing import timing


def run_main(
    n: int, argv: Sequence[str], settings: Settings, timeout: float | None = None, clock: str | None = None
) -> int:
    """Runs `["prog.py", ...]` or `["-m", "module", ...]` on n PEs under the profile and seed of the settings.

    Returns the exit code of the job. timeout: seconds, after which this process ends with code 124. clock: runs in
    virtual time, and tells at a good end when each PE's program was over.
    Raises ArgumentError.
    """
    check_job(n, argv, timeout)
    profile, timed = profile_named(settings.profile), None if clock is None else model(clock)
    with _ends_after(timeout), _restored():
        main = _found(list(argv))
        program = Program(main.run, n, profile, settings, around=main, clock=timed, ties=settings.seed)
        with once(program, settings.seed) as job:
            return _end(job)


@dataclass
class _Main:
    """A program that several PEs run as `__main__`."""

    code_of: Callable[[], CodeType]
    names: dict[str, Any]  # of its module, before it runs
    argv: list[str]
    places: dict[int, tuple[ModuleType, list[str]]] = field(default_factory=dict)  # by PE

    @cached_property
    def code(self) -> CodeType:
        """Compiled by the first PE: what is wrong with it is that PE's error."""
        return self.code_of()

    def run(self, pe: int) -> None:
        """The program of a PE."""
        module = ModuleType("__main__")
        vars(module).update(self.names, __builtins__=__builtins__)
        self.places[pe] = module, list(self.argv)
        self.enter(pe)
        exec(self.code, vars(module))

    # ---- what is around its PEs (`fabric.sim.Around`) ----

    def begin(self) -> None:
        """There is one run."""

    def enter(self, pe: int) -> None:
        """Puts things in place for the PE that goes on."""
        if pe in self.places:
            sys.modules["__main__"], sys.argv = self.places[pe]

    def leave(self) -> None:
        """They stay: the next task that goes on puts its own there."""


def _found(argv: list[str]) -> _Main:
    """The program that the words name; `sys.path` begins as Python has it for such a program."""
    if argv[0] == "-m":
        sys.path[0] = os.getcwd()
        spec = _spec_of(argv[1])
        return _of_spec(spec, [spec.origin or argv[1], *argv[2:]], spec.name.rpartition(".")[0])
    path = argv[0]
    if finder := pkgutil.get_importer(path):  # a folder or an archive
        sys.path[0] = path
        return _of_spec(finder.find_spec("__main__", None), argv, "")
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    return _Main(lambda: _compiled(path), {"__file__": path, "__package__": None}, argv)


def _spec_of(name: str) -> ModuleSpec:
    """Raises ArgumentError if there is no such module, or none to run in it."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise ArgumentError(f"there is no module {name}, or it is a package without a __main__")
    return spec


def _of_spec(spec: Any, argv: list[str], package: str) -> _Main:
    names = {"__file__": spec.origin, "__spec__": spec, "__loader__": spec.loader, "__package__": package}
    return _Main(lambda: spec.loader.get_code(spec.name), names, argv)


def _compiled(path: str) -> CodeType:
    with io.open_code(os.path.abspath(path)) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """Leaves things as they were: the command may have been called by another program."""
    main, argv, path = sys.modules["__main__"], sys.argv, list(sys.path)
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path


@contextlib.contextmanager
def _ends_after(timeout: float | None) -> Iterator[None]:
    """Ends this process when the time is over, whatever it does then."""
    if timeout is None:
        yield
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        _say(f"the job did not end within {timeout:g} s and was ended")
        sys.stdout.flush()
        os._exit(TIMED_OUT)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _end(job: Job) -> int:
    """Says how the job ended; its exit code."""
    task = job.failure
    if task is not None:
        assert task.error is not None
        if code := _code(task.error, name_of(task.key)):
            _say(f"{name_of(task.key)} ended with exit code {code}")
        return code
    if waits := waiting(job):
        sys.stdout.flush()
        for _, text in waits:
            sys.stderr.write(f"{text}\n")
        _say("deadlock: nothing can happen any more, and not all PEs have ended")
        return 1
    sys.stderr.write("".join(job.leaks))
    if job.clock is not None:
        sys.stdout.flush()
        _say(f"virtual time by the clock {job.clock.model.name}\n{timing(job)}")
    return 0


def _code(error: BaseException, who: str) -> int:
    """The exit code that an exception means; what it says goes to stderr."""
    sys.stdout.flush()
    if isinstance(error, JobExit):
        return int(error.args[0]) & 0xFF
    if isinstance(error, SystemExit):
        if not isinstance(error.code, int):
            sys.stderr.write(f"{who}: {error.code}\n")
        return error.code & 0xFF if isinstance(error.code, int) else 1
    failure.report(type(error), error, _program_frames(error.__traceback__), who)
    return 1


def _program_frames(tb: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's own first frame on; None, for the message alone, if it has none."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def _say(sentence: str) -> None:
    sys.stderr.write(f"shmemu: {sentence}\n")
    sys.stderr.flush()
