"""Teams made by splits and lists: who is a member, in which order, under which slot, and what is refused.

Each call against explicit loops over the parent's PEs.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import shmem
from shmem.slots import SLOTS, choose

from .data import everyone
from .team_checks import PREDEFINED, check, strided

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("no_team_left")]


def parts(n):
    """Every triplet that is a part of n PEs; of those with one PE, whose stride means nothing, some."""
    triplets = [(start, stride, size) for size in range(2, n + 1) for start in range(n) for stride in range(-n, n + 1)]
    ones = [(start, stride, 1) for start in range(n) for stride in (-n, 0, 1)]
    return ones + [one for one in triplets if strided(range(n), *one)]


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
