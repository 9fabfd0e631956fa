"""What the tests of teams share: parts of a list by an explicit loop, and whether a team is what it should be.

A team that exists is used: its members write to each other on a context of the team, and meet.
"""

from __future__ import annotations

import shmem
from shmem.runtime import current

PREDEFINED = 2  # WORLD and SHARED


def strided(pes, start, stride, size):
    """The part (start, stride, size) of a list, None if there is none."""
    found, at = [], start
    for _ in range(size):
        if not 0 <= at < len(pes) or pes[at] in found:
            return None
        found.append(pes[at])
        at += stride
    return found or None


def check(team, pes, board):
    """That a team is the list of PEs `pes`, at this PE: numbers, translation, puts between all members, barrier."""
    me, n = shmem.my_pe(), shmem.n_pes()
    if me not in pes:
        assert team == shmem.TEAM_INVALID
        assert not team
        return
    assert (team.pes, team.n_pes(), team.my_pe()) == (tuple(pes), len(pes), pes.index(me))
    for number, pe in enumerate(pes):
        assert team.translate_pe(number) == pe
    for pe in range(n):
        assert shmem.team_translate_pe(shmem.TEAM_WORLD, pe, team) == (pes.index(pe) if pe in pes else -1)
    board[:] = -1
    team.sync()
    with team.create_ctx() as ctx:
        for number in range(len(pes)):
            shmem.p(board[team.my_pe() : team.my_pe() + 1], 1000 * team.my_pe() + number, number, ctx)
        ctx.quiet()
    shmem.barrier(team)
    assert board.tolist() == [1000 * i + team.my_pe() for i in range(len(pes))] + [-1] * (n - len(pes))
    team.sync()


def slots_free():
    """How many slots no team of this PE has."""
    return current().slots.free.bit_count()
