"""Private buffers of work requests and receives, with the instrumented import: races between the very lines."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from shmem.check.exploration import explore
from shmem.check.instrument.asked import instrumented
from shmem.check.loading import load
from shmem.check.report import Report

from .race_programs import parsed, text_of
from .test_races import pairs

SENT, TAKEN = " / 1: qp.post(WR(SEND, z))", " / 1: qp.post_recv(v[:1]); cq.wait()"
HOW = {  # what has the memory, what the other PE does for it, and which of the two accesses race with it
    "WRITE": ("qp.post(WR(WRITE, mine, X))", "", ["store"]),
    "SEND": ("qp.post(WR(SEND, mine))", TAKEN, ["store"]),
    "READ": ("qp.post(WR(READ, mine, X))", "", ["load", "store"]),
    "FAA": ("qp.post(WR(FAA, mine, X, value=1))", "", ["load", "store"]),
    "a READ that fails": ("qp.post(WR(READ, mine, X, offset=8))", "", ["load", "store"]),
    "a receive": ("qp.post_recv(mine)", SENT, ["load", "store"]),
}
DO = {"load": "int(mine[0])", "store": "mine[0] = 2"}
BOTH = [(how, access) for how in HOW for access in DO]
PROFILES = ["rc_relaxed", "udma"]


def explored(text: str, profile: str, folder: Path, instrument: bool = True) -> tuple[Report, list[int]]:
    """What is said of a program, and the lines that are marked in it."""
    made, marked = text_of(parsed(text), 2)
    (folder / "program.py").write_text(made)
    with instrumented() if instrument else contextlib.nullcontext():
        program = load(f"{folder}/program.py::program")
        return explore(program, 2, profile, races="lenient", budget=5, keep_going=True), marked


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("how", "access"), BOTH)
def test_a_race_is_found_at_its_line_and_told_once(how: str, access: str, profile: str, tmp_path: Path) -> None:
    first, there, races = HOW[how]
    report, (posted, line) = explored(f"0: *{first}; *{DO[access]}; cq.wait()" + there, profile, tmp_path)
    assert pairs(report) == ({(posted, line)} if access in races else set()), report
    assert len(report.failures) == (access in races)
    for failure in report.failures:
        assert f" and {access} (PE 0, program.py:{line}): 8 private bytes of PE 0: " in failure.text


@pytest.mark.parametrize("how", HOW)
def test_without_it_a_store_is_found_at_the_next_call_and_a_load_not_at_all(how: str, tmp_path: Path) -> None:
    first, there, _ = HOW[how]
    report, (posted, line) = explored(f"0: *{first}; mine[0] = 2; *cq.wait()" + there, "udma", tmp_path, False)
    if how == "a READ that fails":  # it never writes: nothing is compared
        assert report.ok, report
    else:
        assert pairs(report) == {(posted, line)}, report
        assert " and store before this line (PE 0, " in report.failures[0].text
    assert explored(f"0: {first}; int(mine[0]); cq.wait()" + there, "udma", tmp_path, False)[0].ok


@pytest.mark.parametrize("instrument", [True, False])
@pytest.mark.parametrize("wait", ["cq.wait()", "qp.quiet()", "quiet()", "while not cq.poll(): spin()"])
@pytest.mark.parametrize("how", HOW)
def test_there_is_none_behind_what_ends_it(how: str, wait: str, instrument: bool, tmp_path: Path) -> None:
    first, there, _ = HOW[how]
    if "quiet" in wait and how in ("a receive", "a READ that fails"):  # which does not wait for one, which raises
        wait = "cq.wait()"
    report, _ = explored(
        f"0: {first}; {wait}; int(mine[0]); mine[0] = 2; mine += 1; quiet(c); cq.poll()" + there, "rc_strict",
        tmp_path, instrument,
    )  # fmt: skip
    assert report.ok, report


@pytest.mark.parametrize("instrument", [True, False])
@pytest.mark.parametrize(
    ("text", "profile", "race"),
    [
        # The first result comes where the second is still to come; what the program does behind both is its own affair.
        ("0: {}qp.post(WR(READ, mine, X)); {}qp.post(WR(READ, mine, X)); cq.wait(); cq.wait(); mine[0] = 2; quiet()",
         "rc_relaxed", False),
        ("0: {}get_nbi(b, x, 1); {}get_nbi(b, z, 1, ctx=c); quiet(); quiet(c); b[0] = 2; quiet()", "rc_relaxed", True),
        ("0: {}qp.post(WR(READ, mine, X)); {}get_nbi(mine, z, 1); cq.wait(); quiet()", "udma", True),
        # What is read late changes by what another operation does, not by the program.
        ("0: {}put_nbi(x, mine, 1); {}qp.post(WR(READ, mine, Z)); cq.wait(); quiet(c); quiet()", "udma", True),
        ("0: {}put_nbi(x, mine, 1); {}qp.post_recv(mine); cq.wait(); quiet(c); quiet()" + SENT, "rc_strict", True),
        ("0: {}qp.post_recv(mine); {}put_nbi(x, mine, 1); cq.wait(); quiet(c); quiet()" + SENT, "udma", True),
    ],
)  # fmt: skip
def test_what_operations_do_to_each_other_is_no_store(
    text: str, profile: str, race: bool, instrument: bool, tmp_path: Path
) -> None:
    report, marked = explored(text.format(*("**" if race else ("", ""))), profile, tmp_path, instrument)
    assert pairs(report) == ({tuple(marked)} if race else set()), report
    assert " store before this line " not in "".join(failure.text for failure in report.failures)


def test_a_local_flush_ends_sources_but_no_results(tmp_path: Path) -> None:
    text = "0: *get_nbi(b, x, 1); put_nbi(z, mine, 1); flush_local(); mine[0] = 2; *int(b[0]); *b[0] = 2; quiet()"
    report, (posted, *lines) = explored(text, "rc_strict", tmp_path)
    assert pairs(report) == {(posted, line) for line in lines}, report
