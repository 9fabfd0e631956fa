"""The instrumented import changes nothing that a program can see: the same programs, plain and instrumented."""

from __future__ import annotations

import builtins
import contextlib
import copy
import io
import random
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from shmem.check.instrument.hooks import HOOKS
from shmem.check.instrument.loaders import compiled

from .instrumented_corpus import FAILS, RUNS, text_of
from .random_code import module

Seen = dict[str, Any]
OWN = ("__builtins__", "__warningregistry__")


def plain(text: str, path: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)


class Traced:
    """Notes what is done to it."""

    def __init__(self, name: str, note: Callable[..., Any]) -> None:
        vars(self).update(_name=name, _note=note)

    def __call__(self, *args: Any, **keywords: Any) -> Traced:
        self._note(self._name, "call", args, keywords)
        return Traced(f"{self._name}()", self._note)

    def __getattr__(self, name: str) -> Traced:
        if name.startswith("__"):
            raise AttributeError(name)
        self._note(self._name, "get", name)
        return Traced(f"{self._name}.{name}", self._note)

    def __setattr__(self, name: str, value: Any) -> None:
        self._note(self._name, "set", name, value)

    def __repr__(self) -> str:
        return self._name


def _operation(name: str) -> Callable[..., Any]:
    def made(self: Traced, *args: Any) -> Any:
        self._note(self._name, name, args)
        return None if name == "__setitem__" else Traced(f"({self._name} {name})", self._note)

    return made


OPERATIONS = "getitem setitem add mul imatmul isub iadd neg lt gt eq rmul radd"
for _each in OPERATIONS.split():
    setattr(Traced, f"__{_each}__", _operation(f"__{_each}__"))
Traced.__hash__ = object.__hash__  # type: ignore[method-assign]


def run(code: CodeType, path: str) -> Seen:
    """Runs a module; all that could be seen of it."""
    notes: list[str] = []

    def note(*things: Any, sep: Any = "") -> Any:
        notes.append(re.sub(r"0x[0-9a-f]+", "0x", repr(copy.copy(things))))
        return things[-1] if things else None

    module = sys.modules["user"] = ModuleType("user")
    names = vars(module)
    names.update(__file__=path, note=note)
    names["traced"] = lambda name: Traced(name, note)
    out, error = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(code, names)
        except BaseException as raised:
            below = raised.__traceback__.tb_next if raised.__traceback__ else None
            error = "".join(traceback.format_exception(raised.with_traceback(below)))
        finally:
            del sys.modules["user"]
    held = {key: re.sub(r"0x[0-9a-f]+", "0x", repr(value)) for key, value in names.items() if key not in OWN}
    return {"notes": notes, "out": out.getvalue(), "error": error, "names": held}


def both(text: str, path: Path) -> tuple[Seen, Seen]:
    """What there is to see of a module, plain and instrumented."""
    path.write_text(text)
    return run(plain(text, str(path)), str(path)), run(compiled(text, str(path)), str(path))


@pytest.mark.parametrize("name", RUNS)
def test_a_program_does_the_same(name: str, tmp_path: Path) -> None:
    one, other = both(text_of(RUNS[name]), tmp_path / "user.py")
    assert not one["error"]
    assert one["notes"]
    assert other == one


@pytest.mark.parametrize("name", FAILS)
def test_an_error_and_its_traceback_are_the_same(name: str, tmp_path: Path) -> None:
    one, other = both(text_of(FAILS[name]), tmp_path / "user.py")
    assert "user.py" in one["error"]
    assert other == one


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_random_programs_do_the_same(tmp_path: Path) -> None:
    ended, failed = 0, 0
    for seed in range(100):
        text = module(random.Random(seed))
        one, other = both(text, tmp_path / f"user{seed}.py")
        assert other == one, text
        ended, failed = ended + (not one["error"]), failed + bool(one["error"])
    assert ended >= 30
    assert failed >= 30


def test_every_hook_has_its_place_and_no_other_name_is_made() -> None:
    names = {name for name in vars(builtins) if "@" in name}
    text = text_of("\n".join(RUNS["order of evaluation"].splitlines()))
    compiled(text, "user.py")
    assert {name for name in vars(builtins) if "@" in name} == names | {f"@shmemu_{hook}" for hook in HOOKS}
