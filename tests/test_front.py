"""The C fronts look like the functions that they stand for: signature, help, name, pickle."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import types
from typing import Any

import pytest

import shmem

FRONTS = {name: value for name, value in vars(shmem).items() if isinstance(value, types.BuiltinFunctionType)}


def test_the_hot_calls_have_fronts():
    for name in (
        "put",
        "get",
        "p",
        "g",
        "put_signal",
        "atomic_fetch_add",
        "wait_until",
        "quiet",
        "barrier_all",
        "iput",
        "ptr",
    ):
        assert name in FRONTS


@pytest.mark.parametrize("name", FRONTS)
def test_signature_and_docstring_are_those_of_the_function(name: str) -> None:
    front: Any = FRONTS[name]
    function = front.__self__.function
    parameters = inspect.signature(function).parameters.values()
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    assert inspect.signature(front) == inspect.Signature(plain)
    assert inspect.getdoc(front) == inspect.getdoc(function)
    assert (front.__name__, front.__qualname__, front.__module__) == (name, name, function.__module__)


@pytest.mark.parametrize("name", FRONTS)
def test_help_shows_the_call_and_what_it_does(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(FRONTS[name]))
    lines = text.splitlines()
    assert lines[0].endswith(f": built-in function {name} in module {FRONTS[name].__module__}")
    assert lines[2] == f"{name}{inspect.signature(FRONTS[name])}"
    assert (inspect.getdoc(FRONTS[name]) or "").splitlines()[0] in lines[3]


@pytest.mark.parametrize("name", FRONTS)
def test_a_front_is_pickled_by_its_name(name: str) -> None:
    assert pickle.loads(pickle.dumps(FRONTS[name])) is FRONTS[name]
    assert copy.deepcopy(FRONTS[name]) is FRONTS[name]
