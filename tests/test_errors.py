"""The tree of exceptions: bases as documented, attributes that survive pickling, a page that is current."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from shmem import errors

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"

# class: its bases in this tree and among the builtin ones, its attributes besides `pe`
TREE = {
    "ShmemError": ("Exception", ()),
    "StateError": ("ShmemError", ()),
    "ArgumentError": ("ShmemError ValueError", ()),
    "InvalidPE": ("ArgumentError", ()),
    "NotSymmetric": ("ArgumentError", ()),
    "SizeMismatch": ("ArgumentError", ()),
    "LayoutError": ("ArgumentError", ()),
    "TeamError": ("ArgumentError RuntimeError", ()),
    "ContextError": ("ArgumentError RuntimeError", ()),
    "DtypeError": ("ArgumentError TypeError", ()),
    "FreedBlock": ("ArgumentError KeyError", ()),
    "SymmetryError": ("ShmemError", ("calls",)),
    "HeapExhausted": ("ShmemError MemoryError", ("asked", "free", "largest_free")),
    "ShmemTimeout": ("ShmemError TimeoutError", ("awaited", "seen", "in_flight", "waited_s")),
    "PeerDied": ("ShmemError", ("lost_pe", "how")),
    "LockError": ("ShmemError", ()),
    "QueueError": ("ShmemError", ()),
    "QueueFull": ("QueueError", ()),
    "QueueStateError": ("QueueError", ()),
    "CompletionError": ("QueueError", ("wr_id", "status")),
    "CompletionQueueOverrun": ("QueueError", ()),
    "ProtocolError": ("ShmemError", ()),
    "UnsafeProtocol": ("ProtocolError", ("missing",)),
    "ContractBroken": ("ProtocolError", ()),
    "EPError": ("ShmemError", ()),
    "RoutingError": ("EPError", ()),
    "HandleError": ("EPError", ()),
    "PendingOperation": ("EPError", ()),
    "BufferTooSmall": ("EPError", ()),
    "EventError": ("EPError AssertionError", ()),
    "CheckError": ("ShmemError", ()),
    "NondeterministicProgram": ("CheckError", ()),
    "ReplayMismatch": ("CheckError", ()),
    "LitmusSyntaxError": ("CheckError", ("line", "column")),
    "AcceptError": ("CheckError", ("kind",)),
    "StateLimit": ("CheckError", ("report",)),
}
VALUES = {
    "kind": "torn",
    "report": None,
    "calls": {0: "zeros(1)", 1: "zeros(2)"},
    "asked": 4096,
    "free": 1024,
    "largest_free": 512,
    "awaited": "flag == 1",
    "seen": 0,
    "in_flight": ("put to 1",),
    "waited_s": 0.5,
    "lost_pe": 3,
    "how": "killed by signal 9",
    "wr_id": 7,
    "status": "FLUSHED",
    "missing": ("write_then_flag",),
    "line": 3,
    "column": 9,
}


def make(name: str, message: str = "what happened", pe: int | None = 2) -> errors.ShmemError:
    fields = {field: VALUES[field] for field in TREE[name][1]}
    return getattr(errors, name)(message, pe=pe, **fields)


def test_the_tree_has_these_classes_and_no_others():
    assert [cls.__name__ for cls in errors.all_errors()] == list(TREE)
    assert sorted(errors.__all__) == sorted(TREE)


@pytest.mark.parametrize("name", TREE)
def test_bases(name):
    assert " ".join(base.__name__ for base in getattr(errors, name).__bases__) == TREE[name][0]


@pytest.mark.parametrize("name", TREE)
def test_text_and_attributes(name):
    error = make(name)
    assert str(error) == "what happened", "as it is, without the quotes of a KeyError"
    assert error.args == ("what happened",)
    assert vars(error) == {"pe": 2, **{field: VALUES[field] for field in TREE[name][1]}}
    assert make(name, pe=None).pe is None


@pytest.mark.parametrize("name", [name for name in TREE if TREE[name][1]])
def test_attributes_are_keywords_and_none_may_be_left_out(name):
    with pytest.raises(TypeError):
        getattr(errors, name)("what happened")
    with pytest.raises(TypeError):
        getattr(errors, name)("what happened", *(VALUES[field] for field in TREE[name][1]))


@pytest.mark.parametrize("name", TREE)
@pytest.mark.parametrize("again", [copy.copy, *(lambda e, p=p: pickle.loads(pickle.dumps(e, p)) for p in (2, 5))])
def test_a_copy_says_the_same(name, again):
    error = make(name)
    error.extra = "added later"
    twin = again(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("name", TREE)
def test_each_is_raised_and_caught_as_itself_and_as_each_of_its_bases(name):
    cls = getattr(errors, name)
    for base in cls.__mro__[:-1]:
        with pytest.raises(base, match="what happened"):
            raise make(name)


@pytest.mark.parametrize("name", TREE)
def test_each_docstring_has_a_paragraph_and_an_example(name):
    text, _, example = (getattr(errors, name).__doc__ or "").partition("\n\n")
    assert len(text) > 60
    assert example.strip()


def test_the_docs_page_is_current():
    made = subprocess.run([sys.executable, "-m", "shmem.errors"], capture_output=True, text=True, check=True)
    assert PAGE.read_text() == made.stdout, "run: python -m shmem.errors > docs/errors.md"
    assert [line[3:] for line in made.stdout.splitlines() if line.startswith("## ")] == list(TREE)


def test_every_error_is_exported() -> None:
    assert set(errors.__all__) == {cls.__name__ for cls in errors.all_errors()}


# what the examples of parts that exist take as given
GIVEN = """
import ml_dtypes, numpy as np, moe_ep, shmem
numpy, source = np, np.ones(4)
x, word, flag, target, lock = shmem.zeros(8), shmem.zeros(1), shmem.zeros(1, "u8"), shmem.zeros(4), shmem.new_lock()
buffer = moe_ep.EPBuffer(num_max_tokens_per_rank=128, hidden=64, num_topk=2)
x_of_256_rows, topk_idx = np.zeros((256, 64), ml_dtypes.bfloat16), np.zeros((256, 1), np.int64)
topk_weights = np.ones((len(topk_idx), 1), np.float32)
"""
ONE_TOKEN = "x, topk_weights = np.zeros((1, 64), ml_dtypes.bfloat16), np.ones((1, 1), np.float32)\n"
RUNNING = {
    "ArgumentError": "", "InvalidPE": "", "TeamError": "", "ContextError": "", "DtypeError": "", "FreedBlock": "",
    "LockError": "", "ShmemTimeout": "", "RoutingError": ONE_TOKEN, "BufferTooSmall": "", "EventError": "",
}  # fmt: skip
EXAMPLE = """
import ast, sys
given, example = sys.argv[1:]
names = {}
exec(given, names)
for statement in ast.parse(example).body:
    try:
        exec(ast.unparse(statement), names)
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("name", RUNNING)
def test_an_example_raises_what_it_says(name):
    text = inspect.cleandoc(getattr(errors, name).__doc__).partition("\n\n")[2]
    text = inspect.cleandoc("\n" + text)
    command = [sys.executable, "-c", EXAMPLE, GIVEN + RUNNING[name], text]
    job = subprocess.run(command, capture_output=True, text=True, check=True)
    assert job.stdout.split("\n")[0] == name, job.stderr
    assert job.stdout.count(name) == text.count(f"# {name}")
