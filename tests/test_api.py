"""The whole API of OpenSHMEM 1.6 and of shmem4py is there, as the table in `tests/data/openshmem_api.toml` writes it.

What is known to lack is listed in `tests/data/openshmem_todo.txt`, one problem a line. A line whose problem is gone
makes these tests fail just as a new problem does, so the list only shrinks; it must be empty in the end.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

import shmem

from .api_table import (
    Entry,
    constants,
    entries,
    entry,
    of_callable,
    problems,
    public_callables,
    serves,
    table,
    todo,
    wrong_docstring,
)
from .launcher.calls import public

DATA = table()
ROUTINES = [routine for section in DATA["section"] for routine in section["routines"]]


def test_everything_is_there_as_the_table_says():
    found, known = problems(shmem, DATA), todo()
    new = [text for key, text in found.items() if key not in known]
    assert not new, "\n".join(["not as tests/data/openshmem_api.toml says:", *new])
    gone = [key for key in known if key not in found]
    assert not gone, "\n".join(["no problem any more, so their lines in tests/data/openshmem_todo.txt must go:", *gone])


def test_the_list_of_known_problems_is_sorted_and_names_each_once():
    assert todo() == sorted(set(todo()))


def test_every_public_function_and_class_is_in_the_table():
    listed = {one.name for one in entries(DATA)}
    assert [name for name in public_callables(shmem) if name not in listed] == []


def test_what_the_table_lists_is_public():
    hidden = [one.name for one in entries(DATA) if hasattr(shmem, one.name) and one.name not in shmem.__all__]
    assert hidden == []


# ---------------------------------------------------------------------------------------------- the table itself


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine["c"])
def test_each_routine_has_a_module_function_under_its_c_name(routine):
    names = [text.partition("(")[0] for text in routine["python"]]
    assert routine["c"].removeprefix("shmem_") in names


def test_no_routine_and_no_signature_is_listed_twice():
    names = [routine["c"] for routine in ROUTINES]
    assert len(set(names)) == len(names)
    ours = [one.name for one in entries(DATA)]
    assert len(set(ours)) == len(ours)


def test_what_is_absent_has_a_reason_and_is_no_routine():
    names = {routine["c"] for routine in ROUTINES}
    for group in DATA["absent"]:
        assert len(group["reason"].split()) > 3 or group["reason"] == "Fortran"
        assert not names.intersection(group["names"])
    absent = [name for group in DATA["constant"] if group.get("absent") for name in group["names"]]
    assert not set(absent).intersection(constants(DATA))


def test_what_needs_no_run_on_several_pes_is_a_function_and_has_a_reason():
    functions = {name for name, _, _ in public(shmem)}
    for group in DATA["unrecorded"]:
        assert functions.issuperset(group["names"])
        assert len(group["reason"].split()) > 3


@pytest.mark.parametrize("text", [*DATA["shmem4py"]["functions"], *DATA["shmem4py"]["members"]])
def test_ours_takes_every_call_that_shmem4py_takes(text):
    theirs = entry(text)
    ours = {one.name: one for one in entries(DATA)}
    assert theirs.name in ours
    assert serves(ours[theirs.name], theirs), f"{ours[theirs.name].signature} does not serve {theirs.signature}"


@pytest.mark.parametrize(
    ("ours", "theirs", "does"),
    [
        ("f(a, b=None)", "f(a, b=None)", True),
        ("f(a, b=None, *, timeout=None)", "f(a, b=None)", True),
        ("f(a, b=None)", "f(a, *, b=None)", True),
        ("f(a, *, b=None)", "f(a, b=None)", False),
        ("f(b, a)", "f(a, b)", False),
        ("f(a, b=1)", "f(a, b=2)", False),
        ("f(a, b)", "f(a)", False),
        ("f(a)", "f(a, b=None)", False),
        ("f(a, **kwargs)", "f(a, **kwargs)", True),
        ("f(a, *, timeout=None, **kwargs)", "f(a, **kwargs)", True),
        ("f(a, *, timeout, **kwargs)", "f(a, **kwargs)", False),
        ("f(a, *, timeout)", "f(a)", False),
    ],
)
def test_serving_is_taking_the_same_calls(ours, theirs, does):
    assert serves(entry(ours), entry(theirs)) is does


# ---------------------------------------------------------------------------------------------- the checker itself


def good(target, pe=0, *, timeout=None):
    """Sends target to PE `pe`. On return: target may be reused. Raises InvalidPE. OpenSHMEM 1.6, 9.6 (shmem_good)."""


class Thing:
    """A class with members."""

    @staticmethod
    def create(options=0):
        """A new thing of the kind asked for. Raises ContextError. OpenSHMEM 1.6, 9.6 (shmem_thing)."""

    def end(self):
        """Ends it, which completes all of its work. Raises StateError. OpenSHMEM 1.6, 9.6."""


WANTED = Entry("good", "(target, pe=0, *, timeout=None)", "9.6")


def found(wanted, **module):
    return list(of_callable(SimpleNamespace(**module), wanted))


def changed(**attributes):
    def copy(target, pe=0, *, timeout=None): ...

    for name, value in {"__doc__": good.__doc__, **attributes}.items():
        setattr(copy, name, value)
    return copy


def test_what_is_right_has_no_problem():
    assert found(WANTED, good=good) == []
    assert found(entry("Thing.create(options=0)", "9.6"), Thing=Thing) == []
    assert found(entry("Thing.end()", "9.6"), Thing=Thing) == []
    assert found(entry("put(target, source, pe, size=None, ctx=None)", "9.6"), put=shmem.put) == []


def test_a_missing_name_is_noticed():
    assert found(WANTED) == ["good"]
    assert found(WANTED, good=3) == ["good"]
    assert found(entry("Thing.start()", "9.6"), Thing=Thing) == ["Thing.start"]
    assert found(entry("Nothing.start()", "9.6"), Thing=Thing) == ["Nothing.start"]


@pytest.mark.parametrize(
    "signature",
    [
        "(target, pe=1, *, timeout=None)",
        "(target, pe, *, timeout=None)",
        "(pe=0, target=None, *, timeout=None)",
        "(target, pe=0, timeout=None)",
        "(target, pe=0)",
        "(target, pe=0, *, timeout=None, **more)",
        "(source, pe=0, *, timeout=None)",
    ],
)
def test_another_signature_is_noticed(signature):
    assert found(Entry("good", signature, "9.6"), good=good) == ["good: signature"]


def test_the_signature_of_a_builtin_and_of_an_enumeration_member_are_compared():
    def both(op=shmem.OP_SUM, kind=float): ...

    assert found(entry("put(target, source, pe, size=0, ctx=None)", "9.6"), put=shmem.put) == ["put: signature"]
    assert found(entry("both(op=OP_SUM, kind=float)"), both=both) == ["both: docstring"]
    assert found(entry("both(op=OP_MAX, kind=float)"), both=both) == ["both: signature", "both: docstring"]


@pytest.mark.parametrize(
    ("doc", "lack"),
    [
        (None, "is missing"),
        ("", "is missing"),
        ("Sends. OpenSHMEM 1.6, 9.6 (shmem_good).", "shorter"),
        (re.sub(r"OpenSHMEM.*", "", good.__doc__), "does not say 'OpenSHMEM 1.6, 9.6'"),
        (good.__doc__.replace("9.6", "9.7"), "does not say 'OpenSHMEM 1.6, 9.6'"),
        (good.__doc__.replace("9.6", "9.61"), "does not say 'OpenSHMEM 1.6, 9.6'"),
        (good.__doc__.replace("1.6", "1.5"), "does not say 'OpenSHMEM 1.6, 9.6'"),
        (good.__doc__.replace("Raises InvalidPE.", ""), "nothing of errors"),
        (good.__doc__.replace("On return: target may be reused.", ""), "what it returns"),
        (good.__doc__.replace("OpenSHMEM 1.6, 9.6", "OpenSHMEM 1.6, 9.6.1"), None),
        (good.__doc__.replace("1.6, ", "1.6,\n    "), None),
    ],
)
def test_a_docstring_that_lacks_something_is_noticed(doc, lack):
    says = wrong_docstring(doc, WANTED)
    assert says is None if lack is None else lack in says
    assert found(WANTED, good=changed(__doc__=doc)) == ([] if lack is None else ["good: docstring"])


def test_missing_constants_members_aliases_and_settings_are_noticed():
    keys = problems(SimpleNamespace(Lock=Thing, CMP=shmem.CMP, CMP_EQ=shmem.CMP_NE, rc=lambda **settings: None), DATA)
    assert keys["CMP: members"].startswith("CMP lacks CMP_EQ, CMP_NE")
    assert "lacks initialize" in keys["rc"]
    for name in ("TEAM_WORLD", "CTX_SESSION_BATCH", "OP", "Lock: with", "Lock.release", "put"):
        assert name in keys


def test_settings_that_do_not_exist_must_be_refused():
    lax = SimpleNamespace(initialize=True, threads=False, thread_level="multiple", finalize=None)
    assert "does not exist" in problems(SimpleNamespace(rc=lax), DATA)["rc"]
