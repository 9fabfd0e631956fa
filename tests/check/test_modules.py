"""Every PE has its own copy of the program's modules, and every execution finds them as they were after import."""

from __future__ import annotations

import contextlib
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import config
from shmem.check.modules import Copies
from shmem.delivery.profiles import NAMED
from shmem.fabric.sim.tasks import Job, Program, Task

from .places import PLACES

Write = Callable[..., Any]
N = 3


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules of a user, and imports the last."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(sources: dict[str, str]) -> Any:
        for name, source in sources.items():
            file = tmp_path / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield made
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", None)):
            del sys.modules[name]


def call(copies: Copies, pe: int, *args: Any) -> Any:
    """What the function gives on a PE."""
    before = copies.enter(pe)
    try:
        return copies.function(pe)(*args)
    finally:
        copies.enter(before)


def calls(copies: Copies, n: int = N, times: int = 2) -> list[list[Any]]:
    """What each of n PEs gives, called in turn."""
    return [[call(copies, pe) for pe in range(n)] for _ in range(times)]


@pytest.mark.parametrize("place", PLACES)
def test_each_pe_counts_for_itself_and_from_the_start(write: Write, place: str) -> None:
    user = write({"counting": PLACES[place]})
    copies = Copies(user.main, N)
    for _ in range(3):
        assert calls(copies) == [[1, 1, 1], [2, 2, 2]]
        copies.reset()
    assert user.main() == 1  # the caller's was not touched


@pytest.mark.parametrize("stream", ["random.Random(3)", "np.random.default_rng(3)", "np.random.RandomState(3)"])
def test_streams_of_the_program_begin_anew(write: Write, stream: str) -> None:
    source = f"""
import random, numpy as np
r = {stream}
held = (r,)
def main():
    r = held[0]
    return [r.random(), r.gauss(0, 1) if isinstance(r, random.Random) else r.normal()]
"""
    user = write({"drawing": source})
    copies = Copies(user.main, 2)
    first = calls(copies, 2)
    copies.reset()
    assert calls(copies, 2) == first
    assert first[0][0] == first[0][1] == user.main()
    assert first[1][0] == user.main() != first[0][0]


def test_what_libraries_share_is_left_alone(write: Write) -> None:
    user = write(
        {
            "borrowing": """
from argparse import Namespace
from dataclasses import MISSING
from sys import path
import threading
NOTHING, SPACE, lock = object(), Namespace(), threading.Lock()
HELD = (NOTHING, SPACE)
def main():
    path.append("/nowhere")
    return HELD[0] is NOTHING, HELD[1] is SPACE, MISSING, lock.acquire(blocking=False)
"""
        }
    )
    from dataclasses import MISSING

    before = list(sys.path)
    copies = Copies(user.main, 2)
    try:
        assert calls(copies, 2) == [[(True, True, MISSING, True)] * 2, [(True, True, MISSING, False)] * 2]
        copies.reset()
        assert sys.path == [*before, *["/nowhere"] * 4]
        assert call(copies, 0) == (True, True, MISSING, False)  # a lock can't be copied
    finally:
        sys.path[:] = before


def test_modules_are_copied_with_all_they_refer_to(write: Write) -> None:
    user = write(
        {
            "pack/__init__": "total = 0",
            "pack/deep": "from . import other\nimport pack\ndef add():\n    pack.total += 1\n"
                         "    other.items.append(pack.total)",
            "pack/other": "items = []",
            "state": "items = []",
            "space/inside": "count = 0",
            "outer": "from pack.deep import add\nfrom pack.other import items\nfrom state import items as more\n"
                     "import pack, space.inside\n"
                     "def main():\n    add()\n    more.append(0)\n    space.inside.count += 1\n"
                     "    return pack.total, list(items), len(more), space.inside.count",
        }
    )  # fmt: skip
    copies = Copies(user.main, N)
    assert calls(copies, times=1) == [[(1, [1], 1, 1)] * 3]
    copies.reset()
    assert calls(copies) == [[(1, [1], 1, 1)] * 3, [(2, [1, 2], 2, 2)] * 3]
    assert user.items == user.more == []
    assert user.space.inside.count == 0


