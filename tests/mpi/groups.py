"""Teams for the tests of collectives, which destroy them, and what else those share."""

from __future__ import annotations

import numpy as np

import shmem
from shmem.teams import Team

from .data import Array

# bytes: none, one, odd, about what small collectives share out (at any number of PEs), what goes in one piece, more
SIZES = [0, 1, 7, 511, 513, 2047, 2048, 2049, 4097, 8192, 8193, 32767, 32768, 32769, 65537, 200001]


def backwards() -> Team:
    """All PEs, the last first."""
    return shmem.TEAM_WORLD.split_strided(shmem.n_pes() - 1, -1)


def mine() -> Team:
    """The team of this PE among two that share all PEs out, every second one each."""
    halves = [shmem.TEAM_WORLD.split_strided(first, 2) for first in range(min(2, shmem.n_pes()))]
    return halves[shmem.my_pe() % 2]


def alone() -> Team:
    """This PE only."""
    return [shmem.team_from_pes([pe]) for pe in range(shmem.n_pes())][shmem.my_pe()]


TEAMS = {"world": lambda: shmem.TEAM_WORLD, "backwards": backwards, "halves": mine, "alone": alone}


def busy(round_: int) -> None:
    """One PE after the other has something else to do."""
    if round_ % shmem.n_pes() == shmem.my_pe():
        np.sort(np.random.default_rng(round_).random(3000))


def new(values: Array) -> Array:
    """A symmetric array with these values; no barrier behind it."""
    made = shmem.empty(values.shape, values.dtype)
    made[...] = values
    return made


def free(*arrays: Array) -> None:
    """Frees symmetric arrays."""
    for array in arrays:
        shmem.free(array)
