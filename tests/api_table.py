"""The API table (`tests/data/openshmem_api.toml`) as objects, and what is wrong with a module measured against it.

A problem has a key, which is a line of `tests/data/openshmem_todo.txt` while it is known and not repaired, and a text.
The checks of docstrings are of words: that one says something, and the right thing, is for readers. `python -m
tests.api_table` prints the problems there are, in the form of that file.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10, where pytest brings it
    import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]

FOLDER = Path(__file__).parent / "data"
TABLE, TODO = FOLDER / "openshmem_api.toml", FOLDER / "openshmem_todo.txt"
WORDS_MIN = 5
GIVES = re.compile(
    r"(?i)\breturn|\bcomplet|\bwhether\b|\bas `|\b(waits|blocks|ends)\b|^(how many|what|the|a|an|new)\b|^\("
)
RAISES = re.compile(r"(?i)\braises\b|\berrors\b|\bas `")
Problems = dict[str, str]  # key: text


@dataclass(frozen=True)
class Entry:
    """One callable of ours: `name` may be of a class member; `section` is empty where the specification has none.

    `signature` is empty for a class that users don't construct.
    """

    name: str
    signature: str
    section: str = ""
    raises: bool = True
    gives: bool = True


def table() -> dict[str, Any]:
    """The file as it is."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def todo() -> list[str]:
    """The keys of the problems that are known."""
    return TODO.read_text(encoding="utf-8").splitlines()


def entries(data: dict[str, Any]) -> list[Entry]:
    """Every callable that the table wants."""
    found = [
        entry(text, section["number"], routine.get("raises", True), routine.get("gives", True))
        for section in data["section"]
        for routine in section["routines"]
        for text in routine["python"]
    ]
    return found + [entry(text) for text in (*data["ours"]["shmem4py"], *data["ours"]["more"])]