def test_a_module_imported_inside_the_function_is_each_pes(write: Write) -> None:
    user = write(
        {
            "helper": "import lazily\nlazily.imports += 1\ncount = 0",
            "lazily": "imports = 0\ndef main():\n    import helper\n    helper.count += 1\n"
                      "    return imports, helper.count",
        }
    )  # fmt: skip
    import helper  # type: ignore[import-not-found]

    helper.count = 40
    copies = Copies(user.main, N)
    for _ in range(2):
        assert calls(copies) == [[(1, 1)] * 3, [(1, 2)] * 3]
        copies.reset()  # imported again by each: as in processes of their own
    assert sys.modules["helper"] is helper
    assert (helper.count, user.imports) == (40, 1)


def test_modules_that_import_each_other(write: Write) -> None:
    user = write(
        {
            "b_second": "from a_first import count\nimport a_first\ndef main():\n    return count, a_first.add()",
            "a_first": "count = 0\nfrom b_second import main\ndef add():\n    global count\n    count += 1\n"
                       "    return count",
        }
    )  # fmt: skip
    # fails if b_second is imported first
    assert user.main.__module__ == "b_second"
    assert calls(Copies(user.main, 2), 2) == [[(0, 1)] * 2, [(0, 2)] * 2]


def test_a_failing_import_reaches_the_caller(write: Write) -> None:
    user = write(
        {
            "good": "",
            "failing": "import good, sys\nif hasattr(sys, 'fails'): raise OSError('no')\ndef main(): pass",
            "top": "import failing\ndef main(): failing.main()",
        }
    )
    before, finders = dict(sys.modules), list(sys.meta_path)
    sys.fails = True  # type: ignore[attr-defined]
    try:
        with pytest.raises(OSError, match="no"):
            Copies(user.main, 2)
    finally:
        del sys.fails  # type: ignore[attr-defined]
    assert sys.modules == before
    assert sys.meta_path == finders


def test_modules_are_there_only_while_a_pe_is(write: Write) -> None:
    user = write({"where": f"import sys\ndef main(): return sys.modules[__name__], sys.modules.get({__name__!r})"})
    before = dict(sys.modules)
    users = [name for name in sys.modules if name.startswith("tests") or name == "where"]
    copies = Copies(user.main, 2)
    assert sys.modules == before
    assert copies.enter(1) is None
    first = sys.modules["where"]
    assert vars(first)["main"] is copies.function(1)
    assert copies.enter(1) == 1
    assert copies.enter(0) == 1
    assert sys.modules["where"] not in (first, user)
    assert copies.function(0)() == (sys.modules["where"], None)
    copies.leave()
    assert sys.modules == before
    assert [name for name in sys.modules if name in users] == users  # in their order
    later = write({"later": ""})
    copies.enter(0)
    assert "later" not in sys.modules
    copies.leave()
    assert sys.modules == before | {"later": later}


COUNT = 0
RESULTS: list[int] = []


def count_here() -> int:
    global COUNT
    COUNT += 1
    RESULTS.append(COUNT)
    assert len(RESULTS) == COUNT
    return COUNT


def test_a_function_of_a_test_module() -> None:
    copies = Copies(count_here, N)
    assert calls(copies) == [[1, 1, 1], [2, 2, 2]]
    assert (COUNT, RESULTS) == (0, [])
    assert copies.function(0).__code__.co_filename == __file__
    names: Any = copies.function(0).__globals__
    assert "@pytest_ar" in names  # asserts are rewritten as ever
    copies.reset()
    assert calls(copies, times=1) == [[1, 1, 1]]


def test_nested_functions_share_what_they_close_over_and_nothing_else() -> None:
    collected: list[tuple[int, int]] = []
    module = sys.modules[__name__]

    def helper() -> int:
        return count_here()

    def body(pe: int, *, times: int = 1) -> None:
        body.called = True  # type: ignore[attr-defined]
        collected.extend((pe, helper() + module.COUNT) for _ in range(times))

    body.mark = "kept"  # type: ignore[attr-defined]
    copies = Copies(body, 2)
    for pe in (0, 1, 1):
        call(copies, pe, pe)
    assert collected == [(0, 2), (1, 2), (1, 4)]
    assert COUNT == 0
    assert vars(copies.function(0)) == {"mark": "kept", "called": True}
    assert vars(body) == {"mark": "kept"}
    assert copies.function(1).__name__ == "body"
    assert copies.function(1).__qualname__ == body.__qualname__
    assert copies.function(1).__annotations__ == body.__annotations__ == {"pe": "int", "times": "int", "return": "None"}
    copies.function(0)(7, times=2)
    assert collected[3:] == [(7, 4), (7, 6)]


