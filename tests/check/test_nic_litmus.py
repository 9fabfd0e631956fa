"""Queue pairs on `sim` against the litmus language: the same statements as calls of `shmem.nic` have the same ends."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from shmem.check.litmus.language import parse, read
from shmem.check.litmus.model import Impossible
from shmem.check.litmus.syntax import Test
from shmem.delivery.profiles import NAMED, Profile, varied

from . import as_requests
from .programs import request_program
from .test_reductions import profile_for
from .test_sim import FULL, ends_as_data, ends_as_program

FILES = sorted((Path(__file__).parents[1] / "litmus").glob("*/*.litmus"))
CASES = [
    (test, name) for path in FILES for test in read(path) for name in test.verdicts
    if any(each.verb in as_requests.REQUESTS for statements in test.programs.values() for each in statements)
]  # fmt: skip
SEEDS = 80 if FULL else 8


def compare(test: Test, profile: Profile) -> bool:
    """Whether the ends of both were found; they are the same."""
    wanted = ends_as_data(test, profile)
    found = ends_as_program(test, profile, as_requests.body) if wanted is not None else None
    assert found is None or found == wanted
    return found is not None


@pytest.mark.parametrize(("test", "name"), CASES, ids=[f"{test.name}-{name}" for test, name in CASES])
def test_requests_have_the_ends_of_the_files(test: Test, name: str) -> None:
    profile = profile_for(test, name)
    assert compare(test, replace(profile, units=str(test.settings.get("units", profile.units))))


KNOBS = {
    "lost_ack": varied("rc_relaxed", lost_ack=True), "lost_doorbell": varied("udma", lost_doorbell=True),
    "suspend": varied("udma", on_error="suspend"), "go_on": varied("udma", on_error="go_on"),
    "lazy": varied("rc_strict", reader="lazy"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*sorted(NAMED), *KNOBS])
def test_requests_have_the_ends_of_random_tests(name: str) -> None:
    profile = replace(NAMED.get(name) or KNOBS[name], unit=8)
    compared = 0
    for seed in range(SEEDS):
        [test] = parse(text := request_program(random.Random(f"{seed}"), order=seed % 2 == 1))
        try:
            compared += compare(test, profile)
        except Impossible:  # an atomic of the adapter, where there is none
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed} under {profile.name}:\n{text}") from error
    assert compared >= SEEDS // 2


REACHED = {
    "quiet": "P0: write x@1 = 1; quiet; tell 1\nP1: hear 0; r = x",
    "pe_quiet": "P0: write x@1 = 1; pe_quiet 1; tell 1\nP1: hear 0; r = x",
    "barrier": "P0: write x@1 = 1; barrier_all\nP1: barrier_all; r = x",
    "fence": "P0: write x@1 = 1; fence; write y@1 = 1 {qp=2}\nP1: wait y == 1; r = x",
    "fence of a put": "P0: write x@1 = 1; fence; put_nbi y@1 = 1\nP1: wait y == 1; r = x",
    "unrung": "P0: write x@1 = 1 {nodb}; quiet; doorbell 1; tell 1\nP1: hear 0; r = x",
    "nothing": "P0: write x@1 = 1; write y@1 = 1 {qp=2}\nP1: wait y == 1; r = x",
}


@pytest.mark.parametrize("what", REACHED)
@pytest.mark.parametrize("profile", ["rc_strict", "udma", "udma_engine_scoped"])
def test_the_language_says_the_same(what: str, profile: str) -> None:
    [test] = parse(f'test R "reach"\ninit x = 0, y = 0\n{REACHED[what]}\nverdict udma clean\n')
    chosen = varied(profile, unit=8)
    found = ends_as_data(test, chosen)
    assert found is not None
    weak = what in ("unrung", "nothing") or (NAMED[profile].engine_scoped and what != "pe_quiet")
    assert {dict(registers[1])["r"] for registers, _ in found} == ({0, 1} if weak else {1})
    if "barrier" not in what:  # the program has another one at its start
        assert compare(test, chosen)
