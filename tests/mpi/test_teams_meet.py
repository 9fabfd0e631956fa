"""Members of a team meet by themselves: barriers, batches and collectives of teams, and who is told to be missing."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.barriers import missing
from shmem.fabric.interface import Members
from shmem.runtime import current

from .data import everyone
from .team_checks import check

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("no_team_left")]


def test_teams_of_one_and_disjoint_teams_meet_by_themselves(board):
    n, me = shmem.n_pes(), shmem.my_pe()
    alone = [shmem.team_from_pes([pe]) for pe in range(n)]
    halves = [shmem.TEAM_WORLD.split_strided(first, 2) for first in range(min(2, n))]
    for _ in range(20 * (me + 1)):
        alone[me].sync()
        shmem.barrier(alone[me])
    for _ in range(50):  # both have the same slot, and their barriers are two
        halves[me % 2].sync()
    assert set(everyone((alone[me].slot, halves[me % 2].slot))) == {(2, 3)}
    check(halves[me % 2], list(range(me % 2, n, 2)), board)
    alone[me].destroy()
    halves[me % 2].destroy()


@pytest.mark.core
def test_collectives_of_teams_that_come_and_go(board):
    """Whatever a slot's last team left behind, the next one's results are its own."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source, rng = shmem.zeros(1, np.int64), np.random.default_rng(3)
    for round_ in range(30):
        pes = rng.permutation(n)[: rng.integers(1, n + 1)].tolist()
        with shmem.team_from_pes(pes) as team:
            for again in range(round_ % 4 if team else 0):
                source[0] = 1000 * round_ + 100 * again + me
                shmem.fcollect(board, source, team=team)
                assert board[: len(pes)].tolist() == [1000 * round_ + 100 * again + pe for pe in pes]
                shmem.sum_reduce(board, source, 1, team)
                assert board[0] == sum(1000 * round_ + 100 * again + pe for pe in pes)
    shmem.barrier_all()
    shmem.free(source)


@pytest.mark.core
def test_a_barrier_of_a_team_completes_and_waits_for_its_members(board):
    n, me = shmem.n_pes(), shmem.my_pe()
    team = shmem.TEAM_WORLD.split_strided(n - 1, -2)
    if team:
        pes = team.pes
        for round_ in range(1, 30):
            after = pes[(team.my_pe() + 1) % len(pes)]
            shmem.put_nbi(board[:1], np.array([round_ * 100 + me]), after)
            shmem.barrier(team)
            assert board[0] == round_ * 100 + pes[team.my_pe() - 1]
            shmem.team_sync(team)
    team.destroy()


def test_a_batch_meets_on_a_team(board):
    n, me = shmem.n_pes(), shmem.my_pe()
    team = shmem.TEAM_WORLD.split_strided(0, 2)
    batch = shmem.Batch()
    if team:
        after = team.pes[(team.my_pe() + 1) % team.n_pes()]
        batch.put(board[:1], np.array([me + 1]), after)
        batch.barrier(team=team)
        batch.run()
        assert board[0] == team.pes[team.my_pe() - 1] + 1
        with shmem.Stream() as stream:
            batch.launch(stream)
    team.destroy()
    if me % 2 == 0:
        with pytest.raises(shmem.TeamError, match="destroyed Team"):
            batch.run()
    assert n == len(board)


@pytest.mark.mpi(min_size=2)
def test_who_is_missing_is_known_though_the_slot_was_another_teams(fresh_heap):
    n, me = shmem.n_pes(), shmem.my_pe()
    told = shmem.zeros(1, np.uint64)
    with shmem.team_from_pes([0]) as alone:
        for _ in range(5 if alone else 0):
            alone.sync()
    team = shmem.TEAM_WORLD.split_strided(n - 1, -1)
    if me == 0:
        shmem.signal_wait_until(told, "==", n - 1)
    else:
        with pytest.raises(shmem.ShmemTimeout, match=r"no arrival of PE 0$"):
            team.sync(timeout=0.05)
        shmem.signal_add(told, 1, 0)
    team.sync()
    team.destroy()
    shmem.free(told)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("first", ["all", "team"])
def test_pes_in_barriers_of_different_teams_are_told_of_each_other(first):
    """PE 0 comes to one barrier, the others to one of another team of the same PEs: the texts say who is where."""
    n, me, pe = shmem.n_pes(), shmem.my_pe(), current()
    team = shmem.TEAM_WORLD.split_strided()
    one = shmem.barrier_all, 0, "all PEs in barrier_all()", "TEAM_WORLD"
    two = team.sync, team.slot, f"all PEs of {team!r} in sync()", repr(team)
    theirs, mine = (one, two) if first == "all" else (two, one)  # of the others, of PE 0
    before = pe.fabric.entered(0, theirs[1])
    while me == 0 and any(pe.fabric.entered(other, theirs[1]) == before for other in range(1, n)):
        shmem.spin()
    own, elsewhere = (mine, theirs) if me == 0 else (theirs, mine)
    with pytest.raises(shmem.ShmemTimeout) as caught:
        own[0](timeout=0.01)
    assert caught.value.awaited == own[2]
    everyone("has given up")
    absent = range(1, n) if me == 0 else [0]
    listed = ", ".join(f"{other} (which has come to a barrier of {elsewhere[3]})" for other in absent)
    assert missing(pe, Members(own[1], team.pes)) == f"no arrival of PE {listed}"
    assert me or caught.value.seen == f"no arrival of PE {listed}"
    everyone("has looked")
    theirs[0]()
    mine[0]()
    team.destroy()


@pytest.mark.mpi(min_size=2)
def test_a_split_that_timed_out_goes_on():
    n, me = shmem.n_pes(), shmem.my_pe()
    told = shmem.zeros(1, np.uint64)
    if me == 0:
        shmem.signal_wait_until(told, "==", n - 1)
    else:
        with pytest.raises(shmem.ShmemTimeout, match=r"all PEs in team_split_strided.*no arrival of PE 0$"):
            shmem.TEAM_WORLD.split_strided(timeout=0.05)
        shmem.signal_add(told, 1, 0)
    team = shmem.TEAM_WORLD.split_strided()
    assert (team.slot, team.n_pes()) == (2, n)
    team.destroy()
    shmem.free(told)
