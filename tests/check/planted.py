"""Ordering bugs, each beside its repair: what the explorer has to find, and what it has to pass.

A program gets `right`: False plants the bug; `kind` is how it fails then. Values are small and units eight bytes, so
that the repaired ones are exhausted in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import shmem


@dataclass(frozen=True)
class Planted:
    """A program, under what it fails how, and what is wrong with it."""

    program: Callable[[bool], Any]
    kind: str
    profile: str
    pes: int
    changes: dict[str, Any]
    sort: str  # the mistake: several programs may make the same
    source: str  # where such a fault was reported, "" if it is only known from books
    rounds: int  # how often the same words are used, at least 2 where it fails
    rare: bool  # fails in less than 1 % of random executions: `planted_rates`

    @property
    def options(self) -> dict[str, Any]:
        """What else `explore` and `replay` have to be told."""
        return {"leaks": self.kind == "leak"}


PLANTED: dict[str, Planted] = {}


def planted(
    kind: str = "assertion", profile: str = "openshmem", pes: int = 2, *, sort: str, source: str = "", rounds: int = 1,
    rare: bool = False, **changes: Any,
) -> Callable[..., Any]:  # fmt: skip
    """Registers a program; `changes` are those of the profile's fields, a unit of 8 bytes if it does not say."""

    def register(program: Callable[[bool], Any]) -> Callable[[bool], Any]:
        changed = {"unit": 8, **changes}
        PLANTED[program.__name__] = Planted(program, kind, profile, pes, changed, sort, source, rounds, rare)
        return program

    return register


def words(n: int = 1) -> Any:
    return shmem.zeros(n, np.uint64)


def value(number: int) -> Any:
    return np.array([number], np.uint64)


@planted(sort="a flag that nothing orders after its data", source="vLLM #57059")
def missing_fence(right: bool) -> None:
    data, flag = words(), words()
    if shmem.my_pe() == 0:
        shmem.put(data, value(7), 1)
        if right:
            shmem.fence()
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(sort="a fence on another context", source="OpenSHMEM specification #496")
def fence_on_another_context(right: bool) -> None:
    data, flag = words(), words()
    ctx = shmem.ctx_create()
    if shmem.my_pe() == 0:
        shmem.put(data, value(7), 1, ctx=ctx)
        shmem.fence(ctx if right else None)
        shmem.p(flag, 1, 1, ctx=ctx)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7
    shmem.ctx_destroy(ctx)


@planted(sort="data and signal on different contexts", source="NCCL #850")
def fence_between_two_contexts(right: bool) -> None:
    data, flag = words(), words()
    ctx = shmem.ctx_create()
    if shmem.my_pe() == 0:
        shmem.put(data, value(7), 1, ctx=ctx)
        if right:
            shmem.quiet(ctx)
        else:
            shmem.fence(ctx)  # orders within a context
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7
    shmem.ctx_destroy(ctx)


@planted(sort="a quiet that comes too late")
def quiet_after_the_flag(right: bool) -> None:
    data, flag = words(), words()
    if shmem.my_pe() == 0:
        shmem.put_nbi(data, value(7), 1)
        if right:
            shmem.quiet()
        shmem.p(flag, 1, 1)
        shmem.quiet()
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(pes=3, sort="a count that does not say of what")
def a_signal_that_counts(right: bool) -> None:
    """Two senders: the first to come lets the receiver read both."""
    data, signal = words(2), words()
    me = shmem.my_pe()
    if me:
        shmem.put_signal(data[me - 1 : me], value(me), 0, signal, 1, shmem.SIGNAL_ADD)
    else:
        shmem.signal_wait_until(signal, ">=", 2 if right else 1)
        assert data.tolist() == [1, 2]


@planted(sort="a flag with the value of the one before", rounds=2)
def a_flag_that_comes_again(right: bool) -> None:
    """ABA: the second message has the flag of the first, so the receiver takes the first twice."""
    data, flag, credit = words(), words(), words()
    if shmem.my_pe() == 0:
        for i in (1, 2):
            shmem.put_signal(data, value(10 * i), 1, flag, i if right else 1, shmem.SIGNAL_SET)
            shmem.signal_wait_until(credit, ">=", i)
    else:
        for i in (1, 2):
            shmem.signal_wait_until(flag, "==", i if right else 1)
            assert data[0] == 10 * i
            shmem.signal_set(credit, i, 0)


@planted(sort="a source changed before it was read")
def a_source_reused_too_early(right: bool) -> None:
    data, flag = words(), words()
    if shmem.my_pe() == 0:
        source = value(1)
        shmem.put_nbi(data, source, 1)
        if right:
            shmem.quiet()
        source[0] = 2
        shmem.quiet()
        shmem.p(flag, 1, 1)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 1


