"""Under a clock a program ends in a way that the search finds too: time chooses among what the profile permits.

Random litmus programs, with calls of `shmem` and with queue pairs; their ends under a profile come from the litmus
language's own search, which knows no time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shmem.check.litmus.language import parse
from shmem.check.litmus.model import Impossible
from shmem.check.litmus.syntax import Test
from shmem.delivery.model import Link, Model
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.fabric.sim import Program

from . import as_program, as_requests
from .as_program import Watched
from .programs import request_program, shmem_program
from .test_sim import FULL, SETTINGS, ends_as_data

SEEDS = 60 if FULL else 8
# What is fast in one is slow in the other, so that they differ in what comes first.
MODELS = (
    Model("far", {"network": Link(2.0, 0.1, 0.5, 0.1)}, receive_us=0.1),
    Model("slow processor", {"self": Link(), "network": Link(0.0, 1.0)}, access_us=1.0),
    Model("nothing takes time", {"network": Link()}),
)
PROFILES = (
    *NAMED.values(), varied("rc_strict", repeat=True), varied("rc_strict", reader="lazy"),
    varied("udma", on_error="suspend"), varied("rc_relaxed", lost_doorbell=True), varied("udma", lost_ack=True),
)  # fmt: skip


def end_by_clock(test: Test, profile: Profile, body: Callable[..., Any], model: Model, ties: int | None) -> Any:
    """How a test ends in virtual time."""
    jobs: list[Watched] = []
    main = body(lambda: jobs[-1], test)
    program = Program(main, test.pes, profile, SETTINGS, clock=model, ties=ties)
    job = Watched.__new__(Watched)
    jobs.append(job)
    job.__init__(program, test)  # type: ignore[misc]
    assert job.clock is not None
    job.clock.run()
    assert not job.clock.network.unforeseen
    end = job.outcome()
    job.close()
    return end


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    ("write", "body"),
    [(shmem_program, as_program.body), (request_program, as_requests.body)],
    ids=["contexts", "queue pairs"],
)
def test_an_end_by_the_clock_is_an_end(write: Callable[..., str], body: Any, profile: Profile) -> None:
    profile, compared = replace(profile, unit=8), 0
    for seed in range(SEEDS):
        [test] = parse(text := write(random.Random(f"clock {seed}")))
        try:
            ends = ends_as_data(test, profile)
        except Impossible:  # an atomic of the adapter, where there is none
            continue
        for model in MODELS if ends else ():
            for ties in (None, 1, 2):
                end = end_by_clock(test, profile, body, model, ties)
                assert end in ends, f"seed {seed}, {model.name}, ties {ties}:\n{text}{end}"
                compared += 1
    assert compared >= SEEDS
