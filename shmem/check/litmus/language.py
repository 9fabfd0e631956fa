"""Reading litmus files: text to `Test`s, errors with line, column and a caret.

The grammar is `grammar.lark`; what a statement does is the affair of `statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Transformer, Tree, UnexpectedCharacters, UnexpectedInput, v_args
from lark.exceptions import VisitError

from ...delivery.profiles import NAMED
from ...errors import LitmusSyntaxError
from .meaning import SETTINGS, Wrong, check, check_final, check_setting
from .syntax import OF_OUTCOMES, STATUS_VALUES, VALUES, VERDICTS, Remote, Source, Statement, Sum, Test, Update, Word

FLAGS = ("signaled", "unsignaled", "inline", "fence", "none", "relax", "strong", "nodb", "badkey", "qp")


def parse(text: str, path: str = "<text>") -> list[Test]:
    """The tests of a text. Raises LitmusSyntaxError with line, column and the place in the text."""
    try:
        return [_test(cast("Tree[Any]", tree)) for tree in _grammar().parse(text + "\n").children]
    except UnexpectedInput as error:
        raise _error(text, path, error.line, error.column, _unexpected(error)) from None
    except VisitError as error:
        found = error.orig_exc
        if not isinstance(found, Wrong):
            raise
        raise _error(text, path, found.line, found.column, str(found)) from None
    except Wrong as found:
        raise _error(text, path, found.line, found.column, str(found)) from None


def read(path: Path) -> list[Test]:
    """The tests of a file. Raises LitmusSyntaxError, OSError."""
    return parse(path.read_text(encoding="utf-8"), str(path))


@cache
def _grammar() -> Lark:
    return Lark(files(__package__).joinpath("grammar.lark").read_text(), parser="lalr", propagate_positions=True)


def _error(text: str, path: str, line: int, column: int, message: str) -> LitmusSyntaxError:
    lines = text.splitlines()
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    caret = " " * (max(column, 1) - 1) + "^"
    return LitmusSyntaxError(f"{path}:{line}:{column}: {message}\n  {shown}\n  {caret}", line=line, column=column)


def _unexpected(error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedCharacters):
        return f"unexpected {error.char!r}"
    token = getattr(error, "token", None)
    return "the text ends too early" if token is None or token.type == "$END" else f"unexpected {str(token)!r}"


def _number(text: str) -> int:
    return int(text, 0) if text.startswith(("0x", "0X")) else int(text)


class _Build(Transformer[Token, Any]):
    """Parse trees to the classes above."""

    @v_args(inline=True)
    def number(self, token: Token) -> int:
        value = _number(token)
        if value >= VALUES:
            raise Wrong(f"{token} does not fit into 64 bits", token.line or 0, token.column or 0)
        return value

    @v_args(inline=True)
    def word(self, name: Token, lo: Token | None = None, hi: Token | None = None) -> Word:
        if lo is None:
            return Word(str(name))
        first = _number(lo)
        last = first + 1 if hi is None else _number(hi)
        if last <= first:
            raise Wrong(f"{name}[{lo}:{hi}] is empty", name.line or 0, name.column or 0)
        return Word(str(name), first, last, False)

    def sum(self, addends: list[Word | int]) -> Sum:
        words = tuple(each for each in addends if isinstance(each, Word))
        return Sum(words, sum(each for each in addends if isinstance(each, int)) % VALUES)

    @v_args(inline=True)
    def remote(self, word: Word, pe: Token) -> Remote:
        return Remote(word, _number(pe))

    @v_args(inline=True)
    def constant(self, value: Sum) -> Source:
        return Source(value=value)

    @v_args(inline=True)
    def buffer(self, word: Word) -> Source:
        return Source(buffer=word)

    @v_args(inline=True)
    def set(self, value: Sum) -> Update:
        return Update("set", value)

    @v_args(inline=True)
    def add(self, value: Sum) -> Update:
        return Update("add", value)

    @v_args(inline=True)
    def context(self, name: Token) -> Context:
        return Context(name)

    @v_args(inline=True)
    def into(self, name: Token) -> Into:
        return Into(name)

    @v_args(inline=True)
    def flag(self, name: Token, value: Token | None = None) -> tuple[str, int]:
        if name not in FLAGS or (value is not None) != (name == "qp"):
            raise Wrong(f"there is no flag {name}: there are {', '.join(FLAGS)}", name.line or 0, name.column or 0)
        return str(name), 1 if value is None else _number(value)

    def flags(self, given: list[tuple[str, int]]) -> dict[str, int]:
        return dict(given)


class Context(str):
    """The name of a context."""


class Into(str):
    """The register that takes a result."""


def _statement(tree: Tree[Any]) -> Statement:
    """A statement of what stands behind its verb, told apart by type and order."""
    verb = str(tree.data)
    found: dict[str, Any] = {}
    values: list[Sum] = []
    numbers: list[int] = []
    for child in tree.children:
        if isinstance(child, Remote):
            found["signal" if "remote" in found else "remote"] = child
        elif isinstance(child, Sum):
            values.append(child)
        elif isinstance(child, Token) and child.type == "INT":
            numbers.append(_number(child))
        else:
            found[_FIELDS[type(child)](child)] = (
                child if isinstance(child, (Word, Source, Update, dict)) else str(child)
            )
    if verb in ("doorbell", "poll_cq"):
        found["count"] = numbers[1] if len(numbers) > 1 else 1
        numbers = numbers[:1]
    meta = tree.meta
    return Statement(verb, meta.line, meta.column, values=tuple(values), pes=tuple(numbers), **found)


_FIELDS: dict[type, Callable[[Any], str]] = {
    Word: lambda child: "word",
    Source: lambda child: "source",
    Update: lambda child: "update",
    dict: lambda child: "flags",
    Context: lambda child: "context",
    Into: lambda child: "into",
    Token: lambda child: "op" if child.type == "OP" else "name",
}


def _test(tree: Tree[Any]) -> Test:
    parts = [_Build().transform(each) if isinstance(each, Tree) else each for each in tree.children]
    name, title = parts[0], parts[1]
    found: dict[str, list[Any]] = {"init": [], "local": [], "program": [], "outcome": [], "verdict": []}
    for part in parts[2:]:
        found[str(part.data)].append(part)
    symmetric = _declared(found["init"])
    declared = {"init": symmetric, "local": _declared(found["local"], symmetric)}
    programs = _programs(found["program"])
    for part in found["outcome"]:
        check_final(part, declared["init"])
    outcome = _outcome(found["outcome"][0].children[0]) if found["outcome"] else None
    verdicts = _verdicts(found["verdict"], of_outcome=outcome is not None)
    highest = max([*programs, *(pe for pe in _pes(programs)), *_pes_of_outcome(outcome), 1])
    test = Test(
        str(name), str(title)[1:-1], name.line or 0, declared["init"], declared["local"], _settings(found["init"]),
        programs, outcome, verdicts, highest + 1,
    )  # fmt: skip
    check(test)
    return test


def _verdicts(parts: list[Tree[Any]], of_outcome: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        profile, verdict = cast("list[Any]", part.children)
        if verdict not in VERDICTS:
            raise Wrong(f"{verdict} is no verdict: use {', '.join(VERDICTS)}", verdict.line, verdict.column)
        if verdict in OF_OUTCOMES and not of_outcome:
            raise Wrong(f"{verdict} is said of an outcome, and the test has none", verdict.line, verdict.column)
        if profile not in NAMED:
            known = ", ".join(NAMED)
            raise Wrong(f"there is no profile {str(profile)!r}: there are {known}", profile.line, profile.column)
        if profile in found:
            raise Wrong(f"{profile} has a verdict already", profile.line, profile.column)
        found[str(profile)] = str(verdict)
    return found


def _declared(parts: list[Tree[Any]], others: Collection[str] = ()) -> dict[str, tuple[int, int]]:
    """others: names that are taken."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        for each in part.children:
            if isinstance(each, Tree) and each.data == "declaration":
                name, *count, value = cast("list[Any]", each.children)
                if name in found or name in others:
                    raise Wrong(f"{name} is declared twice", name.line, name.column)
                found[str(name)] = (_number(count[0]) if count else 1, value)
    return found