def test_lambdas_partials_and_methods() -> None:
    assert calls(Copies(lambda: count_here(), 2), 2) == [[1, 1], [2, 2]]
    assert calls(Copies(functools.partial(Counter.add, by=2), 2), 2) == [[2, 2], [4, 4]]
    assert calls(Copies(functools.partial(apply, count_here), 2), 2) == [[1, 1], [2, 2]]
    assert calls(Copies(Counter.add, 2), 2) == [[1, 1], [2, 2]]
    assert calls(Copies(COUNTER, 2), 2) == [[1, 1], [2, 2]]  # a global: each PE has its own
    assert calls(Copies(wrapped, 2), 2) == [[1, 1], [2, 2]]
    assert (Counter.total, COUNT, COUNTER.own) == (0, 0, 0)
    mine = Counter()
    for shared in (mine, mine.__call__):  # objects are taken as they are
        copies = Copies(shared, 2)
        assert [copies.function(0), copies.function(1)] == [shared, shared]
    assert Copies(np.sum, 2).function(1) is np.sum


class Counter:
    total = 0
    own = 0

    @classmethod
    def add(cls, by: int = 1) -> int:
        cls.total += by
        return cls.total

    def __call__(self) -> int:
        self.own += 1
        return self.own


COUNTER = Counter()


def apply(function: Callable[[], int]) -> int:
    return function()


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


@nothing()  # a library makes the function
def wrapped() -> int:
    return count_here()


def test_libraries_are_shared(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    count = "count = 0\ndef main():\n    global count\n    count += 1\n    return count"
    using = "from installed_one import main as one\ndef main(): return one()"
    user = write({"site-packages/installed_one": count, "using": using})
    copies = Copies(user.main, 2)
    assert calls(copies, 2) == [[1, 2], [3, 4]]
    copies.reset()
    assert calls(Copies(user.one, 2), 2) == [[5, 6], [7, 8]]


def test_programs_of_libraries_have_no_copies() -> None:
    before = dict(sys.modules)
    copies = Copies(shmem.my_pe, 2)
    assert copies.function(1) is shmem.my_pe
    assert copies.enter(1) is None
    assert sys.modules == before
    copies.reset()


EXEC = """
import helper_of_exec as helper
from collections import deque
items, q, names, big, lock = [[]], deque(), {"f": None}, object(), None
count, Out = 0, [1]
class State:
    n = 0
state = State()
def add():
    global count
    count += 1
    state.n += 1
    items[0].append(count)
    q.append(helper.add())
    names["f"] = names["f"] or add
    assert names["f"] is add
    assert nested() == held() == count
    ring.append(0)
    assert also is items and ring[0] is ring and len(ring) == count + 1
    return count, state.n, items[0][:], list(q)
also, ring, deep, hidden = items, [], [], []
ring.append(ring)
def nested():
    return (lambda: deep.append(0) or len(deep))()
def make():
    def inner():
        return hidden.append(0) or len(hidden)
    return lambda: inner()
held = make()
table = [{"add": (add,)}]
table.append(table[0])
def main(pe=0):
    assert table[0] is table[1]
    return table[1]["add"][0]()
"""


@pytest.mark.parametrize("globals_of", ["nobody", "nowhere", "this module"])
def test_a_function_without_a_file(write: Write, globals_of: str) -> None:
    write({"helper_of_exec": "n = 0\ndef add():\n    global n\n    n += 1\n    return n"})
    some: dict[str, dict[str, Any]] = {
        "nobody": {}, "nowhere": {"__name__": "nowhere"}, "this module": dict(globals())
    }  # fmt: skip
    names = some[globals_of]
    # classes made without a __name__ belong to nobody: their instances are shared
    exec(EXEC if names else EXEC.replace("state.n += 1", "state.n = count"), names)
    copies = Copies(names["main"], N)
    for _ in range(2):
        assert calls(copies) == [[(1, 1, [1], [1])] * 3, [(2, 2, [1, 2], [1, 2])] * 3]
        copies.reset()
    assert (names["count"], names["items"], names["helper"].n, names["deep"], names["hidden"]) == (0, [[]], 0, [], [])
    assert names["state"].n == (2 if globals_of == "nobody" else 0)
    used = copies.function(0).__globals__
    assert used["Out"] is names["Out"]  # not used: not copied
    assert used["items"] is not names["items"]


def python(*args: str, cwd: Path, stdin: str | None = None) -> list[str]:
    """What a Python process says."""
    done = subprocess.run([sys.executable, *args], cwd=cwd, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


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
