"""docs/virtual-time.md runs: its program by its command and its machine file, and its blocks from Python."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmem.cli import main

TEXT = (Path(__file__).parents[2] / "docs" / "virtual-time.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _, code in BLOCKS:
        if named := re.match(r"# (\w+\.\w+)\n", code):
            Path(named[1]).write_text(code)
    yield
    sys.modules.pop("halo", None)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_the_command_prints_what_the_page_says(capfd: pytest.CaptureFixture[str]) -> None:
    [session] = [code for kind, code in BLOCKS if not kind]
    command, printed = session.removeprefix("$ shmemu ").split("\n", 1)
    assert main(shlex.split(command)) == 0
    out, err = capfd.readouterr()
    assert out == printed
    told = re.findall(r"^(PE \d): [\d.]+ us$", err, re.MULTILINE)
    assert told == [f"PE {pe}" for pe in range(4)]
    assert err.endswith("network: 2 messages, 8208 bytes\nnode: 2 messages, 8208 bytes\n")


def test_the_blocks_run() -> None:
    for i, code in enumerate(code for kind, code in BLOCKS if kind == "python" and not code.startswith("# ")):
        exec(compile(code, f"block {i}", "exec"), {})


def test_all_blocks_are_executed() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert (kinds.count("python"), kinds.count("toml"), kinds.count("")) == (3, 1, 1)