@planted(sort="a result read before it has come")
def a_result_read_too_early(right: bool) -> None:
    data = words()
    data[0] = shmem.my_pe() + 5
    shmem.barrier_all()
    found = value(0)
    shmem.get_nbi(found, data, 1 - shmem.my_pe())
    if right:
        shmem.quiet()
    assert found[0] == 6 - shmem.my_pe()
    shmem.quiet()


@planted(sort="load and store where an atomic is needed")
def a_lost_update(right: bool) -> None:
    count = words()
    if right:
        shmem.atomic_inc(count, 0)
    else:
        shmem.p(count, shmem.g(count, 0) + 1, 0)
    shmem.barrier_all()
    assert shmem.my_pe() or count[0] == 2


@planted(sort="a signal taken to cover earlier puts")
def a_signal_covers_its_own_payload(right: bool) -> None:
    head, body, signal = words(), words(), words()
    if shmem.my_pe() == 0:
        shmem.put(head, value(3), 1)
        if right:
            shmem.fence()
        shmem.put_signal(body, value(4), 1, signal, 1, shmem.SIGNAL_SET)
    else:
        shmem.signal_wait_until(signal, "==", 1)
        assert (int(head[0]), int(body[0])) == (3, 4)


@planted(pes=3, sort="a quiet of another PE")
def quiet_of_the_wrong_pe(right: bool) -> None:
    data, flag = words(), words()
    if shmem.my_pe() == 0:
        shmem.put(data, value(7), 2)
        shmem.pe_quiet(2 if right else 1)
        shmem.p(flag, 1, 1)
    elif shmem.my_pe() == 1:
        shmem.wait_until(flag, "==", 1)
        assert shmem.g(data, 2) == 7


@planted(sort="a read that nothing orders after the store")
def a_get_without_a_barrier(right: bool) -> None:
    data = words()
    data[0] = 10 + shmem.my_pe()
    if right:
        shmem.barrier_all()
    assert shmem.g(data, 1 - shmem.my_pe()) == 11 - shmem.my_pe()
    shmem.barrier_all()


@planted(sort="a sync taken for a barrier")
def sync_completes_no_put(right: bool) -> None:
    data = words()
    shmem.put(data, value(7), 1 - shmem.my_pe())
    if right:
        shmem.barrier_all()
    else:
        shmem.sync_all()
    assert data[0] == 7


@planted(kind="deadlock", sort="locks taken in two orders")
def locks_in_two_orders(right: bool) -> None:
    first, second = shmem.new_lock(), shmem.new_lock()
    order = [first, second] if right or shmem.my_pe() == 0 else [second, first]
    for lock in order:
        shmem.set_lock(lock)
    for lock in order:
        shmem.clear_lock(lock)


@planted(kind="deadlock", sort="a wait for one value of a word that goes on")
def a_value_that_is_passed_by(right: bool) -> None:
    flag = words()
    if shmem.my_pe() == 0:
        shmem.atomic_set(flag, 1, 1)
        shmem.fence()
        shmem.atomic_set(flag, 2, 1)
    else:
        shmem.wait_until(flag, ">=" if right else "==", 1)


@planted(sort="a slot written again without credit", rounds=2)
def a_slot_without_credit(right: bool) -> None:
    data, flag, credit = words(), words(), words()
    if shmem.my_pe() == 0:
        for i in (1, 2):
            shmem.put_signal(data, value(10 * i), 1, flag, i, shmem.SIGNAL_SET)
            if right:
                shmem.signal_wait_until(credit, ">=", i)
            else:
                shmem.fence()
    else:
        for i in (1, 2):
            shmem.signal_wait_until(flag, ">=", i)
            assert data[0] == 10 * i
            shmem.signal_set(credit, i, 0)


@planted(
    kind="torn", profile="udma", unit=4, sort="a packet larger than what is placed whole", source="aws-ofi-nccl #76"
)
def a_packet_placed_in_halves(right: bool) -> None:
    """Data and flag of an LL packet come in one store; where four bytes are placed at a time, they do not."""
    layout = shmem.LL if not right else shmem.LL16
    lines = shmem.zeros(2 * layout.line, np.uint8, align=64)
    if right:
        lines = shmem.zeros(8, np.uint8)
        if shmem.my_pe() == 0:
            shmem.put_signal(lines[:4], np.full(4, 5, np.uint8), 1, signal := words(), 1, shmem.SIGNAL_SET)
        else:
            signal = words()
            shmem.signal_wait_until(signal, "==", 1)
            assert (lines[:4] == 5).all()
    elif shmem.my_pe() == 0:
        shmem.put_lines(lines, np.array([5], np.uint32), 1, layout, 1)
    else:
        assert shmem.poll_lines(lines, layout, 1, 1, np.uint32)[0] == 5


