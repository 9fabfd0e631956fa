"""The pages in docs/lessons are what `shmemu lesson N` prints, and that is what the programs do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shmem.cli import main
from shmem.lessons.catalogue import LESSONS

PAGES = Path(__file__).parents[2] / "docs" / "lessons"


@pytest.mark.parametrize("number", LESSONS)
def test_a_page_is_what_the_command_prints(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson", str(number)]) == 0
    page = LESSONS[number].page
    assert capsys.readouterr().out == (PAGES / page).read_text(), (
        f"make it: shmemu lesson {number} > docs/lessons/{page}"
    )


def test_the_programs_on_the_pages_are_the_files() -> None:
    for number, lesson in LESSONS.items():
        blocks = re.findall(r"^```python\n(.*?)^```$", (PAGES / lesson.page).read_text(), re.MULTILINE | re.DOTALL)
        assert blocks == [lesson.text("lesson"), lesson.text("exercise")], number


def test_each_claim_has_a_source() -> None:
    for lesson in LESSONS.values():
        claims = lesson.text("lesson", ".md").strip().split("\n\n")
        assert len(claims) >= 3
        assert all(re.search(r"\*\([^*]+\)\*$", claim) for claim in claims)


def test_the_list_of_pages_is_whole() -> None:
    listed = re.findall(r"^(\d+)\. \[(.*)\]\((.*)\)$", (PAGES / "README.md").read_text(), re.MULTILINE)
    assert [(int(n), title.lower(), page) for n, title, page in listed] == [
        (number, lesson.title, lesson.page) for number, lesson in LESSONS.items()
    ]
    assert {path.name for path in PAGES.iterdir()} == {"README.md", *(each.page for each in LESSONS.values())}


def part(number: int, heading: str, block: int = 0) -> list[str]:
    """The lines of a block without a language under a heading of a page."""
    text = (PAGES / LESSONS[number].page).read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [inside for language, inside in blocks if not language][block].splitlines()


def test_lesson_1_shows_the_second_lap_of_the_ring() -> None:
    printed = part(1, "The program")
    assert printed[4].endswith("producer 6, consumer 3, slots [4 .] [5 .] [2 o] [3 o]")
    assert printed[6].endswith(" [0 o] [1 o] [2 o] [3 o] [4 o] [5 o] [0 .] [0 .]")


def test_lesson_2_lists_all_that_can_be_sent() -> None:
    """The first word is read any time before the end, the second one as well, but not before its value is there."""
    seen = re.findall(r"\[(\d), (\d), 3\]", part(2, "What happened", 1)[0])
    assert {(int(first), int(second)) for first, second in seen} == {(a, b) for a in (1, 2, 3) for b in (2, 3)}
    rows = [row.lstrip(" *") for row in part(2, "What happened")]
    assert rows.index("~ the source of write 0 is read (late)") > rows.index("~ the source of write 1 is read")


def test_lesson_4_differs_by_profile() -> None:
    ends = dict(line.split(", in every order: PE 1 gets ") for line in part(4, "What happened", 1))
    stale = "[0, 0] or [0, 8] or [7, 0] or [7, 8]"
    assert ends == {"rc_strict": stale, "rc_relaxed": stale, "udma": "[7, 8]", "tso": "[7, 8]"}
    rows = [row.strip(" *") for row in part(4, "What happened")]
    assert rows.index("~ completion: write 0 ok") < rows.index("<- write 0 0x8..0x10 (late)")


def test_lesson_8_tells_of_the_failure_and_of_what_was_flushed() -> None:
    printed = part(8, "The program")
    assert printed[:3] == ["request 1: rem_access", "request 2: flush", "request 3: flush"]
    assert printed[-1] == "PE 1 has [1, 0, 0, 4]"


def test_lesson_9_differs_by_profile_and_takes_completions_under_both() -> None:
    ends = dict(line.split(", in every order: PE 1 gets ") for line in part(9, "What happened", 1))
    assert ends == {"udma": "[1, 2, 3, 4] or [3, 2, 3, 4]", "rc_strict": "[1, 2, 3, 4]"}
    printed = part(9, "The program")
    assert printed[1].endswith("producer, consumer (4, 0)")
    assert printed[2].endswith("producer, consumer (4, 4)")
    rows = [row.strip(" *") for row in part(9, "What happened")]
    assert rows.count("rings for write 0, write 1") == rows.count("rings for write 2, write 3") == 1
    second = next(i for i, row in enumerate(rows) if row.endswith("posts write 2, write 3"))
    assert rows.index("~ the source of write 0 is read (late)") > second > rows.index("<- write 1 0x8..0x10")
