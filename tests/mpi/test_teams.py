"""TEAM_WORLD is all PEs in order, whoever asks; what is no team is refused before anything waits."""

from __future__ import annotations

import pickle

import pytest

import shmem
from shmem import teams

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_the_world_is_all_pes_in_order():
    world = shmem.TEAM_WORLD
    assert world.pes == tuple(range(shmem.n_pes()))
    assert (world.my_pe(), world.n_pes()) == (shmem.my_pe(), shmem.n_pes())
    assert world
    assert repr(world) == "TEAM_WORLD"


def test_a_copy_of_the_world_is_the_world():
    assert pickle.loads(pickle.dumps(shmem.TEAM_WORLD)) == shmem.TEAM_WORLD


def test_a_team_numbers_its_members_in_its_own_order():
    me, n = shmem.my_pe(), shmem.n_pes()
    backwards = teams.Team(1, tuple(reversed(range(n))))
    assert (backwards.my_pe(), backwards.n_pes()) == (n - 1 - me, n)
    assert teams.resolve(backwards) is backwards


def test_a_pe_outside_a_team_has_no_number_in_it():
    others = teams.Team(1, tuple(pe for pe in range(shmem.n_pes()) if pe != shmem.my_pe()))
    with pytest.raises(shmem.TeamError, match="is no member") as caught:
        others.my_pe()
    assert caught.value.pe == shmem.my_pe()
    assert others.n_pes() == shmem.n_pes() - 1


def test_no_team_means_the_world():
    assert teams.resolve(None) is shmem.TEAM_WORLD
    assert teams.resolve(shmem.TEAM_WORLD) is shmem.TEAM_WORLD


@pytest.mark.parametrize("ask", [lambda t: t.pes, lambda t: t.my_pe(), lambda t: t.n_pes(), teams.resolve])
def test_the_invalid_team_refuses_every_question(ask):
    assert not shmem.TEAM_INVALID
    with pytest.raises(RuntimeError, match="TEAM_INVALID") as caught:
        ask(shmem.TEAM_INVALID)
    assert caught.value.pe == shmem.my_pe()


@pytest.mark.parametrize("wrong", [0, "world", (0, 1)])
def test_what_is_no_team_is_refused(wrong):
    with pytest.raises(shmem.TeamError, match="is not a team"):
        teams.resolve(wrong)


@pytest.mark.parametrize("call", [shmem.barrier, shmem.sync])
def test_collectives_refuse_the_invalid_team_on_every_pe(call):
    with pytest.raises(shmem.TeamError):
        call(shmem.TEAM_INVALID)
    call(shmem.TEAM_WORLD)
