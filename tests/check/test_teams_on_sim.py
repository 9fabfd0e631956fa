"""Teams on `sim`."""

from __future__ import annotations

import pytest

import shmem

N = 4
FIRST = (0, 1, 2)  # leaves its slot to the next one


def successors(later: tuple[int, ...]) -> list[int]:
    """Two teams with one leader, one after the other in the same slot."""
    me, met = shmem.my_pe(), []
    for pes in (FIRST, later, FIRST):
        team = shmem.team_from_pes(list(pes))
        for _ in range(3):
            if me in pes:
                shmem.team_sync(team)
                met.append(pes.index(me))
        if me in pes:
            shmem.team_destroy(team)
        shmem.barrier_all()
    return met


@pytest.mark.parametrize("later", [(0, 3), (0, 3, 1), (0, 1, 2, 3), (0,)])
@pytest.mark.parametrize("clock", [None, "cluster"])
def test_a_team_does_not_count_the_barriers_of_the_one_before_it(later: tuple[int, ...], clock: str | None) -> None:
    found = shmem.run(lambda: successors(later), N, clock=clock)
    teams = (FIRST, later, FIRST)
    assert found == [[pes.index(pe) for pes in teams if pe in pes for _ in range(3)] for pe in range(N)]
