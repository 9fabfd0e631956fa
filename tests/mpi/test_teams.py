"""Teams: who is a member, in which order, under which slot; each call against explicit loops over the parent's PEs.

A team that exists is used: its members write to each other on a context of the team, and meet.
"""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest

import shmem
from shmem import teams
from shmem.barriers import missing
from shmem.fabric.interface import Members
from shmem.runtime import current
from shmem.slots import SLOTS, choose

from .data import everyone

pytestmark = pytest.mark.mpi

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


def parts(n):
    """Every triplet that is a part of n PEs; of those with one PE, whose stride means nothing, some."""
    triplets = [(start, stride, size) for size in range(2, n + 1) for start in range(n) for stride in range(-n, n + 1)]
    ones = [(start, stride, 1) for start in range(n) for stride in (-n, 0, 1)]
    return ones + [one for one in triplets if strided(range(n), *one)]


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


@pytest.fixture
def board():
    words = shmem.zeros(shmem.n_pes(), np.int64)
    yield words
    shmem.free(words)


def slots_free():
    return shmem.runtime.current().slots.free.bit_count()


@pytest.fixture(autouse=True)
def no_team_left():
    yield
    assert slots_free() == SLOTS - PREDEFINED


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


# ---- splits


@pytest.mark.core
def test_every_strided_part_of_the_world(board):
    """All valid triplets, negative strides and odd shapes among them: some hundred teams one after the other."""
    n, me = shmem.n_pes(), shmem.my_pe()
    for start, stride, size in parts(n):
        pes = strided(range(n), start, stride, size)
        team = shmem.TEAM_WORLD.split_strided(start, stride, size)
        check(team, pes, board)
        assert everyone(team.slot if team else None) == [2 if pe in pes else None for pe in range(n)]
        if me in pes:
            text = f"Team 2 of PEs {', '.join(map(str, pes))}"
            assert repr(team) == text
        team.destroy()


