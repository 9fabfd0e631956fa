"""Thread levels, a program's own polling loop, and what several threads may do at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import shmem
from shmem.errors import ArgumentError, ShmemTimeout, StateError
from shmem.fabric import Status

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_every_level_is_provided():
    shmem.my_pe()  # started
    assert shmem.init_thread() is shmem.THREAD_MULTIPLE
    assert shmem.init_thread(shmem.THREAD_SINGLE) is shmem.THREAD_MULTIPLE
    assert shmem.query_thread() is shmem.THREAD_MULTIPLE
    shmem.finalize()  # starts nest
    shmem.finalize()
    assert shmem.initialized()
    with pytest.raises(ArgumentError, match="THREAD_"):
        shmem.init_thread(3)
    assert shmem.pcontrol() is None
    assert shmem.pcontrol(2) is None
    with pytest.raises(ArgumentError):
        shmem.pcontrol("all")


@pytest.mark.core
def test_a_polling_loop_of_the_program():
    n, me = shmem.n_pes(), shmem.my_pe()
    word = shmem.zeros(1, np.int64)
    shmem.p(word, me + 1, (me + 1) % n)
    turns = 0
    while not shmem.test(word, "!=", 0):
        shmem.spin()
        turns += 1
    shmem.spin()
    assert word[0] == (me - 1) % n + 1
    shmem.barrier_all()
    shmem.free(word)


@pytest.mark.parametrize("crew", [2, 6])
def test_threads_use_the_library_freely(crew):
    """Every thread of every PE adds to every PE's words, writes its own cells everywhere, and reads them back."""
    n, me, rounds = shmem.n_pes(), shmem.my_pe(), 200
    counters, cells = shmem.zeros(crew, np.int64), shmem.zeros((n, crew, 3), np.int32)
    failures: list[str] = []

    def body(t: int) -> None:
        mine = np.empty(3, np.int32)
        for k in range(rounds):
            for pe in range(n):
                shmem.atomic_add(counters[(t + k) % crew : (t + k) % crew + 1], 1, pe)
                shmem.put(cells[me, t], np.array([me, t, k], np.int32), pe)
                shmem.quiet()
                shmem.get(mine, cells[me, t], pe)
                if mine.tolist() != [me, t, k]:
                    failures.append(f"{mine} instead of {[me, t, k]}")

    threads = [threading.Thread(target=body, args=(t,)) for t in range(crew)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    shmem.barrier_all()
    assert counters.sum() == n * crew * rounds
    assert cells.tolist() == [[[pe, t, rounds - 1] for t in range(crew)] for pe in range(n)]
    shmem.barrier_all()
    shmem.free(cells)
    shmem.free(counters)


@pytest.fixture
def in_barrier():
    """Runs `first` in a thread of PE 0, which waits in it for the others, then `second`; then the others come."""

    def both(slot: int, first: Callable[[], object], second: Callable[[], object]) -> None:
        n, me = shmem.n_pes(), shmem.my_pe()
        fabric, go = shmem.runtime.current().fabric, shmem.zeros(1, np.uint64)
        if me == 0:
            before, failures = fabric.entered(0, slot), []
            thread = threading.Thread(target=lambda: failures.extend(failure(first)))
            thread.start()
            while fabric.entered(0, slot) == before:
                shmem.spin()
            second()
            for pe in range(1, n):
                shmem.signal_set(go, 1, pe)
            thread.join()
            assert failures == []
        else:
            shmem.signal_wait_until(go, "==", 1)
            first()
        shmem.barrier_all()
        shmem.free(go)

    def failure(call: Callable[[], object]) -> list[str]:
        try:
            call()
        except BaseException as error:
            return [repr(error)]
        return []

    return both


def collectives(team: shmem.Team | None, x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], object]]:
    """Calls of all members of a team, the world's by way of the C fronts and of Python."""
    calls: dict[str, Callable[[], object]] = {"sum_reduce": lambda: shmem.sum_reduce(x, y, team=team)}
    if team is None:
        calls |= {"front": shmem.barrier_all, "python": lambda: shmem.sync_all(timeout=10)}
        calls["front of sum_reduce"] = lambda: shmem.sum_reduce(x, y)
        calls["sum_reduce"]()
        calls["front of sum_reduce"]()  # learned by now
    else:
        calls |= {"team_sync": lambda: shmem.team_sync(team)}
    return calls


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("world", [True, False])
def test_two_threads_in_collectives_of_one_team_are_told(in_barrier, world):
    """The second one is refused, and the first one's goes on as if nothing had been."""
    x, y = shmem.zeros(4, np.int64), shmem.zeros(4, np.int64)
    team = None if world else shmem.team_from_pes(range(shmem.n_pes()))
    calls = collectives(team, x, y)
    others = dict(calls) if team is None else {**calls, "destroy": team.destroy, "split": team.split_strided}
    batch = shmem.Batch()
    batch.barrier(team=team)
    others["batch"] = batch.run

    def launch() -> None:
        stream = shmem.Stream()
        batch.launch(stream)
        stream.close()

    others["stream"] = launch
    for first in calls.values():
        for name, second in others.items():

            def refused(second: Callable[[], object] = second, name: str = name) -> None:
                with pytest.raises(StateError, match="another of its threads is in a collective call of the same team"):
                    second()

            in_barrier(0 if team is None else team.slot, first, refused)
    for call in calls.values():
        call()
    if team is not None:
        team.destroy()
    shmem.barrier_all()
    shmem.free(x)
    shmem.free(y)


@pytest.mark.mpi(min_size=2)
def test_a_barrier_given_up_by_one_thread_is_taken_up_by_another():
    go = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:

        def give_up() -> None:
            with pytest.raises(ShmemTimeout):
                shmem.sync_all(timeout=0)

        shmem.workers(1, lambda i: give_up())
        for pe in range(1, shmem.n_pes()):
            shmem.signal_set(go, 1, pe)
    else:
        shmem.signal_wait_until(go, "==", 1)
    shmem.sync_all()
    shmem.barrier_all()
    shmem.free(go)


def test_a_collective_refused_for_another_thread_is_not_one_given_up(monkeypatch):
    """Nothing of it was done, so no later call goes on with it."""
    pe = shmem.runtime.current()
    x, y = shmem.zeros(97, np.int64), shmem.ones(97, np.int64)  # no earlier test has taught the C front this call
    with monkeypatch.context() as patch:
        patch.setattr(pe.fabric, "submit", lambda *arguments: (Status.BUSY, 0))
        with pytest.raises(StateError, match="another of its threads"):
            shmem.sum_reduce(x, y, size=89)
    assert not pe.left
    shmem.sum_reduce(x, y, size=89)
    assert x.tolist() == [shmem.n_pes()] * 89 + [0] * 8
    shmem.barrier_all()
    shmem.free(y)
    shmem.free(x)
