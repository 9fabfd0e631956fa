"""A litmus test on this machine: many runs as real processes, against what the search allows under a profile.

A run that the search does not have is a defect of the library, of the profile or of the machine. The converse says
nothing: an outcome may be allowed and never be seen.
"""

from __future__ import annotations

import json
import pickle
import platform
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...delivery.profiles import Profile, profile, varied
from ...errors import ArgumentError, CheckError
from .model import WORD, Layout, Outcome
from .syntax import Test
from .verdict import Judgement, judge

JOB = "shmem.check.litmus.hardware_job"
TIMEOUT_S = 300.0

# By PE: its registers, and its symmetric words, each an array. Locks are left out: what is in them is the library's.
End = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Observed:
    """What many runs of a test have shown. `strange`: ends that the search under the profile does not have."""

    test: Test
    judged: Judgement
    ends: Counter[End]
    strange: tuple[End, ...]

    @property
    def right(self) -> bool:
        """Whether all that was seen is allowed."""
        return not self.strange


def usual_profile() -> Profile:
    """What the fabric `direct` promises here: an ordered machine, or words in any order."""
    ordered = platform.machine() in ("x86_64", "AMD64")
    return profile("tso") if ordered else varied("openshmem", unit=WORD)


def refusal(test: Test) -> str:
    """Why a test can't be run as processes, as a sentence; "" where it can."""
    from .as_program import missing

    problem = missing(test)
    if not problem and test.asks_blocked:
        problem = "it asks whether a PE waits for ever"
    return problem and f"{test.name} can't be run on hardware: {problem}"


def observe(test: Test, times: int, which: str | Profile | None = None, seed: int = 0) -> Observed:
    """Runs a test `times` times in one job on `direct`. Raises ArgumentError for a test that can't be run, CheckError
    where the job or the search did not end."""
    if problem := refusal(test):
        raise ArgumentError(problem)
    chosen = usual_profile() if which is None else profile(which)
    judged = judge(test, chosen)
    if judged.problem or not judged.complete:
        raise CheckError(f"{test.name} under {chosen.name}: {judged.problem or 'the search is not complete'}")
    ends = _runs(test, times, seed)
    allowed = allowed_ends(judged, chosen)
    return Observed(test, judged, ends, tuple(end for end in ends if end not in allowed))


def allowed_ends(judged: Judgement, chosen: Profile) -> set[End]:
    """The ends that a search has found, as runs tell them."""
    layout = Layout(judged.test, int(judged.test.settings.get("placement", chosen.unit)))
    return {_end_of(judged.test, layout, end) for end in judged.outcomes}


def _end_of(test: Test, layout: Layout, end: Outcome) -> End:
    from .as_program import locks

    names = [name for name in test.symmetric if name not in locks(test)]

    def words(pe: int, name: str) -> tuple[int, ...]:
        at, (count, _) = layout.symmetric[name], test.symmetric[name]
        heap = end.heaps[pe]
        return tuple(int.from_bytes(heap[at + i * WORD : at + (i + 1) * WORD], "little") for i in range(count))

    return tuple(
        (tuple(item for item in registers if item[0][0] != "."), tuple(words(pe, name) for name in names))
        for pe, registers in enumerate(end.registers)
    )


def _runs(test: Test, times: int, seed: int) -> Counter[End]:
    """The ends of all runs of one job."""
    from ...launch import run_job

    with tempfile.TemporaryDirectory(prefix="shmemu-litmus-") as name:
        folder = Path(name)
        (folder / "test").write_bytes(pickle.dumps((test, times, seed)))
        env = {"SHMEMU_FABRIC": "direct", "SHMEMU_HEAP_SIZE": "1M"}
        code = run_job(test.pes, ["-m", JOB, name], timeout=TIMEOUT_S, env=env, progress=False)
        if code:
            raise CheckError(f"{test.name}: the job ended with exit code {code}")
        seen = [json.loads((folder / str(pe)).read_text(encoding="utf-8")) for pe in range(test.pes)]
    return Counter(tuple(_frozen(each) for each in run) for run in zip(*seen, strict=True))


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def told(test: Test, end: End) -> str:
    """An end on one line: the registers, and the symmetric words that are not as they were at first."""
    from .as_program import locks

    names = [name for name in test.symmetric if name not in locks(test)]
    parts = [f"{pe}:{name}={value}" for pe, (registers, _) in enumerate(end) for name, value in registers]
    for pe, (_, words) in enumerate(end):
        for name, values in zip(names, words, strict=True):
            count, first = test.symmetric[name]
            if values != (first,) * count:
                parts.append(f"{name}@{pe}={','.join(map(str, values))}")
    return " ".join(parts) or "-"
