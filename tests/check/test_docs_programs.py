"""Every program of README and of the pages in docs is explored, new ones as soon as they are there.

A fenced block of Python is a program if it defines functions: each without arguments is explored. One that only calls
`shmem` is the body of one. What else there is: tests and sessions, which `test_check_docs` runs, and blocks without
`shmem`. All orders of a program are looked at and none fails, but for what `KNOWN` says.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from shmem.check.exploration import explore
from shmem.check.loading import load

ROOT = Path(__file__).parents[2]
LESSONS = ROOT / "docs" / "lessons"  # whose programs, and exercises that fail, are explored in tests/lessons
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != LESSONS)]
HAS = {  # what the page before the block gives it
    "docs/check.md": """\
import shmem
flag = shmem.zeros(1, int)
if shmem.my_pe() == 0:
    shmem.p(flag, 1, 1)
else:
""",
}
# How else than to the end, under the weakest profile, without a failure.
KNOWN: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("docs/check.md", "main"): [{"kinds": ["assertion"]}],  # the page is about this failure
    ("docs/nic.md", "main"): [{"kinds": ["assertion"]}],  # and about this one
    ("docs/fuzzing.md", "main"): [{"kinds": ["assertion"]}],
    # Thousands of steps: one order of them.
    ("docs/expert-parallel.md", "program"): [{"profile": "tso", "strategy": "random", "budget": 1, "complete": False}],
    ("docs/queue-pairs.md", "main"): [
        {"profile": "rc_strict"},
        *({"profile": name, "kinds": ["assertion"]} for name in ("rc_relaxed", "udma", "srd")),
    ],
}


def body(page: str, code: str) -> str:
    """A program of what a block does."""
    before = HAS.get(page, "")
    lines = "".join(f"    {line}\n" for line in code.splitlines()) if before.endswith(":\n") else code
    inside = "".join(f"    {line}\n" for line in (before + lines).splitlines())
    return f"def program():\n{inside}"


def programs(page: str, code: str) -> tuple[str, list[str]]:
    """A block as the text of a file, and the functions in it that are programs."""
    tree = ast.parse(code)
    names = [each.name for each in tree.body if isinstance(each, ast.FunctionDef) and not each.args.args]
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    checked = any(str(module).startswith(("shmem.check", "shmem.delivery")) for module in modules)
    if checked or any(name.startswith("test_") for name in names) or "shmem" not in code:
        return code, []
    return (code, names) if names else (body(page, code), ["program"])


CASES = [
    (page, name, text, how)
    for path in PAGES
    for page in [path.relative_to(ROOT).as_posix()]
    for code in re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for text, names in [programs(page, code)]
    for name in names
    for how in KNOWN.get((page, name), [{}])
]


@pytest.mark.parametrize(
    ("text", "name", "how"),
    [(text, name, how) for _, name, text, how in CASES],
    ids=["-".join([page, name, *map(str, how.values())]) for page, name, _, how in CASES],
)
def test_the_programs_of_the_docs_do_what_they_say(text: str, name: str, how: dict[str, Any], tmp_path: Path) -> None:
    options = {key: value for key, value in how.items() if key not in ("kinds", "complete")}
    (tmp_path / "program.py").write_text(text)
    report = explore(load(f"{tmp_path}/program.py::{name}"), 2, **options)
    assert [failure.kind for failure in report.failures] == how.get("kinds", []), report
    assert report.complete or not report.ok or not how.get("complete", True), report


def test_all_of_them_are_collected() -> None:
    """Those that are known to be there, and each function `main` that a plain look at the pages counts."""
    found = {(page, name) for page, name, _, _ in CASES}
    assert found >= {("README.md", "main"), ("docs/check.md", "fixed"), ("docs/check.md", "program"), *KNOWN}
    counted = sum(path.read_text(encoding="utf-8").count("\ndef main():") for path in PAGES)
    assert sum(name == "main" for _, name, _ in {each[:3] for each in CASES}) == counted


def test_a_wrong_program_in_a_page_is_seen() -> None:
    code = "import shmem\nword = shmem.zeros(1, int)\nshmem.p(word, 1, 1 - shmem.my_pe())\nassert word[0] == 1\n"
    text, names = programs("docs/other.md", code)
    assert names == ["program"]
    space: dict[str, Any] = {}
    exec(text, space)
    assert not explore(space["program"], 2).ok
