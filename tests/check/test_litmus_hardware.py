"""`shmemu litmus --hardware`: tests as real processes, and what they show against what a search allows.

The oracle is written out: which ends a test can have on an ordered machine. Which of them are seen is chance.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shmem.check.litmus import hardware
from shmem.check.litmus.language import parse, read
from shmem.check.litmus.verdict import judge
from shmem.cli import main
from shmem.delivery.profiles import NAMED

LITMUS = Path(__file__).parents[1] / "litmus"
SB = """test SB "store buffering"
init x = 0, y = 0
P0: put x@1 = 1; r = y
P1: put y@0 = 1; r = x
outcome 0:r == 0 and 1:r == 0
verdict tso allowed
"""
# Each verb that has a call, with one end: what every PE holds is worked out beside it.
VERBS = """test V "every verb"
init x = 0, v[3] = 9, a = 0, s = 0, n = 0, l = 0, c = 0
local b = 5, g = 0
P0: put v[0:3]@1 = 4; put_nbi x@1 <- b; fence; quiet; b = 0; signal s@1 set 2; wait s == 7; ra = a
    barrier_all; sync_all; barrier(0,2); lock l; get q <- n@2; put n@2 = 1; unlock l; sync(0,2)
P1: signal_wait s >= 2; rv = v[2]; rx = x; get_nbi g <- x@0; quiet; rg = g
    put_signal_nbi a@0 = 3, s@0 add 3; pe_quiet 0; signal s@0 add 4
    barrier_all; sync_all; atomic_set c@0 = 10; atomic_add c@0 += 1; f = atomic_fetch c@0
    o = fetch_add c@0 5; w = swap c@0 20; k = compare_swap c@0 20 21; put[c1] x@0 = 8; fence[c1]; quiet[c1]
    fetch_add_nbi g <- c@0 1; quiet; rz = g; put_signal[c1] a@0 = 6, s@0 set 1; x = 11; poll x == 11; poll_line x == 11
outcome 1:f == 11
verdict tso allowed
"""
VERBS_ENDS = {
    (
        ((("q", 0), ("ra", 3)), ((8,), (9, 9, 9), (6,), (1,), (0,), (22,))),
        (
            (("f", 11), ("k", 20), ("o", 11), ("rg", 0), ("rv", 4), ("rx", 5), ("rz", 21), ("w", 16)),
            ((11,), (4, 4, 4), (0,), (2,), (0,), (0,)),
        ),
        ((), ((0,), (9, 9, 9), (0,), (0,), (1,), (0,))),
    )
}


def run(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str, *options: str, times: int = 40
) -> tuple[int, str, str]:
    file = folder / "one.litmus"
    file.write_text(text)
    code = main(["litmus", str(file), "--hardware", str(times), *options])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_what_is_seen_is_told_with_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, tmp_path, SB, "--profile", "tso")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("ok  SB       tso                  40 runs, ")
    assert sum(int(line.split()[0]) for line in lines[1:-1]) == 40
    ends = {f"0:r={r} 1:r={q} y@0=1 x@1=1" for r in (0, 1) for q in (0, 1)}
    assert {line.split(maxsplit=1)[1] for line in lines[1:-1]} <= ends
    assert lines[-1] == "1 tests run, 0 refused, 0 wrong"


def test_what_is_not_allowed_is_a_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the search had found nothing: whatever is seen is then strange."""
    monkeypatch.setattr(hardware, "allowed_ends", lambda judged, chosen: set())
    code, out, _ = run(capsys, tmp_path, SB, "--profile", "tso")
    assert code == 1
    assert out.startswith("BAD SB ")
    assert all(line.endswith("  not allowed under tso") for line in out.splitlines()[1:-1])
    assert out.splitlines()[-1] == "1 tests run, 0 refused, 1 wrong"


def test_the_search_s_ends_are_told_as_runs_tell_theirs() -> None:
    [test] = parse(SB)
    words = (((0,), (1,)), ((1,), (0,)))
    ends = {tuple(((("r", r[pe]),), words[pe]) for pe in (0, 1)) for r in ((0, 0), (0, 1), (1, 0), (1, 1))}
    assert hardware.allowed_ends(judge(test, "tso"), NAMED["tso"]) == ends


def test_every_verb_that_has_a_call() -> None:
    [test] = parse(VERBS)
    seen = hardware.observe(test, 5, "tso")
    assert set(seen.ends) == VERBS_ENDS
    assert seen.right


@pytest.mark.parametrize(
    ("program", "outcome", "says"),
    [
        ("write x@1 = 1", "x@1 == 1", "line 3: write needs queue pairs"),
        ("tell 1", "x@1 == 1", "line 3: tell needs queue pairs, or messages outside the memory"),
        ("wait x == 1", "0:blocked", "it asks whether a PE waits for ever"),
    ],
)
def test_what_can_t_be_run_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, program: str, outcome: str, says: str
) -> None:
    text = f'test Q "q"\ninit x = 0\nP0: {program}\noutcome {outcome}\nverdict tso allowed\n'
    code, _, err = run(capsys, tmp_path, text)
    assert code == 2
    assert f"Q can't be run on hardware: {says}" in err
    assert "Traceback" not in err
    code, out, _ = run(capsys, tmp_path, text + "\n" + SB, "--profile", "tso", times=1)  # the others are run
    assert code == 0
    assert out.startswith("--  Q can't be run on hardware")
    assert out.splitlines()[-1] == "1 tests run, 1 refused, 0 wrong"


def test_matrix_and_outcomes_are_for_searches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, tmp_path, SB, "--outcomes")[0] == 2


def test_the_shapes_can_be_run() -> None:
    """But for those of srd and tso that post work requests."""
    tests = [test for path in (LITMUS / "shapes").glob("*.litmus") for test in read(path)]
    refused = [test.name for test in tests if hardware.refusal(test)]
    assert len(refused) == 9 + 6
    assert all(name.startswith(("D_", "T_")) for name in refused)
