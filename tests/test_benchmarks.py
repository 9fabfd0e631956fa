"""Each benchmark runs with `--quick`: small sizes, its own check of correctness, no claims about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
