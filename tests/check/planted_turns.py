"""Bugs in protocols that go on for rounds, each beside its repair, as in `planted`.

Most of them need a message that comes rounds later, or a PE that is rounds ahead: random runs hardly ever show them.
"""

from __future__ import annotations

import numpy as np

import shmem

from .planted import planted, value, words


@planted(kind="deadlock", sort="full taken for empty", rounds=2, rare=True)
def a_ring_filled_to_its_last_place(right: bool) -> None:
    """Positions count modulo three. Where the sender fills all three places, the ring looks empty."""
    ring, end, start = words(6), words(), words()
    if shmem.my_pe() == 0:
        for i in range(3):
            if right and i == 2:
                shmem.wait_until(start, "!=", 0)
            for k in (0, 1):
                shmem.put(ring[2 * i + k : 2 * i + k + 1], value(10 + i), 1)
                shmem.quiet()
            shmem.atomic_set(end, (i + 1) % 3, 1)
            shmem.quiet()
    else:
        for i in range(3):
            shmem.wait_until(end, "!=", i)
            assert ring[2 * i] == ring[2 * i + 1] == 10 + i
            shmem.atomic_set(start, (i + 1) % 3, 0)


@planted(profile="tso", sort="a credit too many", rounds=2)
def one_message_more_than_there_are_slots(right: bool) -> None:
    """Two slots: the third message may be sent when the first was read, and is sent when none was."""
    slots, flag, credit = words(2), words(), words()
    if shmem.my_pe() == 0:
        for i in range(3):
            if i == 2 and right:
                shmem.signal_wait_until(credit, ">=", 1)
            shmem.fence()
            shmem.put_signal(slots[i % 2 : i % 2 + 1], value(10 + i), 1, flag, i + 1, shmem.SIGNAL_SET)
    else:
        for i in range(3):
            shmem.signal_wait_until(flag, ">=", i + 1)
            assert slots[i % 2] == 10 + i
            shmem.signal_set(credit, i + 1, 0)


@planted(sort="a late message after the cleaning", source="DeepEP #310", rounds=2)
def a_count_that_comes_after_the_cleaning(right: bool) -> None:
    """The receiver counts what it has taken at the sender, which sets that back between two rounds: before the last
    count of the first round has come, which then is taken for one of the second."""
    data, flag, taken = words(), words(), words()
    me = shmem.my_pe()
    for step in (1, 2, 3):
        if me == 0:
            if step == 3:
                shmem.wait_until(taken, "==", 1)
            shmem.put_signal(data, value(10 * step), 1, flag, 1, shmem.SIGNAL_ADD)
        else:
            shmem.signal_wait_until(flag, ">=", step)
            assert data[0] == 10 * step
            shmem.atomic_set(taken, 1, 0)
        if step == 1:
            if right:
                shmem.barrier_all()
            else:
                shmem.sync_all()
            if me == 0:
                shmem.atomic_set(taken, 0, 0)
                shmem.quiet()


@planted(kind="deadlock", sort="a buffer cleared for a message that may be there", source="vLLM PR #53000", rounds=3)
def the_next_buffer_is_cleared(right: bool) -> None:
    """Each word is its own flag. Each round clears the buffer of the next: too late if the other is ahead."""
    buffers = words(3)
    me = shmem.my_pe()
    n = 3 if right else 2
    for step in (1, 2, 3):
        here, cleared = step % n, (step + (2 if right else 1)) % n
        if right:
            shmem.atomic_set(buffers[cleared : cleared + 1], 0, me)
            shmem.quiet()
        shmem.atomic_set(buffers[here : here + 1], step, 1 - me)
        if not right:
            shmem.atomic_set(buffers[cleared : cleared + 1], 0, me)
        shmem.wait_until(buffers[here : here + 1], "==", step)


@planted(kind="deadlock", pes=3, sort="words of a barrier that are used again", source="vLLM PR #8558", rounds=2)
def two_barriers_with_the_same_words(right: bool) -> None:
    """Each tells each other that it has come, waits for both, and sets their words back: maybe those of the second."""
    came = words(3)
    me = shmem.my_pe()
    others = [pe for pe in range(3) if pe != me]
    for step in (1, 2):
        for pe in others:
            shmem.atomic_set(came[me : me + 1], step if right else 1, pe)
        shmem.quiet()
        for pe in others:
            shmem.wait_until(came[pe : pe + 1], ">=", step if right else 1)
        if not right:
            for pe in others:
                shmem.atomic_set(came[pe : pe + 1], 0, me)


@planted(kind="stale", profile="udma", sort="an epoch that stands still", source="rocm-systems #8560", rounds=2)
def an_exchange_repeated_as_it_was(right: bool) -> None:
    """A recorded call is made again with the epoch it was recorded with: what it waits for is there already."""
    halves = shmem.zeros(16, np.uint8)
    for step in (1, 2):
        epoch = step if right else 1
        half = halves[8 * (epoch % 2) : 8 * (epoch % 2) + 8]
        shmem.put_lines(half, np.array([5], np.uint32), 1 - shmem.my_pe(), shmem.LL, epoch)
        assert shmem.poll_lines(half, shmem.LL, epoch, 1, np.uint32)[0] == 5


@planted(kind="deadlock", sort="signals cleared that are still awaited", source="DeepEP #166", rounds=2)
def a_second_send_before_the_first_is_received(right: bool) -> None:
    """A send clears the words of the other parity, which the send before is still to be answered in."""
    came = words(2)
    me = shmem.my_pe()

    def send(step: int) -> None:
        other = (step + 1) % 2
        shmem.atomic_set(came[other : other + 1], 0, me)
        shmem.quiet()
        shmem.atomic_set(came[step % 2 : step % 2 + 1], step, 1 - me)

    def receive(step: int) -> None:
        shmem.wait_until(came[step % 2 : step % 2 + 1], "==", step)

    for call, step in [(send, 1), (receive, 1), (send, 2), (receive, 2)] if right else [
        (send, 1), (send, 2), (receive, 1), (receive, 2)
    ]:  # fmt: skip
        call(step)


@planted(pes=3, sort="a sum that says not of what", rounds=2)
def a_sum_of_two_flags(right: bool) -> None:
    """Both senders may be a round ahead. The sum of their rounds is that of two first messages if one sent two."""
    data, rounds = words(2), words(2)
    me = shmem.my_pe()
    if me:
        for step in (1, 2):
            if step == 1:
                shmem.put(data[me - 1 : me], value(5), 0)
                shmem.fence()
            shmem.atomic_inc(rounds[me - 1 : me] if right else rounds[:1], 0)
    else:
        for word, enough in [(rounds[:1], 1), (rounds[1:], 1)] if right else [(rounds[:1], 2)]:
            shmem.wait_until(word, ">=", enough)
        assert data.tolist() == [5, 5]


@planted(pes=3, sort="a token that overtakes the work", rounds=2, rare=True)
def a_token_that_comes_round_first(right: bool) -> None:
    """PE 0 gives PE 2 something to do, and ends all when a token was with all twice and has found none busy."""
    work, token, over = words(), words(), words()
    me = shmem.my_pe()
    if me == 0:
        shmem.atomic_inc(work, 2)
        if right:
            shmem.quiet()
    for turn in (1, 2):
        if me:
            shmem.wait_until(token, "==", turn)
        shmem.atomic_set(token, turn, (me + 1) % 3)
        if me == 0:
            shmem.wait_until(token, "==", turn)
    if me == 0:
        shmem.atomic_set(over, 1, 2)
    elif me == 2:
        shmem.wait_until(over, "==", 1)
        assert shmem.atomic_fetch(work, 2) == 1
