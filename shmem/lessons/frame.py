"""What of an exercise is not the reader's to change: everything but the gap."""

from __future__ import annotations

import ast

from ..errors import ArgumentError
from .lesson import GAP, Lesson


def check_frame(file: str, text: str, lesson: Lesson) -> None:
    """Raises ArgumentError for a file that is no Python, that has no gap, or that differs from the exercise elsewhere.

    More functions and imports may stand beside what is there.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ArgumentError(f"{file}:{error.lineno}: this is no Python: {error.msg}") from None
    found, wanted = _statements(tree), _statements(ast.parse(lesson.text("exercise")))
    if GAP not in found:
        raise ArgumentError(f"{file} has no function {GAP}: that is the part to write")
    if found[GAP][1] != wanted[GAP][1]:
        raise ArgumentError(f"{file}: {GAP} takes other arguments than in the exercise, or is there twice")
    for name, (what, _) in wanted.items():
        if name != GAP and found.get(name, ("", ""))[0] != what:
            raise ArgumentError(
                f"{file}: {name} is not as in the exercise, and only {GAP} is yours (shmemu lesson {lesson.number} "
                "--start DIR writes the exercise afresh)"
            )


def _statements(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """What each name of a module is bound to by its statements, and of functions their arguments."""
    found: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        for name in _names(node):
            what, arguments = found.get(name, ("", ""))
            more = ",".join(each.arg for each in node.args.args) if isinstance(node, ast.FunctionDef) else "?"
            found[name] = what + _dumped(node), arguments + more
    return found


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [each.asname or each.name.partition(".")[0] for each in node.names]
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def _dumped(node: ast.stmt) -> str:
    return ast.dump(node)