@planted(kind="deadlock", sort="a flag put back after the sender may go on", rounds=2)
def a_flag_put_back_too_late(right: bool) -> None:
    """The receiver clears the flag after it has let the sender go on: it may clear the next one."""
    flag, credit = words(), words()
    if shmem.my_pe() == 0:
        for i in (1, 2):
            shmem.atomic_set(flag, 1, 1)
            shmem.signal_wait_until(credit, ">=", i)
    else:
        for i in (1, 2):
            shmem.wait_until(flag, "==", 1)
            if right:
                shmem.atomic_set(flag, 0, 1)
                shmem.quiet()
            shmem.signal_set(credit, i, 0)
            if not right:
                shmem.atomic_set(flag, 0, 1)
                shmem.quiet()


@planted(pes=3, sort="a fence taken to order what a third PE sees")
def news_by_a_third(right: bool) -> None:
    """PE 0 writes to PE 2 and tells PE 1, which tells PE 2: only a quiet makes that an order."""
    data, flag = words(), words()
    me = shmem.my_pe()
    if me == 0:
        shmem.put(data, value(7), 2)
        if right:
            shmem.quiet()
        else:
            shmem.fence()
        shmem.atomic_set(flag, 1, 1)
    elif me == 1:
        shmem.wait_until(flag, "==", 1)
        shmem.atomic_set(flag, 1, 2)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7


@planted(sort="a look at what the other wants that is no atomic")
def both_enter(right: bool) -> Any:
    """Each says that it wants to, then looks whether the other does."""
    wants, inside = words(), words()
    me = shmem.my_pe()
    if right:
        alone = shmem.atomic_compare_swap(wants, 0, 1, 0) == 0
    else:
        wants[0] = 1
        alone = shmem.g(wants, 1 - me) == 0
    if alone:
        shmem.atomic_inc(inside, 0)
    shmem.barrier_all()
    assert me or inside[0] <= 1


@planted(sort="the flag sent before the data")
def the_count_before_the_rows(right: bool) -> None:
    rows, count = words(2), shmem.zeros(1, np.int64)
    if shmem.my_pe() == 0:
        if right:
            shmem.put(rows, np.array([5, 6], np.uint64), 1)
            shmem.fence()
        shmem.p(count, -2 - 1, 1)
        if not right:
            shmem.fence()
            shmem.put(rows, np.array([5, 6], np.uint64), 1)
    else:
        shmem.wait_until(count, "!=", 0)
        assert rows[: -int(count[0]) - 1].tolist() == [5, 6]


@planted(sort="a put to a word that others use by atomics")
def a_put_among_atomics(right: bool) -> None:
    """PE 1 starts the count at 10 while PE 0 adds to it: a put is no atomic, and comes when it comes."""
    count, started = words(), words()
    if shmem.my_pe() == 1:
        if right:
            shmem.atomic_set(count, 10, 0)
            shmem.quiet()
        else:
            shmem.p(count, 10, 0)
        shmem.atomic_set(started, 1, 0)
    else:
        shmem.wait_until(started, "==", 1)
        shmem.atomic_inc(count, 0)
    shmem.barrier_all()
    assert shmem.my_pe() or count[0] == 11


@planted(kind="exception", sort="a collective call that one PE does not make")
def a_barrier_that_one_skips(right: bool) -> None:
    """It meets the end of the other instead, which is another call: SymmetryError."""
    done = words()
    shmem.atomic_inc(done, 0)
    shmem.quiet()
    if right or shmem.g(done, 0) == 2:
        shmem.barrier_all()


@planted(
    profile="rc_strict", repeat=True, sort="a message delivered twice", source="libfabric #11499", rounds=2, rare=True
)
def a_slot_reused_before_the_second_delivery(right: bool) -> None:
    """The receiver's credit says that the message was read, not that nothing of it is still on its way."""
    data, flag, credit = words(), words(), words()
    if shmem.my_pe() == 0:
        for i in (1, 2):
            shmem.put_signal(data, value(10 * i), 1, flag, i, shmem.SIGNAL_SET)
            shmem.signal_wait_until(credit, ">=", i)
            if right:
                shmem.quiet()
    else:
        for i in (1, 2):
            shmem.signal_wait_until(flag, ">=", i)
            assert data[0] == 10 * i
            shmem.signal_set(credit, i, 0)


@planted(profile="rc_strict", reader="lazy", sort="a wait by loads that acquire nothing", source="NVSHMEM #75")
def a_flag_seen_by_a_plain_load(right: bool) -> None:
    """All is placed in order, but a loop of plain loads acquires nothing: it may see the flag and not yet the data."""
    data, flag = words(), words()
    if shmem.my_pe() == 0:
        shmem.put(data, value(7), 1)
        shmem.put(flag, value(1), 1)
    elif right:
        shmem.wait_until(flag, "==", 1)
        assert data[0] == 7
    else:
        while flag[0] != 1:
            shmem.spin()
        assert data[0] == 7