def entry(text: str, section: str = "", raises: bool = True, gives: bool = True) -> Entry:
    """An entry from a signature as it is written in the table: `Ctx.create(options=0, team=None)`, or from a name."""
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        return Entry(name, "", section, raises, gives)
    definition = ast.parse(f"def f({rest}: ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    return Entry(name, f"({ast.unparse(definition.args)})", section, raises, gives)


# ---------------------------------------------------------------------------------------------- what is wrong


def problems(module: Any, data: dict[str, Any]) -> Problems:
    """All that is wrong with the module."""
    found: Problems = {}
    for one in entries(data):
        found.update(of_callable(module, one))
    for name in [*constants(data), *data["shmem4py"]["enums"]]:
        if not hasattr(module, name):
            found[name] = f"{name} is missing"
    for name, members in data["shmem4py"]["enums"].items():
        found.update(_of_enum(module, name, members))
    for name in data["shmem4py"]["with_statement"]:
        if hasattr(module, name) and not hasattr(getattr(module, name), "__exit__"):
            found[f"{name}: with"] = f"{name} does not work in a with statement"
    found.update(_of_rc(getattr(module, "rc", None), data["shmem4py"]["rc"]))
    return found


def constants(data: dict[str, Any]) -> list[str]:
    """The constants that must be there, those of enumerations aside."""
    wanted = [name for group in data["constant"] if "absent" not in group for name in group["names"]]
    return [*data["shmem4py"]["constants"], *wanted]


def of_callable(module: Any, wanted: Entry) -> Problems:
    """What is wrong with one callable: missing, of another signature, or without what its docstring must say."""
    try:
        target, bound = _find(module, wanted.name)
    except AttributeError:
        return {wanted.name: f"{wanted.name} is missing"}
    found: Problems = {}
    if wanted.signature and (signature := spelled(target, bound)) != wanted.signature:
        text = f"{wanted.name} takes {signature}, not {wanted.signature}"
        found[f"{wanted.name}: signature"] = text
    if wrong := wrong_docstring(inspect.getdoc(target), wanted):
        found[f"{wanted.name}: docstring"] = f"the docstring of {wanted.name} {wrong}"
    return found


def _find(module: Any, name: str) -> tuple[Any, bool]:
    """The callable, and whether its first parameter is the object it is called on."""
    owner: Any = module
    *classes, last = name.split(".")
    for part in classes:
        owner = getattr(owner, part)
    found = getattr(owner, last)
    if not callable(found):
        raise AttributeError(name)
    return found, bool(classes) and inspect.isfunction(inspect.getattr_static(owner, last))


def spelled(target: Any, bound: bool = False) -> str:
    """The signature without annotations, defaults as the table writes them."""
    signature = inspect.signature(target)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    plain = [p.replace(annotation=p.empty, default=_Default.of(p.default)) for p in parameters]
    return str(inspect.Signature(plain))


class _Default:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    @classmethod
    def of(cls, value: Any) -> Any:
        if value is inspect.Parameter.empty:
            return value
        if isinstance(value, Enum):
            return cls(f"{type(value).__name__}_{value.name}")
        return cls(value.__name__ if isinstance(value, type) else repr(value))


def wrong_docstring(doc: str | None, wanted: Entry) -> str | None:
    """What a docstring lacks: for a routine its section of the specification, what a return tells, the errors."""
    if not doc:
        return "is missing"
    text = " ".join(doc.split())
    if wanted.section and not re.search(rf"OpenSHMEM 1\.6, {re.escape(wanted.section)}(?!\d)", text):
        return f"does not say 'OpenSHMEM 1.6, {wanted.section}'"
    said = re.sub(r"\(?OpenSHMEM 1\.6, [\d.]+( ?\([^)]*\)|, [^)]*\))?\)?\.?", "", text)
    if len(said.split()) < WORDS_MIN:
        return f"is shorter than {WORDS_MIN} words"
    if not wanted.section:
        return None
    if wanted.raises and not RAISES.search(said):
        return "says nothing of errors"
    if wanted.gives and not GIVES.search(re.sub(r"\bRaises\b[^.]*\.", "", said).strip()):
        return "does not say what it returns, or what has completed when it does"
    return None


def _of_enum(module: Any, name: str, members: list[str]) -> Problems:
    enum = getattr(module, name, None)
    if enum is None:
        return {}
    missing = [member for member in members if not hasattr(enum, member)]
    missing += [f"{name}_{m}" for m in members if m not in missing and getattr(module, f"{name}_{m}", 0) is not enum[m]]
    return {f"{name}: members": f"{name} lacks {', '.join(missing)}"} if missing else {}


def _of_rc(rc: Any, wanted: str) -> Problems:
    """shmem4py's settings: an attribute each, settable by a call, and TypeError for any other."""
    if rc is None:
        return {"rc": "rc is missing"}
    names = re.findall(r"(\w+)=", wanted)
    if absent := [name for name in names if not hasattr(rc, name)]:
        return {"rc": f"rc lacks {', '.join(absent)}"}
    for attempt in (lambda: setattr(rc, "nonsense", 1), lambda: rc(nonsense=1)):
        try:
            attempt()
        except TypeError:
            continue
        return {"rc": "rc takes a setting that does not exist"}
    return {}


# ---------------------------------------------------------------------------------------------- what is public


def public_callables(module: Any) -> Iterator[str]:
    """Public functions and classes of the module, exceptions and enumerations aside."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isroutine(value) or (isinstance(value, type) and not issubclass(value, (BaseException, Enum))):
            yield name


def serves(ours: Entry, theirs: Entry) -> bool:
    """Whether every call that `theirs` takes means the same to `ours`, which may have more, all optional."""
    other = _parameters(theirs)
    names = [name for name, _, _ in other]
    mine = [one for one in _parameters(ours) if one[1] != "keyword" or one[0] in names or one[2] == "-"]
    shared = mine[: len(other)]
    in_order = [(name, default) for name, _, default in shared] == [(name, default) for name, _, default in other]
    kinds = zip([kind for _, kind, _ in shared], [kind for _, kind, _ in other], strict=False)
    looser = all(a == b or (a, b) == ("positional", "keyword") for a, b in kinds)
    return in_order and looser and all(default != "-" for _, _, default in mine[len(other) :])


def _parameters(of: Entry) -> list[tuple[str, str, str]]:
    """(name, kind, default as text, - for none) of each parameter."""
    arguments = ast.parse(f"def f{of.signature}: ...").body[0].args  # type: ignore[attr-defined]
    names = [a.arg for a in arguments.args]
    defaults = ["-"] * (len(names) - len(arguments.defaults)) + [ast.unparse(d) for d in arguments.defaults]
    found = [(name, "positional", default) for name, default in zip(names, defaults, strict=True)]
    for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((a.arg, "keyword", ast.unparse(d) if d else "-"))
    return [*found, *([(arguments.kwarg.arg, "rest", "")] if arguments.kwarg else [])]


if __name__ == "__main__":
    import shmem

    print("\n".join(sorted(problems(shmem, table()))))
