"""The programs of examples/ are clean, recorded as they are; without one of their barriers they race."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .jobs import SHMEMU, command, on_each, on_each_in_full, pairs, race, recorded, without

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FOUND = sorted(path.name for path in EXAMPLES.glob("*.py"))
# Behind which line the barrier goes, and the lines that race then.
TWINS = {
    "heat.py": ("shmem.put(new[0], new[-2], me + 1)", ("put(new", ") / 4")),
    "sort.py": ("shmem.get(theirs, mine, other)", ("shmem.get(", "mine[:] = both")),
}


def test_each_has_a_twin() -> None:
    assert sorted(TWINS) == FOUND


@on_each
@pytest.mark.parametrize("name", FOUND)
def test_an_example_is_right_and_clean(tmp_path: Path, name: str, fabric: dict[str, str]) -> None:
    done = recorded(tmp_path, 3, EXAMPLES / name, **fabric)
    assert done.code == 0, done.err
    found = race(tmp_path, "--strict")
    assert (found.code, found.out.splitlines()[1:]) == (0, ["no races in this run"])


@on_each_in_full
@pytest.mark.parametrize("name", FOUND)
def test_without_a_barrier_it_races(tmp_path: Path, name: str, fabric: dict[str, str]) -> None:
    behind, (one, other) = TWINS[name]
    text = without((EXAMPLES / name).read_text(), behind)
    twin = tmp_path / name
    twin.write_text(text)
    done = recorded(tmp_path / "s", 3, twin, **fabric)
    assert done.code == 0, done.err
    found = race(tmp_path / "s")
    assert found.code == 1
    told = pairs(found.out, name)
    ends = [[i for i, line in enumerate(text.split("\n"), 1) if part in line] for part in (one, other)]
    assert told & {tuple(sorted((a, b))) for a in ends[0] for b in ends[1]}, found.out
    lines = text.split("\n")
    assert all(re.search(r"put\(|get\(|\[.*\]", lines[at - 1]) for pair in told for at in pair), found.out


@on_each
def test_the_demo_is_clean(tmp_path: Path, fabric: dict[str, str]) -> None:
    words = ("demo", "-n", 2, "--tokens", 40, "--repeat", 1, "--out", tmp_path)
    done = command(*SHMEMU, *words, SHMEMU_SANITIZE=str(tmp_path / "s"), SHMEMU_HEAP_SIZE="256M", **fabric)
    assert done.code == 0, done.out + done.err
    found = race(tmp_path / "s")
    assert (found.code, found.out.splitlines()[1:]) == (0, ["no races in this run"])