def test_strided_without_a_size_takes_all_there_are(board):
    n = shmem.n_pes()
    for start, stride in ((0, 1), (n - 1, -1), (0, 3), (n // 2, 2), (n // 2, -2), (n - 1, 0)):
        pes = [range(n)[i] for i in range(n) if stride and (i - start) % stride == 0 and (i - start) * stride >= 0]
        team = shmem.TEAM_WORLD.split_strided(start, stride)
        check(team, (pes if stride > 0 else pes[::-1]) if stride else [start], board)
        team.destroy()


def test_splits_of_splits(board):
    n = shmem.n_pes()
    outer = shmem.team_from_pes([*range(1, n, 2), *range(0, n, 2)])
    pes = [*range(1, n, 2), *range(0, n, 2)]
    check(outer, pes, board)
    for triplet in ((n - 1, -1, n), (n - 1, -2, (n + 1) // 2), (0, 2, (n + 1) // 2)):
        inner = shmem.team_split_strided(outer, *triplet)
        part = strided(pes, *triplet)
        check(inner, part, board)
        if inner:
            innermost = inner.split_strided(len(part) - 1, -1)
            check(innermost, part[::-1], board)
            one = innermost.split_strided(0, 5, 1)
            check(one, part[-1:], board)
            for pe in range(len(part)):
                assert shmem.team_translate_pe(inner, pe, innermost) == len(part) - 1 - pe
            inner.destroy()  # the parent may go before its children
            innermost.sync()
            one.destroy()
            innermost.destroy()
    outer.destroy()


def layout(pes, xrange, me):
    """Row and column of PE `me`, by walking through the grid."""
    rows, columns = {}, {}
    for number, pe in enumerate(pes):
        x, y = number, 0
        while x >= min(xrange, len(pes)):
            x, y = x - min(xrange, len(pes)), y + 1
        rows.setdefault(y, []).append(pe)
        columns.setdefault(x, []).append(pe)
    return [next(line for line in lines.values() if me in line) for lines in (rows, columns)]


@pytest.mark.core
def test_rows_and_columns(board):
    n, me = shmem.n_pes(), shmem.my_pe()
    backwards = shmem.TEAM_WORLD.split_strided(n - 1, -1)
    for parent, pes in ((shmem.TEAM_WORLD, list(range(n))), (backwards, list(range(n))[::-1])):
        for xrange in range(1, n + 3):
            split = parent.split_2d if xrange % 2 else partial(shmem.team_split_2d, parent)
            row, column = split(xrange, {"num_contexts": 1}, {"num_contexts": 2})
            for team, line in zip((row, column), layout(pes, xrange, me), strict=True):
                check(team, line, board)
            assert (row.get_config(), column.get_config()) == ({"num_contexts": 1}, {"num_contexts": 2})
            assert row != column
            column.destroy()
            row.destroy()
    backwards.destroy()


@pytest.mark.core
def test_any_pes_in_any_order(board):
    n = shmem.n_pes()
    rng = np.random.default_rng(7)
    for _ in range(20):
        pes = rng.permutation(n)[: rng.integers(1, n + 1)]
        team = shmem.team_from_pes(pes)
        check(team, pes.tolist(), board)
        team.destroy()


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


def test_config_is_kept():
    for make in (
        lambda: shmem.TEAM_WORLD.split_strided(config={"num_contexts": 3}),
        lambda: shmem.TEAM_WORLD.split_strided(num_contexts=3),
        lambda: shmem.team_split_strided(shmem.TEAM_WORLD, 0, 1, None, {"num_contexts": 3}),
    ):
        with make() as team:
            assert team.get_config() == shmem.team_get_config(team) == {"num_contexts": 3}
            assert team.pes == shmem.TEAM_WORLD.pes


# ---- wrong use, on every PE


def wrong_calls():
    n = shmem.n_pes()
    world = shmem.TEAM_WORLD
    triplets = [(0, 1, n + 1), (n, 1, 1), (-1, 1, 1), (0, -1, 2), (n - 1, 1, 2), (0, 0, 2), (0, 1, 0), (0, 1, -1),
                (0, n, 2), ("0", 1, 1), (0, 1.0, 1), (0, 1, 1 << 60), (n, 1, None), (-1, -1, None)]  # fmt: skip
    for triplet in triplets:
        yield f"split {triplet}", lambda t=triplet: shmem.team_split_strided(world, *t)
    configs = [{"num_contexts": 65}, {"num_contexts": -1}, {"num_contexts": "1"}, {"colour": 1}, 3, ["num_contexts"]]
    for config in configs:
        yield f"config {config}", lambda c=config: shmem.team_split_strided(world, 0, 1, n, c)
        yield f"2d config {config}", lambda c=config: shmem.team_split_2d(world, 1, None, c)
    for xrange in (0, -1, "1"):
        yield f"2d {xrange}", lambda x=xrange: shmem.team_split_2d(world, x)
    for pes in ([], [n], [-1], [0, 0], [0.0]):
        yield f"list {pes}", lambda p=pes: shmem.team_from_pes(p)


def test_wrong_arguments_raise_on_every_pe_and_cost_nothing():
    for name, call in wrong_calls():
        with pytest.raises(shmem.TeamError) as caught:
            call()
        assert caught.value.pe == shmem.my_pe(), name
    with shmem.TEAM_WORLD.split_strided() as team:
        assert team.slot == 2


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("call", ["split_strided", "split_2d", "from_pes"])
def test_differing_arguments_raise_on_every_pe(call):
    n, me = shmem.n_pes(), shmem.my_pe()
    calls = {  # on PE 0 they are wrong in themselves: the others must not be left waiting
        "split_strided": (shmem.team_split_strided, (shmem.TEAM_WORLD, 0, 1, n + 1 if me == 0 else n)),
        "split_2d": (shmem.team_split_2d, (shmem.TEAM_WORLD, 0 if me == 0 else 2)),
        "from_pes": (shmem.team_from_pes, ([n] if me == 0 else [0],)),
    }
    function, arguments = calls[call]
    with pytest.raises(shmem.SymmetryError) as caught:
        function(*arguments)
    assert sorted(caught.value.calls) == list(range(n))
    assert all(f"team_{call}(" in text for text in caught.value.calls.values())
    assert len(set(caught.value.calls.values())) == 2
    with shmem.TEAM_WORLD.split_strided() as team:
        assert team.slot == 2


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


# ---- slots


def test_a_slot_serves_team_after_team():
    n, me = shmem.n_pes(), shmem.my_pe()
    kept = shmem.TEAM_WORLD.split_strided()
    for i in range(300):
        pes = [pe for pe in range(n) if pe == i % n or (i >> pe) & 1]
        team = shmem.team_from_pes(pes)
        assert bool(team) == (me in pes)
        if team:
            assert (team.slot, team.pes) == (3, tuple(pes))
            team.sync()
        team.destroy()
    assert (kept.slot, kept.n_pes()) == (2, n)
    kept.sync()
    kept.destroy()


def test_no_slot_left_is_an_error_on_every_pe():
    n = shmem.n_pes()
    held = [shmem.team_from_pes(range(n)) for _ in range(SLOTS - PREDEFINED)]
    assert [team.slot for team in held] == list(range(PREDEFINED, SLOTS))
    for call in (lambda: shmem.team_from_pes([n - 1]), lambda: shmem.team_split_2d(shmem.TEAM_WORLD, 1)):
        with pytest.raises(shmem.TeamError, match="no slot is free at all members") as caught:
            call()
        assert caught.value.pe == shmem.my_pe()
    held.pop(30).destroy()
    with shmem.team_from_pes(range(n)) as team:
        assert team.slot == PREDEFINED + 30
    with pytest.raises(shmem.TeamError, match="no slot"):  # it takes two
        shmem.team_split_2d(shmem.TEAM_WORLD, 1)
    for team in held:
        team.destroy()


@pytest.mark.mpi(min_size=2)
def test_no_slot_left_at_one_pe_concerns_its_teams_only():
    n, me = shmem.n_pes(), shmem.my_pe()
    held = [shmem.team_from_pes([0]) for _ in range(SLOTS - PREDEFINED)]
    with pytest.raises(shmem.TeamError, match="no slot"):  # at PE 0 and at those that have all slots free
        shmem.team_from_pes([n - 1, 0])
    with shmem.team_from_pes([n - 1]) as team:
        assert bool(team) == (me == n - 1)
    for team in held:
        team.destroy()


def test_slots_are_chosen_alike_from_the_same_numbers():
    free = {0: 0b111100, 1: 0b011000, 2: 0b100000}
    assert choose([(0, 1)], free) == [3]
    assert choose([(0, 1), (1, 0)], free) == [3, 4]
    assert choose([(0, 1), (1, 0), (0, 1)], free) is None
    assert choose([(0,), (1,), (2,)], free) == [2, 3, 5]
    assert choose([(1, 2)], free) is None
    assert [choose([(0,)], free, turn)[0] for turn in range(6)] == [2, 3, 4, 5, 2, 3]
    assert free == {0: 0b111100, 1: 0b011000, 2: 0b100000}


def test_threads_split_different_teams_at_the_same_time():
    n = shmem.n_pes()
    parents = [shmem.TEAM_WORLD, shmem.TEAM_WORLD.split_strided(n - 1, -1), shmem.TEAM_WORLD.split_strided()]

    def work(i):
        slots = set()
        for _ in range(30):
            with parents[i].split_strided(n - 1, -1) as team:
                assert team.pes == parents[i].pes[::-1]
                team.sync()
                slots.add(team.slot)
        return slots

    slots = shmem.workers(3, work)
    assert len(set().union(*slots)) <= 3 + 30  # no slot is lost on the way
    assert all(everyone(slots)[0] == other for other in everyone(slots))
    for team in parents[1:]:
        team.destroy()


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


# ---- barriers of teams


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
