"""Every call that stores a word wakes who sleeps on it: no wait is found out only by the cap of its sleep.

A ring passes a token round; each PE sleeps until its neighbour writes. A wait that found its word when the cap of
a sleep was over counts as missed, and there must be none, however the word was written (the fixture `only_woken`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.runtime import current

pytestmark = pytest.mark.mpi
ROUNDS = 100

Write = Callable[[Any, int, int], None]


def _put_upper_half(word: Any, value: int, pe: int) -> None:
    shmem.put(word, np.array([value << 32], np.uint64), pe)


def _batch(word: Any, value: int, pe: int) -> None:
    batch = shmem.Batch()
    batch.signal(word, 0, value, pe)
    batch.run()


def _bytes(value: int) -> Any:
    return np.array([value], np.uint64).view(np.uint8)


def _put_signal(word: Any, value: int, pe: int) -> None:
    shmem.put_signal(word[:0], np.zeros(0, np.uint64), pe, word, value, shmem.SIGNAL_SET)


WRITES: dict[str, tuple[Write, int]] = {
    "p": (shmem.p, 1),
    "put": (lambda word, value, pe: shmem.put(word, np.array([value], np.uint64), pe), 1),
    "put of the upper half": (_put_upper_half, 1 << 32),
    "atomic_set": (shmem.atomic_set, 1),
    "atomic_add": (lambda word, value, pe: shmem.atomic_add(word, 1, pe), 1),
    "atomic_swap": (lambda word, value, pe: shmem.atomic_swap(word, value, pe), 1),
    "signal_set": (shmem.signal_set, 1),
    "signal_add": (lambda word, value, pe: shmem.signal_add(word, 1, pe), 1),
    "put_signal": (_put_signal, 1),
    "batch": (_batch, 1),
    "put_many": (lambda word, value, pe: shmem.put_many(word, np.array([value], np.uint64), pe), 1),
    "put_many of bytes": (lambda word, value, pe: shmem.put_many(word.view(np.uint8), _bytes(value), pe), 1),
    "put_many in Python": (lambda word, value, pe: shmem.put_many([word], [np.array([value], np.uint64)], [pe]), 1),
    "iput": (lambda word, value, pe: shmem.iput(word, np.array([value, 0], np.uint64), pe, 1, 2), 1),
    "ibput": (lambda word, value, pe: shmem.ibput(word.view(np.uint8), _bytes(value), pe, 4, 4, 4, 2), 1),
    "atomic_fetch_add_nbi": (lambda word, value, pe: shmem.atomic_fetch_add_nbi(np.zeros(1, "u8"), word, 1, pe), 1),
    "atomic_swap_nbi": (lambda word, value, pe: shmem.atomic_swap_nbi(np.zeros(1, "u8"), word, value, pe), 1),
    "atomic_op": (lambda word, value, pe: shmem.atomic_op(word, value, "set", pe), 1),
}


@pytest.mark.needs("direct", "it counts sleeps that end late: where an adapter rests the word may come just then")
@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("how", WRITES)
def test_every_store_wakes_its_waiter(how: str) -> None:
    write, unit = WRITES[how]
    me, n = shmem.my_pe(), shmem.n_pes()
    word = shmem.zeros(1, np.uint64)
    for turn in range(1, ROUNDS + 1):
        if me == 0:
            write(word, turn, (me + 1) % n)
        shmem.signal_wait_until(word, "==", turn * unit)
        if me != 0:
            write(word, turn, (me + 1) % n)
        shmem.barrier_all()
    shmem.free(word)


def test_a_barrier_wakes_each_waiter_at_most_once() -> None:
    me, n = shmem.my_pe(), shmem.n_pes()
    sums = shmem.zeros(1, np.int64)
    shmem.barrier_all()
    before = current().fabric.counts()
    for _ in range(ROUNDS):
        shmem.barrier_all()
    after = current().fabric.counts()
    shmem.atomic_add(sums, after["woken"] - before["woken"], 0)
    shmem.barrier_all()
    woken = int(shmem.g(sums, 0))
    shmem.free(sums)
    assert after["wakes"] - before["wakes"] <= ROUNDS
    # ROUNDS barriers of the loop, and the one behind it may have woken its n - 1 before the last PE reads.
    assert woken <= ROUNDS * (n - 1), me
