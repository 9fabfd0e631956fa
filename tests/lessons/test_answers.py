"""Exercises: the untouched file and each wrong answer get the hint for just that, and right answers can't fail."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from shmem.lessons.catalogue import LESSONS
from shmem.lessons.judge import NO_HINT, OWN, Verdict, tried

from .answers import POLLS, RIGHT, WRONG, filled

CASES = [
    pytest.param(number, hint, body, id=f"{number}-{hint.replace(' ', '-')}-{i}")
    for number, wrong in WRONG.items()
    for hint, bodies in wrong.items()
    for i, body in enumerate(bodies)
]


def judged(number: int, text: str, folder: Path) -> Verdict:
    """What becomes of an answer."""
    file = folder / "answer.py"
    file.write_text(text)
    return tried(LESSONS[number], str(file))


def hint_of(number: int, name: str) -> str:
    [text] = [each.text for each in LESSONS[number].hints if each.name == name]
    return text


@pytest.mark.parametrize("number", LESSONS)
def test_the_untouched_exercise_fails_with_its_hint(number: int, tmp_path: Path) -> None:
    verdict = judged(number, LESSONS[number].text("exercise"), tmp_path)
    assert (verdict.ok, verdict.hint) == (False, "untouched"), verdict.text
    assert verdict.text.endswith(f"hint: {hint_of(number, 'untouched')}")


@pytest.mark.parametrize(("number", "hint", "body"), CASES)
def test_a_wrong_answer_fails_with_a_hint_of_its_own(number: int, hint: str, body: str, tmp_path: Path) -> None:
    verdict = judged(number, filled(LESSONS[number].text("exercise"), body), tmp_path)
    assert (verdict.ok, verdict.hint) == (False, hint), verdict.text
    assert verdict.text.endswith(f"hint: {hint_of(number, hint)}")


def test_each_hint_has_an_answer_that_gets_it() -> None:
    for number, lesson in LESSONS.items():
        names = [each.name for each in lesson.hints]
        assert set(names) == {"untouched", *WRONG[number]}
        assert max(Counter(names).values()) == max(Counter(each.text for each in lesson.hints).values()) == 1
        assert len(names) >= 4


@pytest.mark.parametrize("number", LESSONS)
def test_the_solution_can_not_fail(number: int, tmp_path: Path) -> None:
    verdict = judged(number, LESSONS[number].text("solution"), tmp_path)
    assert (verdict.ok, verdict.complete) == (True, True), verdict.text
    for profile in LESSONS[number].tried:
        assert f"  {profile}: no failure, all of it: " in verdict.text


@pytest.mark.parametrize(("number", "body"), [(number, body) for number, bodies in RIGHT.items() for body in bodies])
def test_other_right_answers_pass_as_well(number: int, body: str, tmp_path: Path) -> None:
    verdict = judged(number, filled(LESSONS[number].text("exercise"), body), tmp_path)
    assert (verdict.ok, verdict.complete) == (True, True), verdict.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("qp.post(5)", "exception of PE 0: ArgumentError: 5 is no work request\n"),
        ("qp.posts", "exception of PE 0: AttributeError: 'QueuePair' object has no attribute 'posts'\n"),
        ("assert cq is None", "assertion of PE 0: AssertionError\n"),
    ],
)
def test_what_an_answer_raises_itself_gets_no_hint_about_requests(line: str, said: str, tmp_path: Path) -> None:
    for number, lesson in LESSONS.items():
        verdict = judged(number, filled(lesson.text("exercise"), line), tmp_path)
        assert (verdict.ok, verdict.hint) == (False, "")
        assert said in verdict.text
        assert verdict.text.endswith(f"hint: {OWN}")


def test_a_failure_that_no_hint_fits_says_so(tmp_path: Path) -> None:
    body = "qp.post(nic.WorkRequest(nic.FAA, back[:1], box, value=1))\nshmem.p(flag, 1, 1)"
    verdict = judged(4, filled(LESSONS[4].text("exercise"), body), tmp_path)
    assert (verdict.ok, verdict.hint) == (False, "")
    assert "assertion of PE 1" in verdict.text
    assert verdict.text.endswith(f"hint: {NO_HINT}")


def test_an_answer_that_polls_without_spin_is_not_all_looked_at(tmp_path: Path) -> None:
    verdict = judged(1, filled(LESSONS[1].text("exercise"), POLLS), tmp_path)
    assert (verdict.ok, verdict.complete) == (True, False), verdict.text
    assert "not all of it was looked at" in verdict.text
    assert "a loop looks without shmem.spin()" in verdict.text
    verdict = judged(1, filled(LESSONS[1].text("exercise"), POLLS.replace("pass", "shmem.spin()")), tmp_path)
    assert (verdict.ok, verdict.complete) == (True, True), verdict.text
