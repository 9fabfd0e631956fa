"""Teams: those that always exist, what handles are and what may be asked of them, and how a team ends.

`test_teams_split` makes them, in `test_teams_meet` their members do.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import shmem
from shmem import teams

from .team_checks import check

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("no_team_left")]


# ---- the teams that always exist


@pytest.mark.core
def test_the_world_is_all_pes_in_order(board):
    world = shmem.TEAM_WORLD
    check(world, list(range(shmem.n_pes())), board)
    assert (shmem.team_my_pe(world), shmem.team_n_pes(world)) == (shmem.my_pe(), shmem.n_pes())
    assert shmem.team_get_config(world) == {"num_contexts": 0}
    assert (bool(world), repr(world)) == (True, "TEAM_WORLD")


@pytest.mark.core
def test_all_pes_of_one_host_share_it(board):
    check(shmem.TEAM_SHARED, list(range(shmem.n_pes())), board)
    assert repr(shmem.TEAM_SHARED) == "TEAM_SHARED"
    assert shmem.TEAM_SHARED != shmem.TEAM_WORLD


def test_no_team_means_the_world():
    assert teams.resolve(None) is shmem.TEAM_WORLD
    assert teams.resolve(shmem.TEAM_WORLD) is shmem.TEAM_WORLD


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda team: pickle.loads(pickle.dumps(team)), shmem.Team])
def test_handles_of_one_team_are_equal(again):
    new = shmem.TEAM_WORLD.split_strided()
    for team in (shmem.TEAM_WORLD, shmem.TEAM_SHARED, shmem.TEAM_INVALID, new):
        handle = again(team)
        assert handle == team
        assert hash(handle) == hash(team)
        assert bool(handle) == bool(team)
    assert again(new).pes == new.pes
    assert len({shmem.TEAM_WORLD, shmem.TEAM_SHARED, new, again(new)}) == 3
    assert new not in (shmem.TEAM_WORLD, shmem.TEAM_INVALID, 2)
    handle = again(new)
    new.destroy()
    assert not handle
    assert handle == new == shmem.TEAM_INVALID == shmem.Team()


def test_predefined_teams_can_not_be_destroyed():
    for team in (shmem.TEAM_WORLD, shmem.TEAM_SHARED):
        with team as same:
            assert same is team
        team.destroy()
        shmem.team_destroy(team)
        assert team
        handle = shmem.Team(team)
        handle.destroy()  # the handle goes, the team stays
        assert not handle
        team.sync()
    shmem.TEAM_INVALID.destroy()
    shmem.team_destroy(shmem.TEAM_INVALID)


ASKS = {
    "pes": lambda team: team.pes,
    "slot": lambda team: team.slot,
    "my_pe": shmem.team_my_pe,
    "n_pes": shmem.team_n_pes,
    "config": shmem.team_get_config,
    "translate": lambda team: shmem.team_translate_pe(team, 0, shmem.TEAM_WORLD),
    "translate to": lambda team: shmem.TEAM_WORLD.translate_pe(0, team),
    "split_strided": lambda team: team.split_strided(),
    "split_2d": lambda team: shmem.team_split_2d(team, 1),
    "create_ctx": shmem.team_create_ctx,
    "sync": shmem.team_sync,
    "barrier": shmem.barrier,
    "batch": lambda team: shmem.Batch().barrier(team=team),
    "resolve": teams.resolve,
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_invalid_and_destroyed_teams_refuse_every_question(ask):
    gone = shmem.TEAM_WORLD.split_strided()
    gone.destroy()
    for team, text in ((shmem.TEAM_INVALID, "TEAM_INVALID"), (gone, "destroyed Team 2 of PEs 0")):
        with pytest.raises(RuntimeError, match=text) as caught:
            ask(team)
        assert isinstance(caught.value, shmem.TeamError)
        assert caught.value.pe == shmem.my_pe()


@pytest.mark.parametrize("wrong", [0, "world", (0, 1)])
def test_what_is_no_team_is_refused(wrong):
    with pytest.raises(TypeError, match="is not a team"):
        shmem.Team(wrong)
    for call in (teams.resolve, shmem.team_my_pe, shmem.team_n_pes, shmem.team_sync, shmem.team_destroy, shmem.barrier):
        with pytest.raises(shmem.TeamError, match="is not a team"):
            call(wrong)


def test_numbers_outside_a_team_are_refused():
    n = shmem.n_pes()
    with shmem.team_from_pes([n - 1]) as team:
        if team:
            assert shmem.team_translate_pe(team, 0, shmem.TEAM_WORLD) == n - 1
            for wrong in (1, -1, "0", 0.5):
                with pytest.raises(shmem.InvalidPE):
                    shmem.team_translate_pe(team, wrong, shmem.TEAM_WORLD)
                with pytest.raises(shmem.InvalidPE):
                    shmem.team_ptr(team, np.zeros(1), wrong)
            for pe in range(n - 1):
                assert shmem.team_translate_pe(shmem.TEAM_WORLD, pe, team) == -1
                with pytest.raises(shmem.TeamError, match="is no member of Team 2"):
                    shmem.TEAM_WORLD.translate_pe(pe, team)


# ---- destroying


def test_destroying_ends_the_contexts_of_the_team():
    me = shmem.my_pe()
    x = shmem.zeros(1, np.int64)
    kept, team = shmem.TEAM_WORLD.split_strided(), shmem.TEAM_WORLD.split_strided()
    other, one, two = kept.create_ctx(), team.create_ctx(), shmem.Ctx.create(team=team)
    shmem.p(x, 1, me, one)
    shmem.p(x, 1, me, other)
    team.destroy()
    for ctx in (one, two):
        assert not ctx
        with pytest.raises(shmem.ContextError, match=r"destroyed Ctx .* of destroyed Team 3"):
            shmem.p(x, 1, me, ctx)
    assert other.pending() == 1
    assert shmem.runtime.current().contexts == [other._made]
    kept.destroy()
    shmem.free(x)


def test_a_team_is_destroyed_once():
    team = shmem.TEAM_WORLD.split_strided()
    with team:
        team.destroy()
        team.destroy()
    with pytest.raises(shmem.TeamError, match="destroyed Team 2"):
        shmem.team_destroy(team)


@pytest.mark.mpi(min_size=2)
def test_destroying_is_a_collective_call_like_others():
    team = shmem.TEAM_WORLD.split_strided()
    with pytest.raises(shmem.SymmetryError) as caught:
        team.sync() if shmem.my_pe() == 0 else team.destroy()
    assert caught.value.calls[0] == "sync()"
    assert caught.value.calls[1].startswith("team_destroy(Team 2 of PEs 0, 1")
    team.sync()  # it exists still
    team.destroy()


def test_a_block_that_raised_leaves_its_team():
    with pytest.raises(ZeroDivisionError), shmem.TEAM_WORLD.split_strided() as team:
        raise ZeroDivisionError
    team.sync()
    team.destroy()


def test_teams_end_with_their_job(fresh_heap):
    team = shmem.TEAM_WORLD.split_strided()
    ctx = team.create_ctx()
    shmem.finalize()
    assert not team
    assert not ctx
    shmem.init()
    assert not team
    new = shmem.TEAM_WORLD.split_strided()
    assert new.slot == 2
    for gone, error in ((team.my_pe, shmem.TeamError), (ctx.quiet, shmem.ContextError)):
        with pytest.raises(error, match="destroyed"):
            gone()
    new.destroy()
