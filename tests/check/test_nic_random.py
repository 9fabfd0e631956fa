"""Random programs with queue pairs: both searches find the same ends, on programs small enough for the slow one."""

from __future__ import annotations

import random

import pytest

from tests.launcher.cells import FULL

from .nic_programs import PROFILES, Drawn, compared, drawn, ends

SEEDS = {  # of programs with several ends; others as soon as there are other operations to draw from
    40186: "rc_strict", 42183: "udma", 43753: "srd", 47720: "openshmem", 48253: "lost_ack", 49890: "lost_doorbell",
    50687: "suspend", 53049: "go_on", 52113: "strict_suspend", 55468: "repeat",
}  # fmt: skip
NAMES = list(PROFILES)
MORE = {seed: NAMES[seed % len(NAMES)] for seed in range(150 if FULL else 0)}


@pytest.mark.parametrize("seed", {**SEEDS, **MORE})
def test_both_searches_find_the_same_ends(seed: int) -> None:
    same = compared(drawn(random.Random(f"nic {seed}")), PROFILES[{**SEEDS, **MORE}[seed]], 300)
    assert same or seed in MORE


def test_a_doorbell_may_arrive_when_all_is_flushed() -> None:
    twice_bad = Drawn(((("bad", 0, 1), ("bad", 0, 0)), ()), retry=7)
    assert compared(twice_bad, PROFILES["lost_doorbell"], 300)


def test_a_segment_that_ends_under_a_suspended_queue_pair() -> None:
    """What each sends may come before the other ends the segment, and before its own queue pair stops."""
    made = Drawn(((("many", 0, 0), ("close", 1, 1)), (("write", 0, 1), ("close", 1, 0))), cq=2, apart=True, depth=4)
    found = ends(made, PROFILES["suspend"], "exhaustive", 100)
    assert found.complete
    assert {each.kind for each in found.outcomes} == {"", "exception"}
    assert len(found.outcomes) == 4
