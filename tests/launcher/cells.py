"""The cells: on which fabric, with how many PEs, and with which tests.

One resident job runs per cell. `all` takes every test, `core` those marked `core` (each routine once, with one dtype).
`SHMEMU_TEST_CELLS` chooses: names and patterns separated by commas (`direct-4,direct-2`, `direct-*`), or
`full` for every test in every cell. `SHMEMU_TEST_SEED=S` replaces the table by that of `seeded`: cells of `nic`, whose
adapters draw by the seed S, each with every test (tests/fuzz_suite.py goes through seeds). A test that needs more PEs
says `@pytest.mark.mpi(min_size=2)`, one that is dear and learns nothing from more of them `max_size`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from shmem import config, launch
from shmem.delivery.profiles import profile as named

# What every cell sets, so that a test sees the same limits on every machine.
COMMON = {"SHMEMU_TIMEOUT_S": "20", "SHMEMU_HEAP_SIZE": "64M", "SHMEMU_POISON": "1"}
CHOICE, SEED = "SHMEMU_TEST_CELLS", "SHMEMU_TEST_SEED"
FULL = os.environ.get(CHOICE, "").strip() == "full"  # bounds are deep, too
ANY_SIZE = range(1, 1 << 16)


@dataclass(frozen=True)
class Cell:
    """One row and column of the table: `env` is what its ranks find in their environment besides COMMON."""

    fabric: str
    pes: int
    tests: str = "all"
    env: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        return f"{self.fabric}-{self.pes}"

    @property
    def gives(self) -> frozenset[str]:
        """What a test can need of a fabric: `direct` itself, the order of a delivery profile, `words` of 8 bytes
        that are placed whole, or queue pairs."""
        profile = self.fabric.partition("-")[2]
        if not profile:
            return frozenset({"direct", "tso", "words"})
        return frozenset({profile, "queue pairs", *(["words"] if named(profile).unit >= 8 else [])})

    def takes(self, markers: Iterable[str], sizes: Container[int] = ANY_SIZE, needs: Iterable[str] = ()) -> bool:
        """Whether a test with these markers, for jobs of these sizes, runs here."""
        return self.pes in sizes and (self.tests == "all" or "core" in markers) and self.gives >= set(needs)

    def environment(self) -> dict[str, str]:
        return {**COMMON, "SHMEMU_FABRIC": self.fabric.partition("-")[0], **self.env}


def _row(fabric: str, tests: Mapping[int, str], **env: str) -> tuple[Cell, ...]:
    return tuple(Cell(fabric, pes, which, env) for pes, which in tests.items())


def _nic(profile: str, tests: Mapping[int, str], seed: int = 1) -> tuple[Cell, ...]:
    """The cells of a delivery profile. With a seed, every delivery that it leaves open is drawn."""
    return _row(f"nic-{profile}", tests, SHMEMU_PROFILE=profile, SHMEMU_SEED=str(seed))


def seeded(seed: int) -> tuple[Cell, ...]:
    """Cells of three profiles with 2, 3 and 4 PEs each, neighbours of unlike profiles and sizes; all tests in each."""
    profiles, sizes = ("openshmem", "rc_strict", "udma"), (2, 3, 4)
    turns = [(profile, sizes[(turn + i) % 3]) for turn in range(3) for i, profile in enumerate(profiles)]
    return tuple(cell for profile, pes in turns for cell in _nic(profile, {pes: "all"}, seed))


# By the MPI of this environment: `make test` runs the suite in that of MPICH, then the jobs in that of Open MPI.
TABLES: dict[str, tuple[Cell, ...]] = {
    "mpich": (
        *_row("direct", {1: "all", 2: "all", 3: "all", 4: "all", 8: "all"}),
        *_nic("openshmem", {2: "core", 3: "core"}),
        *_nic("rc_strict", {4: "core"}),
        *_nic("udma", {2: "core"}),
    ),
    "openmpi": _row("direct", {1: "core", 2: "all", 3: "core", 4: "core", 8: "core"}),
}


def table() -> tuple[Cell, ...]:
    """The cells of the MPI that jobs are started with here, or those of SHMEMU_TEST_SEED."""
    seed = config.read(warn=False).test_seed
    return TABLES[launch.find().kind] if seed is None else seeded(seed)


def chosen(text: str | None = None) -> list[Cell]:
    """The cells that `text` (default: SHMEMU_TEST_CELLS) asks for; ValueError names what is no cell."""
    text = os.environ.get(CHOICE, "") if text is None else text
    patterns = [word.strip() for word in text.split(",") if word.strip()]
    if not patterns:
        return list(table())
    if patterns == ["full"]:
        return [replace(cell, tests="all") for cell in table()]
    for pattern in patterns:
        if not matching(table(), [pattern]):
            known = ", ".join(cell.name for cell in table())
            raise ValueError(f"{CHOICE}={text}: no cell is called {pattern!r}; there are {known}, or full")
    return matching(table(), patterns)


def matching(cells: Iterable[Cell], patterns: Collection[str]) -> list[Cell]:
    """The cells of these names and patterns, in their order."""
    return [cell for cell in cells if any(fnmatchcase(cell.name, pattern) for pattern in patterns)]


def of_size(pes: int) -> Cell:
    """The cell of a job that somebody else started (`mpiexec -n 4 python -m pytest --with-mpi`)."""
    return Cell(os.environ.get("SHMEMU_FABRIC", "direct"), pes)
