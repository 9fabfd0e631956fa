"""`shmem.run`: a program's PEs in this process, what they return and how they fail."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import runtime
from shmem.check import explore


def ring() -> tuple[int, int, int]:
    """Each PE gives its number, squared, to the next."""
    me, n = shmem.my_pe(), shmem.n_pes()
    box = shmem.zeros(1, np.int64)
    full = shmem.zeros(1, np.uint64)
    shmem.put_signal(box, np.array([me * me]), (me + 1) % n, full, 1, shmem.SIGNAL_SET)
    shmem.signal_wait_until(full, "==", 1)
    return me, n, int(shmem.g(box, me))


def tickets() -> int:
    """In which order the PEs came."""
    counter = shmem.zeros(1, np.int64)
    return int(shmem.atomic_fetch_inc(counter, 0))


def unfenced() -> int | None:
    """What lies behind a flag that nothing orders after the data."""
    data, flag = shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        shmem.p(data, 7, 1)
        shmem.p(flag, 1, 1)
        return None
    shmem.wait_until(flag, "==", 1)
    return int(shmem.g(data, 1))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_what_each_pe_returns(n: int) -> None:
    found = shmem.run(ring, n)
    assert len(found) == n
    for pe in range(n):
        before = pe - 1 if pe else n - 1
        assert found[pe] == (pe, n, before * before)


def test_results_are_the_objects_themselves() -> None:
    made: dict[int, list[int]] = {}

    def program(pe: int) -> list[int]:
        made[pe] = [pe]
        return made[pe]

    found = shmem.run(program, 3)
    assert [found[pe] is made[pe] for pe in range(3)] == [True] * 3


def test_symmetric_arrays_come_back_as_copies() -> None:
    def program() -> tuple[Any, dict[str, Any]]:
        word = shmem.zeros(2, np.int64)
        word[1] = shmem.my_pe()
        return word, {"tail": [word[1:]]}

    for pe, (word, more) in enumerate(shmem.run(program, 2)):
        assert type(word) is np.ndarray
        assert word.tolist() == [0, pe]
        assert more["tail"][0].tolist() == [pe]


def test_an_array_that_is_used_after_the_job_says_so() -> None:
    kept = []
    shmem.run(lambda: kept.append(shmem.zeros(2)), 2)
    with pytest.raises(shmem.StateError, match="belongs to a job on sim"):
        kept[0].sum()


def test_an_exception_may_hold_a_symmetric_array() -> None:
    def program() -> None:
        raise ValueError(shmem.full(1, 5))

    with pytest.raises(ValueError, match=r"^\[5\]"):
        shmem.run(program, 2)
    assert [failure.text for failure in explore(program).failures] == ["ValueError: [5]"]


def test_nothing_is_left_running() -> None:
    before = runtime.here()
    shmem.run(ring, 2)
    assert runtime.here() is before
    assert not shmem.initialized()


def test_without_a_seed_every_run_is_the_same() -> None:
    assert {tuple(shmem.run(tickets, 3)) for _ in range(5)} == {(0, 1, 2)}
    assert {shmem.run(unfenced, 2, profile="srd")[1] for _ in range(5)} == {7}


def test_seeds_give_other_orders_and_each_its_own() -> None:
    found = [tuple(shmem.run(tickets, 3, seed=seed)) for seed in range(20)]
    assert len(set(found)) > 2
    assert found == [tuple(shmem.run(tickets, 3, seed=seed)) for seed in range(20)]
    assert all(sorted(each) == [0, 1, 2] for each in found)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_seed_is_the_first_random_execution_of_explore(seed: int) -> None:
    report = explore(tickets, 4, strategy="random", budget=1, seed=seed)
    assert list(report.outcomes) == [tuple(shmem.run(tickets, 4, seed=seed))]


def test_the_profile_counts() -> None:
    late = [shmem.run(unfenced, 2, profile="srd", seed=seed)[1] for seed in range(20)]
    assert set(late) == {0, 7}
    assert {shmem.run(unfenced, 2, profile="tso", seed=seed)[1] for seed in range(20)} == {7}


# ---- failures ----


def test_what_a_pe_raises_is_raised_with_its_traceback() -> None:
    error = KeyError("mine")

    def program() -> None:
        shmem.barrier_all()
        if shmem.my_pe() == 1:
            raise error
        shmem.barrier_all()

    with pytest.raises(KeyError) as caught:
        shmem.run(program, 3)
    assert caught.value is error
    assert traceback.extract_tb(error.__traceback__)[-1].name == "program"
    assert error.__notes__ == ["raised by PE 1 of 3"]  # type: ignore[attr-defined, unused-ignore]


def test_a_deadlock_tells_who_waits_in_what_and_where() -> None:
    def program() -> None:
        word = shmem.zeros(1, np.int64)
        if shmem.my_pe() == 1:
            shmem.wait_until(word, "==", 1)
        shmem.barrier_all()

    first = program.__code__.co_firstlineno
    with pytest.raises(shmem.ShmemTimeout) as caught:
        shmem.run(program, 2)
    text = str(caught.value)
    assert f"PE 0 waits in barrier at {__file__}:{first + 4}" in text
    assert f"PE 1 waits in wait at {__file__}:{first + 3}" in text
    assert caught.value.awaited in text


def test_a_pe_that_leaves_well_takes_part_in_the_end() -> None:
    def program() -> int:
        if shmem.my_pe() == 1:
            sys.exit(0)
        return 5

    assert shmem.run(program, 3) == [5, None, 5]


@pytest.mark.parametrize(("leave", "code"), [(sys.exit, 3), (shmem.global_exit, 4), (shmem.global_exit, 0)])
def test_an_exit_is_an_exit(leave: Callable[[int], Any], code: int) -> None:
    def program() -> None:
        if shmem.my_pe() == 1:
            leave(code)
        shmem.barrier_all()

    with pytest.raises(SystemExit) as caught:
        shmem.run(program, 2)
    assert caught.value.code == code


async def asynchronous() -> None: ...


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((ring, 2, "direct"), "shmemu run -n 2 --fabric direct"),
        ((ring, 0), "n_pes=0"),
        ((ring, True), "n_pes=True"),
        ((ring, 2, "sim", "nfs"), "no profile 'nfs'"),
        ((ring, 2, "sim", None, "1"), "seed='1'"),
        ((3, 2), "3 is no function"),
        ((lambda a, b: None, 2), "takes neither nothing nor the PE"),
        ((asynchronous, 2), "asynchronous is asynchronous or a generator"),
        ((generator, 2), "generator is asynchronous or a generator"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(shmem.ArgumentError, match=says):
        shmem.run(*arguments)


def test_shmem_alone_imports_no_simulation() -> None:
    code = "import sys, shmem; shmem.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "shmem.in_process" in loaded
    assert not {"greenlet", "shmem.check", "shmem.fabric.sim"} & set(loaded)


@pytest.mark.parametrize("inits", [0, 1, 2])
def test_a_program_may_finalise_itself(inits: int) -> None:
    """With as many calls of init or none, as under mpiexec."""

    def main() -> list[int]:
        for _ in range(inits):
            shmem.init()
        box = shmem.zeros(1, np.int64)
        shmem.p(box, shmem.my_pe() + 5, (shmem.my_pe() + 1) % shmem.n_pes())
        shmem.barrier_all()
        found = box.tolist()
        shmem.free(box)
        for _ in range(max(inits, 1)):
            shmem.finalize()
        return found  # type: ignore[no-any-return]

    assert shmem.run(main, 3) == [[7], [5], [6]]
    report = explore(main, 2, "tso", leaks=True)
    assert (report.ok, report.complete, set(report.outcomes)) == (True, True, {((6,), (5,))})
