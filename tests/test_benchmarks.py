"""Each benchmark runs with `--quick`: small sizes, its own check of correctness, no claims about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shmem
from tests.launcher.cells import FULL

FOLDER = Path(__file__).parent.parent / "benchmarks"
if str(FOLDER) not in sys.path:
    sys.path.append(str(FOLDER))


def test_dispatch_and_its_peer_give_the_same_rows(tmp_path):
    command = [sys.executable, str(FOLDER / "dispatch.py"), "--quick", "--pes", "2,3", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("both give the same") == 2
    report = json.loads((tmp_path / "dispatch.json").read_text())
    assert report["schema"] == "shmemu-bench/1"
    assert report["load_after"] is not None


def run_quick(name, *options):
    """The benchmark's output."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--quick", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rma_and_its_peers_move_the_same(tmp_path):
    output = run_quick("rma", "--out", str(tmp_path))
    assert "right results: ours, mpi4py" in output
    report = json.loads((tmp_path / "rma.json").read_text())
    cases = {row["case"] for row in report["rows"]}
    assert len(cases) >= 34
    assert {row["case"] for row in report["ratios"]} == cases
    assert "shmem4py" in report["peers_absent"]


def test_a_shmem4py_that_does_not_run_is_absent_with_the_reason(tmp_path):
    wrong = f"{sys.executable} -c \"raise SystemExit('no {{n}} PEs here')\""
    run_quick("rma", "--out", str(tmp_path), "--shmem4py", wrong)
    absent = json.loads((tmp_path / "rma.json").read_text())["peers_absent"]
    assert absent[f"shmem4py ({wrong})"] == "exit code 1: no 2 PEs here"


def test_collectives_and_their_peer_give_the_same(tmp_path):
    output = run_quick("collectives", "--out", str(tmp_path), "--pes", "2,3")
    report = json.loads((tmp_path / "collectives.json").read_text())
    kinds = {"fcollect": "fcollect", "alltoall": "alltoall", "sum reduction": "sum_reduce", "broadcast": "broadcast"}
    for kind, name in kinds.items():
        rows = [row for row in report["rows"] if row["case"].startswith(f"{kind},")]
        there = hasattr(shmem, name)
        assert len(rows) == (2 * 2 * 3 if there else 0)
        assert report["peers_absent"].get(kind) == (None if there else f"skipped: shmem has no {name}")
    assert output.count("right results of both") == 2


@pytest.mark.parametrize(
    ("rounds", "load", "target", "verdict"),
    [(9, 0.5, 1.7, "met"), (9, 0.5, 2.1, "missed"), (9, 1.0, 1.7, "neither"), (8, 0.5, 1.7, "neither")],
)
def test_a_claim_is_judged_by_the_median_of_enough_rounds_on_a_quiet_machine(rounds, load, target, verdict):
    common = pytest.importorskip("common")
    ours, theirs = [1.0] * rounds, [2.0] * (rounds - 1) + [0.5]
    found = common.ratio("case", "peer", ours, theirs, target, load)
    assert (found["median"], found["worst"]) == (2.0, 0.5)
    assert found["verdict"].startswith(verdict)


def test_a_row_holds_the_median_the_99th_percentile_and_the_worst():
    common = pytest.importorskip("common")
    row = common.row("bench", "case", "ours", "ms", [float(n) for n in range(200, 0, -1)])
    assert (row["p50"], row["p99"], row["max"]) == (100.5, 198.0, 200.0)


def test_the_explorer_and_the_search_by_hand_agree(tmp_path):
    output = run_quick("explorer", "--out", str(tmp_path))
    assert "both find the early credit, and nothing else" in output
    report = json.loads((tmp_path / "explorer.json").read_text())
    assert [row["what"] for row in report["rows"]] == ["ours", "by hand"] * 4
    states = {}
    for row in report["rows"]:
        states.setdefault(row["what"], []).append(int(row["case"].split()[-2]))
    for few, many in (states["ours"][:2], states["ours"][2:]):
        assert 0 < many - few <= 4 * 3 * 2 * 1.5  # two moves a word and epoch
    assert states["by hand"][1::2] == [3045, 1539]


def test_virtual_time_gives_right_results_and_the_times_of_closed_forms(tmp_path):
    output = run_quick("simulator", "--out", str(tmp_path))
    assert "all results are right" in output
    rows = json.loads((tmp_path / "simulator.json").read_text())["rows"]
    assert {row["unit"] for row in rows} == {"events/s", "ms"}
    assert all(row["what"] in ("ours", "usual order") for row in rows)


def test_recorded_programs_are_right_and_do_not_race(tmp_path):
    """In CI an example and a loop: the other example is recorded in tests/sanitize, the other loop only loads."""
    cases = ("heat", "sort", "loop", "puts") if FULL else ("heat", "puts")
    output = run_quick("sanitizer", "--pes", "2", "--cases", ",".join(cases), "--out", str(tmp_path))
    assert "all results are right" in output
    rows = json.loads((tmp_path / "sanitizer.json").read_text())["rows"]
    assert {(row["case"], row["what"]) for row in rows} == {
        (case, what) for case in cases for what in ("plain", "recorded")
    }


def test_nic_quick(tmp_path: Path) -> None:
    output = run_quick("nic", "--out", str(tmp_path))
    rows = json.loads((tmp_path / "nic.json").read_text())["rows"]
    cases = ["put 8 B and quiet, 2 PEs", "put 16 MiB, 2 PEs", "a WQE of 256, 2 PEs"]
    assert [row["case"] for row in rows if row["what"] == "ours"][:3] == cases
    assert all(row["p50"] > 0 for row in rows)
    assert "rate a core, 8 PEs" in output
