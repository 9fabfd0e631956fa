"""Bugs in what a call is taken to order or to complete, each beside its repair, as in `planted`."""

from __future__ import annotations

import numpy as np

import shmem

from .planted import planted, value, words
from .planted_requests import Pair

EMPTY = 2**63  # a word with this value has not come


@planted(sort="a barrier taken to complete another context", source="Open MPI #6682")
def a_barrier_and_a_context_of_ones_own(right: bool) -> None:
    data = words()
    ctx = shmem.ctx_create()
    if shmem.my_pe() == 0:
        shmem.put_nbi(data, value(7), 1, ctx=ctx)
        if right:
            shmem.quiet(ctx)
    shmem.barrier_all()
    assert shmem.my_pe() == 0 or data[0] == 7
    shmem.ctx_destroy(ctx)


@planted(sort="an allocation taken to complete another context", source="OpenSHMEM specification #180")
def an_allocation_between_put_and_load(right: bool) -> None:
    """malloc ends in a barrier, which completes the puts of the default context, and of no other."""
    data = words()
    ctx = shmem.ctx_create()
    if shmem.my_pe() == 0:
        shmem.put_nbi(data, value(7), 1, ctx=None if right else ctx)
    words()
    assert shmem.my_pe() == 0 or data[0] == 7
    shmem.ctx_destroy(ctx)


@planted(sort="one signal word for two contexts", source="rocm-systems #11569")
def two_contexts_with_one_signal_word(right: bool) -> None:
    data, signals = words(2), words(2)
    contexts = [shmem.ctx_create(), shmem.ctx_create()]
    if shmem.my_pe() == 0:
        for i, ctx in enumerate(contexts):
            word = signals[i : i + 1] if right else signals[:1]
            shmem.put_signal(data[i : i + 1], value(5), 1, word, 1, shmem.SIGNAL_ADD, ctx=ctx)
    else:
        shmem.signal_wait_until(signals[:1], ">=", 1)
        assert data[0] == 5
    for ctx in contexts:
        shmem.ctx_destroy(ctx)


@planted(profile="srd", sort="an order that the transport does not keep", source="monarch #3391")
def two_writes_on_an_unordered_transport(right: bool) -> None:
    """The answer of the target says that it has the first; without it the second may come alone."""
    data, flag, answer = words(), words(), words()
    pair = Pair(data, flag)
    if pair.me == 0:
        pair.qp.post(pair.write(0, 7))
        if right:
            shmem.signal_wait_until(answer, "==", 1)
        pair.qp.post(pair.write(1, 1))
    else:
        if right:
            shmem.wait_until(data, "==", 7)
            shmem.signal_set(answer, 1, 0)
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(sort="an answer taken to complete what was sent before it", rare=True)
def three_round_trips_that_say_nothing(right: bool) -> None:
    """An atomic that has its answer was at the target, which says nothing of the put before."""
    data, flag, count = words(), words(), words()
    if shmem.my_pe() == 0:
        shmem.put(data, value(7), 1)
        if right:
            shmem.quiet()
        for _ in range(3):
            shmem.atomic_fetch_inc(count, 1)
        shmem.atomic_set(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(kind="deadlock", sort="a value that means that nothing has come", source="tokenspeed PR #1383")
def a_result_like_the_empty_mark(right: bool) -> None:
    """Zero with a minus sign marks a word that has not come, and is a possible result: it has to lose the sign."""
    data = shmem.full(1, EMPTY, np.uint64)
    if shmem.my_pe() == 0:
        result = EMPTY
        shmem.atomic_set(data, 0 if right and result == EMPTY else result, 1)
    else:
        shmem.wait_until(data, "!=", EMPTY)


@planted(pes=3, sort="a publisher that completes only its own writes", source="mori PR #87", rare=True)
def a_count_for_the_rows_of_two(right: bool) -> None:
    """PE 1 publishes for PE 0 as well, whose row it has not waited for: nor can it, PE 0 has to."""
    rows, count, joined = words(3), words(), words()
    me = shmem.my_pe()
    if me == 2:
        shmem.signal_wait_until(count, "==", 3)
        assert rows.tolist() == [5, 5, 5]
        return
    if me == 0:
        shmem.put(rows[:1], value(5), 2)
        if right:
            shmem.quiet()
        shmem.atomic_set(joined, 1, 1)
    else:
        shmem.wait_until(joined, "==", 1)
        for i in (1, 2):
            shmem.put(rows[i : i + 1], value(5), 2)
            shmem.quiet()
        shmem.signal_set(count, 3, 2)


@planted(kind="deadlock", sort="a clear that goes past its array", source="UCCL PR #828")
def a_word_too_many_is_cleared(right: bool) -> None:
    """Without a row for it the receiver clears its counts, and the flag behind them, which may have come."""
    counts = words(2)  # of one PE, and a flag
    if shmem.my_pe() == 0:
        shmem.atomic_set(counts[1:], 1, 1)
    else:
        for i in range(1 if right else 2):
            shmem.atomic_set(counts[i : i + 1], 0, 1)
        shmem.wait_until(counts[1:], "==", 1)


@planted(sort="a sync taken for a barrier", rounds=5, rare=True)
def a_row_that_is_five_rounds_late(right: bool) -> None:
    """Every round ends with a sync, none of which completes the put of the first."""
    rows = words(5)
    for i in range(5):
        shmem.put(rows[i : i + 1], value(i + 1), 1 - shmem.my_pe())
        if right:
            shmem.barrier_all()
        else:
            shmem.sync_all()
    assert rows[0] == 1


@planted(sort="a lock taken to complete another context", rare=True)
def a_count_behind_a_lock(right: bool) -> None:
    """clear_lock completes what was sent on the default context, and nothing of another."""
    lock, count, ctx = shmem.new_lock(), words(), shmem.ctx_create()
    shmem.set_lock(lock)
    shmem.p(count, shmem.g(count, 0) + 1, 0, ctx=ctx)
    if right:
        shmem.quiet(ctx)
    shmem.clear_lock(lock)
    shmem.quiet(ctx)
    shmem.barrier_all()
    assert shmem.my_pe() or count[0] == 2
    shmem.ctx_destroy(ctx)
