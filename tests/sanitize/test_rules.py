"""Each rule of the race detector by its programs, as real jobs: one run gives the verdicts of a search on `sim`.

Left out are races that show only in some executions, profiles of other networks, what threads of a PE do, which count
as one here, the fence of a strided put_signal, which is taken for the program's, and what a collective does in place to
arrays of other PEs.
"""

from __future__ import annotations

import re

import pytest

from shmem.check.races.accesses import Race
from shmem.sanitize.judging import judged, runs
from tests.check import race_edges as race_edges
from tests.check import race_no_edges as race_no_edges
from tests.check.race_programs import CASES, Case, text_of
from tests.launcher.cells import FULL

from .jobs import PROGRAMS, recorded

ELSEWHERE = ("udma_engine_scoped",)
OTHERWISE = ("a-worker-s", "a-strided-put_signal-covers-nothing", "-of-large-arrays")
Key = tuple[str, str]


def _sides(pes: int) -> dict[Key, tuple[str, list[int]]]:
    """The text of each program that one run is enough for, and its marked lines."""
    found: dict[Key, tuple[str, list[int]]] = {}
    for case in CASES:
        if case.pes == pes and case.profile not in ELSEWHERE and not any(each in case.name for each in OTHERWISE):
            for side, lines in (("racy", case.racy if case.always else None), ("clean", case.clean)):
                if lines is not None and "nic." not in (made := text_of(lines, pes))[0]:  # queue pairs are on `sim`
                    found[case.name, side] = made
    return found


def _jobs() -> list[tuple[str, int]]:
    """Fabrics, on `nic` by their profiles, and PEs."""
    some = [("direct", 2), ("direct", 3), ("rc_strict", 2)]
    return [(fabric, n) for fabric in ("direct", "rc_strict", "openshmem", "udma") for n in (2, 3)] if FULL else some


@pytest.fixture(scope="module", params=_jobs(), ids=lambda job: "-".join(map(str, job)))
def streams(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """One job of all programs; where in its streams each is."""
    fabric, pes = request.param
    folder = tmp_path_factory.mktemp("rules")
    sides = _sides(pes)
    if fabric == "openshmem":  # lines of LL whose bytes come one by one may never be whole
        sides = {key: made for key, made in sides.items() if "poll_lines" not in made[0]}
    for i, (text, _) in enumerate(sides.values()):
        (folder / f"p{i}.py").write_text(text)
    programs = [folder / f"p{i}.py" for i in range(len(sides))]
    on_nic = {"SHMEMU_FABRIC": "nic", "SHMEMU_PROFILE": fabric, "SHMEMU_SEED": "1"}
    done = recorded(folder, pes, PROGRAMS / "race_cases.py", *programs, **(on_nic if fabric != "direct" else {}))
    assert done.code == 0, done.err
    found = runs(str(folder))
    assert len(found) == len(sides)
    return {"runs": dict(zip(sides, found, strict=True)), "sides": sides}


def _lines(races: list[Race]) -> set[tuple[int, ...]]:
    return {tuple(sorted(int(re.findall(r":(\d+)$", made.where)[0]) for made in race.ends)) for race in races}


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_one_run_gives_the_verdicts_of_the_search(streams: dict, mode: str) -> None:
    cases: dict[str, Case] = {case.name: case for case in CASES}
    wrong = []
    for (name, side), readers in streams["runs"].items():
        case, (_, marked) = cases[name], streams["sides"][name, side]
        verdict = judged(readers, mode)
        assert not verdict.cut
        racy = side == "racy" and mode in case.modes
        if side == "clean" and mode not in case.clean_in:
            continue
        wanted = {tuple(sorted((marked[0], other))) for other in marked[1:]} if racy else set()
        told = [race.why for race in verdict.races]
        if _lines(verdict.races) != wanted or (racy and case.why and not any(case.why in why for why in told)):
            wrong.append((name, side, wanted, [str(race) for race in verdict.races], streams["sides"][name, side][0]))
    text = "\n\n".join("\n".join(map(str, each)) for each in wrong)
    assert not wrong, f"{len(wrong)} of {len(streams['runs'])}:\n{text}"
    assert len(streams["runs"]) > 60, "all rules for this number of PEs"
