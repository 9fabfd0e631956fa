"""However a program's module was started, each PE has a copy: scripts, `-m`, `-c`, pytest's modes, files on no path.

In the end a job, whose PEs are like processes of their own.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shmem
from shmem import config
from shmem.check.modules import Copies
from shmem.delivery.profiles import NAMED
from shmem.fabric.sim.tasks import Job, Program, Task

from .copies import N, Write, calls, python

SCRIPT = """
from __future__ import annotations
import sys
import __main__
from shmem.check.modules import Copies
{import_helper}
print("top", __name__, sys.modules["__main__"].__dict__ is globals(), __spec__ and __spec__.name)
count = 0
class C:
    items = []
def main():
    global count
    count += helper.step
    C.items.append(__main__.count)
    return count, C.items, C.__module__
if __name__ == "__main__":
    print("guarded")
    later = 5
    copies = Copies(main, 2)
    for _ in range(2):
        for pe in (0, 1, 1):
            before = copies.enter(pe)
            print(copies.function(pe)())
            copies.enter(before)
        copies.reset()
    print(Copies(lambda: main()[0], 1).function(0)())
    print(count, C.items, sys.modules["__main__"].__dict__ is globals())
"""
SAID = ["(1, [1], '__mp_main__')", "(1, [1], '__mp_main__')", "(2, [1, 2], '__mp_main__')"]


@pytest.mark.parametrize("how", ["script", "-m"])
def test_a_program_in_main_is_loaded_from_its_file(tmp_path: Path, how: str) -> None:
    folder = tmp_path if how == "script" else tmp_path / "pack"
    folder.mkdir(exist_ok=True)
    (folder / "helper.py").write_text("step = 1")
    import_helper = "import helper" if how == "script" else "from . import helper"
    (folder / "prog.py").write_text(SCRIPT.format(import_helper=import_helper))
    said = python(*(["prog.py"] if how == "script" else ["-W", "error", "-m", "pack.prog"]), cwd=tmp_path)
    spec = None if how == "script" else "pack.prog"
    copied = f"top __mp_main__ True {spec}"
    assert said[:4] == [f"top __main__ True {spec}", "guarded", copied, copied]
    assert said[4:] == [*SAID, *SAID, copied, "1", "0 [] True"]


@pytest.mark.parametrize("how", ["-c", "-"])
def test_a_program_in_main_without_a_file(tmp_path: Path, how: str) -> None:
    (tmp_path / "helper.py").write_text("step = 1")
    script = SCRIPT.format(import_helper="import helper").replace("__main__.count", "count").replace("C.items", "items")
    script = script.replace("count = 0", "count, items = 0, []")
    said = python(how, script, cwd=tmp_path) if how == "-c" else python("-", cwd=tmp_path, stdin=script)
    ours = [line.replace("__mp_main__", "__main__") for line in SAID]
    assert said == ["top __main__ True None", "guarded", *ours, *ours, "1", "0 [] True"]


def test_a_script_that_checks_itself_needs_a_guard(tmp_path: Path) -> None:
    script = "from shmem.check.modules import Copies\ndef main(): pass\nCopies(main, 2)"
    (tmp_path / "prog.py").write_text(script)
    done = subprocess.run([sys.executable, "prog.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("shmem.errors.StateError: the program checks itself when imported")
    assert last.endswith("do that under `if __name__ == '__main__':`")


TEST = """
from shmem.check.modules import Copies
count = 0
def main():
    global count
    count += 1
    assert count < 2
    return count
def test_main():
    copies = Copies(main, 2)
    assert [copies.function(0)(), copies.function(1)(), count] == [1, 1, 0]
    try:
        copies.function(0)()
    except AssertionError as error:
        assert "assert 2 < 2" in str(error)
"""


@pytest.mark.parametrize("mode", ["importlib", "prepend"])
@pytest.mark.parametrize("package", [False, True])
def test_under_every_import_mode_of_pytest(tmp_path: Path, mode: str, package: bool) -> None:
    folder = tmp_path / "tests_of_user" / "sub"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(TEST)
    if package:
        (folder / "__init__.py").touch()
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--import-mode={mode}", "--rootdir=.", cwd=tmp_path)
    assert said[-1].startswith("1 passed")


def test_a_module_that_is_on_no_path(tmp_path: Path, write: Write) -> None:
    write({"off_path": "main = None"})  # of the same name
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "off_path.py").write_text("n = 0\ndef main():\n    global n\n    n += 1\n    return n")
    spec = importlib.util.spec_from_file_location("off_path", tmp_path / "hidden" / "off_path.py")
    assert spec is not None
    assert spec.loader is not None
    before = sys.modules["off_path"]
    module = sys.modules["off_path"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        assert calls(Copies(module.main, 2), 2) == [[1, 1], [2, 2]]
        assert module.n == 0
    finally:
        sys.modules["off_path"] = before


PROGRAM = """
import tally
calls = 0
def main(pause):
    global calls
    for _ in range(3):
        calls += 1
        before = calls
        pause()
        tally.note(before, calls)
        import lazy
        lazy.more += 1
    return calls, tally.noted, lazy.more
"""


class Isolated(Job):
    """A job that enters the copies of whichever task goes on."""

    copies: Copies

    def _resume(self, task: Task, value: Any = None, error: BaseException | None = None) -> None:
        before = self.copies.enter(task.pe)
        try:
            super()._resume(task, value, error)
        finally:
            self.copies.enter(before)


def test_a_job_is_like_processes_of_their_own(write: Write, tmp_path: Path) -> None:
    tally = "noted = []\ndef note(*what): noted.append(what)"
    user = write({"lazy": "more = 10", "tally": tally, "program": PROGRAM})
    alone = [python("-c", "import program; print(program.main(lambda: None))", cwd=tmp_path) for _ in range(N)]
    Isolated.copies = copies = Copies(user.main, N)
    program = Program(lambda pe: repr(copies.function(pe)(shmem.barrier_all)), N, NAMED["openshmem"], config.read())
    for _ in range(2):
        copies.reset()
        job = Isolated(program)
        while moves := job.moves():
            job.perform(moves[-1])
        end: Any = job.outcome()
        job.close()
        assert end.kind == ""
        assert [[said] for said in end.what] == alone
        assert alone[0] == ["(3, [(1, 1), (2, 2), (3, 3)], 13)"]
    assert user.calls == 0
