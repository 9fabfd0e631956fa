"""Bugs in data structures that PEs share, each beside its repair, as in `planted`. All of it is atomics on PE 0.

What goes wrong needs one PE to stand still while the other does many steps, so random runs hardly ever show it.
"""

from __future__ import annotations

from typing import Any

import shmem

from .planted import planted, words


def loaded(word: Any) -> int:
    """A word of PE 0."""
    return int(shmem.atomic_fetch(word, 0))


def stored(word: Any, number: int) -> None:
    """Puts a number into a word of PE 0; it is there when this returns."""
    shmem.atomic_set(word, number, 0)
    shmem.quiet()


def swapped(word: Any, old: int, new: int) -> bool:
    """Puts a number into a word of PE 0 if it is as before."""
    return int(shmem.atomic_compare_swap(word, old, new, 0)) == old


class Stack:
    """Nodes 1 to 3, the first on top; `top` is a node's number and, if it is to be safe, how often it was changed."""

    def __init__(self, counted: bool) -> None:
        self.counted, self.top, self.below = counted, words(), words(4)
        if shmem.my_pe() == 0:
            self.top[0], self.below[1], self.below[2] = 1, 2, 3
        shmem.barrier_all()

    def put(self, old: int, node: int) -> bool:
        """A node becomes the top."""
        return swapped(self.top, old, node + (old // 16 + 1) * 16 * self.counted)

    def pop(self) -> int:
        """Takes the top, in one attempt; 0 if another PE was there."""
        old = loaded(self.top)
        node = old % 16
        under = loaded(self.below[node : node + 1])
        return node if self.put(old, under) else 0

    def push(self, node: int) -> bool:
        """Gives a node back, in one attempt."""
        old = loaded(self.top)
        stored(self.below[node : node + 1], old % 16)
        return self.put(old, node)


@planted(sort="a word that is as before though what it leads to is not", rare=True)
def a_stack_whose_top_comes_back(right: bool) -> None:
    """While PE 0 takes the top, PE 1 takes two nodes and gives the first back: what lay below it is taken."""
    stack, held = Stack(counted=right), words()
    if shmem.my_pe() == 0:
        stack.pop()
    elif (first := stack.pop()) and (second := stack.pop()) and stack.push(first):
        shmem.atomic_set(held, second, 0)
    shmem.barrier_all()
    assert shmem.my_pe() or not held[0] or stack.top[0] % 16 != held[0]


@planted(sort="a version that comes round", rare=True)
def a_version_modulo_six(right: bool) -> None:
    """A reader takes two words for one state if their version is even and did not change; it did so six times."""
    version, first, second = words(), words(), words()
    period = 64 if right else 6
    if shmem.my_pe() == 0:
        for update in (1, 2, 3):
            stored(version, (2 * update - 1) % period)
            stored(first, update)
            stored(second, update)
            stored(version, 2 * update % period)
    else:
        before = loaded(version)
        one, other = loaded(first), loaded(second)
        assert before % 2 or loaded(version) != before or one == other


@planted(sort="a buffer filled again while it is read", rounds=2)
def two_buffers_and_a_slow_reader(right: bool) -> None:
    """The reader looks which of the buffers is the newer one; the writer may fill it again before it was read."""
    newest, buffers = words(), words(4)
    if shmem.my_pe() == 0:
        for update in (1, 2, 3):
            here = update % 2 * 2
            stored(buffers[here : here + 1], update)
            stored(buffers[here + 1 : here + 2], update)
            stored(newest, update)
    else:
        which = loaded(newest)
        here = which % 2 * 2
        one, other = loaded(buffers[here : here + 1]), loaded(buffers[here + 1 : here + 2])
        assert (right and loaded(newest) != which) or one == other


@planted(sort="two words read in the wrong order", rare=True)
def a_thief_that_looks_at_the_end_first(right: bool) -> None:
    """Two tasks, taken from the end by their owner and from the start by a thief. It has the end as it was, and the
    start as it is: and takes a task that was taken."""
    start, end, taken = words(), words(), words(2)
    if shmem.my_pe() == 0:
        end[0] = 2
    shmem.barrier_all()
    if shmem.my_pe() == 0:
        for last in (1, 0):
            stored(end, last)
            here = loaded(start)
            if last > here or (last == here and swapped(start, here, here + 1)):
                shmem.atomic_inc(taken[last : last + 1], 0)
            if last <= here:
                stored(end, here + 1)
                break
    else:
        words_read = [loaded(word) for word in ((start, end) if right else (end, start))]
        here, there = words_read if right else words_read[::-1]
        if here < there and swapped(start, here, here + 1):
            shmem.atomic_inc(taken[here : here + 1], 0)
    shmem.barrier_all()
    assert shmem.my_pe() or max(taken.tolist()) == 1


@planted(pes=3, sort="a test for the end that misses what is on its way", rare=True)
def an_end_that_was_counted_wrong(right: bool) -> None:
    """PE 2 takes all for done if as many messages were dealt with as sent. Where it counts those sent first, one can be
    dealt with, and have led to another one, before it counts the others."""
    sent, dealt, over = words(2), words(2), words()
    box = words()
    me = shmem.my_pe()
    if me == 0:
        sent[0] = 1
    shmem.barrier_all()
    if me == 2:
        looks, on_the_way = [(sent, 0), (sent, 1), (dealt, 1), (dealt, 0)], 0
        for counts, pe in looks[::-1] if right else looks:
            number = int(shmem.atomic_fetch(counts[pe : pe + 1], pe))
            on_the_way += number if counts is sent else -number
        assert on_the_way or loaded(over)
        return
    if me == 0:
        shmem.atomic_set(box, 1, 1)
        shmem.wait_until(box, "==", 1)
        shmem.atomic_set(over, 1, 0)
    else:
        shmem.wait_until(box, "==", 1)
        shmem.atomic_inc(sent[1:], 1)
        shmem.quiet()
        shmem.atomic_set(box, 1, 0)
    shmem.quiet()
    shmem.atomic_inc(dealt[me : me + 1], me)
    shmem.quiet()
