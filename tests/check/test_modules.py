"""Every PE has its own copy of the program's modules, and every execution finds them as they were after import.

The user's modules are copied with all they refer to; what libraries share is left alone. `test_modules_of_functions`
has programs that are no plain function of a module, `test_modules_started` the ways in which a module is started.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import shmem
from shmem.check.modules import Copies

from .copies import N, Write, call, calls
from .places import PLACES


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
