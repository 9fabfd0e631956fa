"""Planted bugs that no value shows: messages that are torn, stale or overwritten, and memory that leaks.

Payloads are equal from message to message wherever that is possible; see `planted`, which these join.
"""

from __future__ import annotations

import numpy as np

import shmem

from .planted import planted, value, words

# A packet that may be placed in halves: both its payload and its flag are in the first four bytes.
HALF_LL = shmem.Layout("HALF_LL", 8, ((0, 2),), (2,), 2, order=shmem.Order.ANY, reader=shmem.Reader.SAME_LOAD)


@planted(
    kind="torn",
    profile="udma",
    unit=4,
    sort="a packet larger than what is placed whole",
    source="aws-ofi-nccl #76",
    rounds=2,
)
def packets_placed_in_halves(right: bool) -> None:
    """The payload is that of the message before, so the half that is missing changes no value."""
    layout, dtype = (HALF_LL, np.uint16) if right else (shmem.LL, np.uint32)
    lines, credit = shmem.zeros(8, np.uint8), words()
    for step in (1, 2):
        if shmem.my_pe() == 0:
            shmem.put_lines(lines, np.array([5], dtype), 1, layout, step)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            got = shmem.poll_lines(lines, layout, step, 1, dtype)
            assert step == 1 or got[0] == 5
            shmem.signal_set(credit, step, 0)


@planted(kind="torn", profile="udma", sort="a line that does not keep its order on the way", source="NCCL #786")
def a_line_whose_words_come_in_any_order(right: bool) -> None:
    """LL128 on a path that keeps no order inside a line."""
    layout = shmem.LL if right else shmem.LL128
    lines = shmem.zeros(128, np.uint8, align=128)
    if shmem.my_pe() == 0:
        shmem.put_lines(lines, np.zeros(2, np.uint32), 1, layout, 1)
    else:
        assert not shmem.poll_lines(lines, layout, 1, 2, np.uint32).any()


@planted(kind="stale", profile="udma", sort="a flag whose values come round", source="NCCL #926", rounds=3)
def a_flag_of_two_values(right: bool) -> None:
    """The second message is shorter; the third has the flag of the first, whose last word still lies there."""
    lines, credit = shmem.zeros(16, np.uint8), words()
    for step, n in ((1, 2), (2, 1), (3, 2)):
        if shmem.my_pe() == 0:
            shmem.put_lines(lines, np.full(n, 5, np.uint32), 1, shmem.LL, step % 2, lines=2 if right else n)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            assert (shmem.poll_lines(lines, shmem.LL, step % 2, n, np.uint32) == 5).all()
            shmem.signal_set(credit, step, 0)


@planted(kind="stale", sort="a flag that nothing orders after its data", rounds=2)
def a_message_like_the_one_before(right: bool) -> None:
    """The flag passes the data, and the old data are equal to the new."""
    data, flag, credit = words(), words(), words()
    for step in (1, 2):
        if shmem.my_pe() == 0:
            with shmem.check.tagged(step):
                shmem.put(data, value(7), 1)
                if right or step == 1:
                    shmem.quiet()
                shmem.signal_set(flag, step, 1)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            shmem.signal_wait_until(flag, ">=", step)
            shmem.check.accept(data, (0, step))
            assert data[0] == 7
            shmem.signal_set(credit, step, 0)


@planted(kind="clobber", sort="a slot written again without credit", rounds=2)
def a_message_nobody_has_read(right: bool) -> None:
    """No credit: the second message, equal to the first, may come before the first is read."""
    data, flag, credit = words(), words(), words()
    for step in (1, 2):
        if shmem.my_pe() == 0:
            with shmem.check.tagged(step):
                shmem.put_signal(data, value(7), 1, flag, step, shmem.SIGNAL_SET)
            if right:
                shmem.signal_wait_until(credit, ">=", step)
            else:
                shmem.fence()
        else:
            shmem.signal_wait_until(flag, ">=", step)
            shmem.check.accept(data, shmem.check.Tag(0, step))
            assert data[0] == 7
            shmem.signal_set(credit, step, 0)


@planted(kind="clobber", profile="udma", sort="a slot written again without credit", rounds=2)
def the_same_flag_before_the_first_is_read(right: bool) -> None:
    lines, credit = shmem.zeros(8, np.uint8), words()
    if shmem.my_pe() == 0:
        shmem.put_lines(lines, np.array([5], np.uint32), 1, shmem.LL, 1)
        if right:
            shmem.signal_wait_until(credit, "==", 1)
        shmem.put_lines(lines, np.array([5], np.uint32), 1, shmem.LL, 1)
    else:
        assert shmem.poll_lines(lines, shmem.LL, 1, 1, np.uint32)[0] == 5
        shmem.signal_set(credit, 1, 0)


@planted(kind="clobber", sort="a reset that races with the first message", source="uccl PR #993")
def cleared_after_it_had_come(right: bool) -> None:
    """The reader clears a slot for messages that may be there already. The first message happens to be zero."""
    data, flag = words(), words()
    if shmem.my_pe() == 0:
        if right:
            shmem.barrier_all()
        with shmem.check.tagged(1):
            shmem.put_signal(data, value(0), 1, flag, 1, shmem.SIGNAL_SET)
    else:
        data[0] = 0
        if right:
            shmem.barrier_all()
        shmem.signal_wait_until(flag, "==", 1)
        shmem.check.accept(data, (0, 1))
        assert data[0] == 0


@planted(kind="leak", sort="memory that is not freed")
def an_array_that_is_not_freed(right: bool) -> None:
    first, second = words(), words(2)
    if shmem.my_pe() == 0:
        shmem.atomic_inc(first, 1)
    shmem.free(second)
    if right:
        shmem.free(first)