def _settings(parts: list[Tree[Any]]) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for part in parts:
        for each in part.children:
            if each.data == "setting":
                name, value = cast("list[Any]", each.children)
                if name not in SETTINGS:
                    raise Wrong(f"there is no setting {name}: there are {', '.join(SETTINGS)}", name.line, name.column)
                found[str(name)] = _number(value) if value.type == "INT" else str(value)
                check_setting(found, value)
    return found


def _programs(parts: list[Tree[Any]]) -> dict[int, tuple[Statement, ...]]:
    found: dict[int, tuple[Statement, ...]] = {}
    for part in parts:
        number = int(str(part.children[0])[1:])
        found[number] = found.get(number, ()) + tuple(_statement(each) for each in part.children[1:])
    return found


def _pes(programs: Mapping[int, tuple[Statement, ...]]) -> list[int]:
    named = [0]
    for statements in programs.values():
        for each in statements:
            named += each.pes
            named += [remote.pe for remote in (each.remote, each.signal) if remote is not None]
    return named


def _outcome(tree: Any) -> Any:
    if isinstance(tree, int):
        return ("number", tree)
    kind, parts = str(tree.data), tree.children
    if kind in ("either", "both", "negation"):
        return (kind, *(_outcome(each) for each in parts))
    if kind == "compare":
        return (kind, _outcome(parts[0]), str(parts[1]), _outcome(parts[2]))
    if kind == "blocked":
        return (kind, _number(parts[0]))
    if kind == "register_of":
        return (kind, _number(parts[0]), str(parts[1]))
    if kind == "final":
        return (kind, parts[0], _number(parts[1]))
    if parts[0] not in STATUS_VALUES:
        raise Wrong(f"{parts[0]} is neither PE:register nor a status", parts[0].line, parts[0].column)
    return ("number", STATUS_VALUES[str(parts[0])])


def _pes_of_outcome(outcome: Any) -> list[int]:
    if not isinstance(outcome, tuple):
        return []
    at = {"blocked": 1, "register_of": 1, "final": 2}.get(outcome[0])
    return [outcome[at]] if at else [pe for part in outcome[1:] for pe in _pes_of_outcome(part)]
