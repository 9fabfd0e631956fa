"""Ghost tags of lines: `poll_lines` takes each message once, whole, and only from who put it as lines."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.check.exploration import explore
from shmem.delivery.profiles import varied

from .messages import header_first, kinds
from .planted_tags import HALF_LL


def ll(words: int, flags: tuple[int, ...], lengths: tuple[int, ...], layout: shmem.Layout, clean: bool) -> None:
    """Messages of equal words to one slot, each once the one before was read."""
    slot, credit = shmem.zeros(layout.span(words * 4), np.uint8, align=layout.align), shmem.zeros(1, np.uint64)
    for step, (flag, n) in enumerate(zip(flags, lengths, strict=True), 1):
        if shmem.my_pe() == 0:
            lines = layout.lines(4 * words) if clean else None
            shmem.put_lines(slot, np.full(n, 5, np.uint32), 1, layout, flag, lines=lines)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            assert (shmem.poll_lines(slot, layout, flag, n, np.uint32) == 5).all()
            shmem.signal_set(credit, step, 0)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("layout", [shmem.LL, shmem.LL16, shmem.LLA2A], ids=lambda one: one.name)
def test_right_messages_raise_no_alarm(layout: shmem.Layout, clean: bool) -> None:
    """Also where flags come again once their lines were cleaned."""
    assert kinds(ll, 4, (1, 2, 3), (4, 2, 3), layout, False, profile="udma") == []
    assert kinds(ll, 4, (1, 2, 1, 2, 1), (4, 2, 4, 3, 4), layout, True, profile="udma") == []
    assert kinds(ll, 3, (1, 2, 1, 2), (3, 3, 3, 3), layout, clean, profile="udma") == []


def test_lines_that_keep_their_order_raise_no_alarm() -> None:
    ordered = varied("rc_strict", unit=8, units="ascending")
    assert kinds(ll, 4, (1, 2), (4, 3), shmem.LL64, False, profile=ordered) == []
    assert kinds(ll, 4, (1, 2), (4, 3), HALF_LL, False, profile="udma") == []


def test_the_same_flags_without_cleaning_are_stale() -> None:
    assert kinds(ll, 2, (1, 2, 1), (2, 1, 2), shmem.LL, False, profile="udma") == ["stale"]


def test_untouched_memory_is_no_message() -> None:
    """Flag 0 is what zeroed memory has."""
    assert kinds(ll, 1, (0,), (1,), shmem.LL, False, profile="udma") == ["stale"]


def tiles(short: int) -> None:
    """The second word of the first message is the tag of the second message, which is short."""
    layout = shmem.Layout("TILE", 32, ((0, 24),), (24,), 8, align=32, short=short)
    tile, credit = shmem.zeros(32, np.uint8, align=32), shmem.zeros(1, np.uint64)
    for step, n in ((1, 3), (2, 1)):
        if shmem.my_pe() == 0:
            shmem.put_lines(tile, np.array([5, 2, 2][:n], np.uint64), 1, layout, step)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            assert shmem.poll_lines(tile, layout, step, n, np.uint64)[0] == 5
            shmem.signal_set(credit, step, 0)


def test_payload_is_no_flag() -> None:
    whole = varied("udma", unit=32)
    assert kinds(tiles, 8, profile=whole) == ["stale", "torn"]  # torn where the message comes after its tag was seen
    assert kinds(tiles, 0, profile=whole) == []


def unread(flag: int, n: int) -> None:
    """A message with flag 1 that nobody has taken has the word 2 where a shorter one would have its flag."""
    layout = shmem.Layout("TILE", 32, ((0, 24),), (24,), 8, align=32, short=8)
    tile = shmem.zeros(32, np.uint8, align=32)
    if shmem.my_pe() == 0:
        shmem.put_lines(tile, np.array([5, 2, 5], np.uint64), 1, layout, 1)
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        assert shmem.poll_lines(tile, layout, flag, n, np.uint64)[0] == 5


def test_payload_of_an_unread_message_is_no_flag_either() -> None:
    assert kinds(unread, 2, 1) == ["stale"]
    assert kinds(unread, 1, 3) == []


def loaded_twice() -> None:
    """Flag and payload are in one cell, and are loaded once more after the flag was seen."""
    layout = shmem.Layout("TWICE", 8, ((0, 4),), (4,), reader=shmem.Reader.RELOAD)
    slot = shmem.zeros(8, np.uint8)
    if shmem.my_pe() == 0:
        shmem.put_lines(slot, np.array([5], np.uint32), 1, layout, 1)
        shmem.put(slot, np.array([5, 9], np.uint32).view(np.uint8), 1)
    else:
        shmem.poll_lines(slot, layout, 1, 1, np.uint32)


def test_a_flag_is_judged_as_it_was_seen() -> None:
    assert kinds(loaded_twice, profile="udma") == ["clobber", "deadlock"]


def test_more_of_a_message_may_be_read_but_not_the_same_again() -> None:
    assert kinds(header_first, False, profile="udma") == []
    assert kinds(header_first, True, profile="udma") == ["stale"]


def in_turn(flags: tuple[int, int]) -> None:
    """Two senders, one after the other, into one slot."""
    slot, turn = shmem.zeros(8, np.uint8), shmem.zeros(1, np.uint64)
    me = shmem.my_pe()
    if me:
        shmem.signal_wait_until(turn, ">=", me)
        shmem.put_lines(slot, np.array([7], np.uint32), 0, shmem.LL, flags[me - 1])
    else:
        for i in (1, 2):
            shmem.signal_set(turn, i, i)
            shmem.poll_lines(slot, shmem.LL, flags[i - 1], 1, np.uint32)


def test_senders_may_take_turns() -> None:
    assert kinds(in_turn, (1, 2), pes=3, profile="udma") == []
    assert kinds(in_turn, (1, 1), pes=3, profile="udma") == ["stale"]


def relay(right: bool) -> None:
    """PE 0 puts lines to PE 1, which gets them from itself into another place, and polls that."""
    slot, copy = shmem.zeros(16, np.uint8), shmem.zeros(16, np.uint8)
    if shmem.my_pe() == 0:
        shmem.put_lines(slot, np.array([5, 5], np.uint32), 1, shmem.LL, 1)
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        for i in range(1 if right else 2):
            if i == 0:
                shmem.get(copy, slot, 1)
            assert (shmem.poll_lines(copy, shmem.LL, 1, 2, np.uint32) == 5).all()


def test_lines_that_were_not_put_as_lines() -> None:
    assert kinds(relay, True) == []
    assert kinds(relay, False) == ["stale"]


def by_stores() -> None:
    """Lines that the sender stores through `ptr`."""
    slot = shmem.zeros(8, np.uint8)
    peer = shmem.ptr(slot, 1)
    for _ in range(2):
        if shmem.my_pe() == 0:
            peer[:] = np.array([5, 1], np.uint32).view(np.uint8)
        shmem.barrier_all()
        if shmem.my_pe() == 1:
            assert shmem.poll_lines(slot, shmem.LL, 1, 1, np.uint32)[0] == 5
        shmem.barrier_all()


def test_stores_of_another_pe_raise_no_alarm() -> None:
    assert kinds(by_stores) == []


def looking(right: bool) -> None:
    slot, credit = shmem.zeros(8, np.uint8), shmem.zeros(1, np.uint64)
    for step in (1, 2):
        if shmem.my_pe() == 0:
            shmem.put_lines(slot, np.array([5], np.uint32), 1, shmem.LL, step if right else 1)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            while shmem.test_lines(slot, shmem.LL, step if right else 1, 1, np.uint32) is None:
                shmem.spin()
            shmem.signal_set(credit, step, 0)


def test_a_look_that_finds_lines_takes_them() -> None:
    assert kinds(looking, True, profile="udma") == []
    assert kinds(looking, False, profile="udma") == ["stale"]


def in_a_stream(right: bool) -> None:
    slot, credit = shmem.zeros(8, np.uint8), shmem.zeros(1, np.uint64)
    out = np.zeros(1, np.uint32)
    if shmem.my_pe() == 0:
        for step in (1, 2):
            shmem.put_lines(slot, np.array([5], np.uint32), 1, shmem.LL, step)
            shmem.signal_wait_until(credit, ">=", step)
        return
    stream = shmem.Stream()
    for step in (1, 2):
        batch = shmem.Batch()
        batch.poll_lines(slot, shmem.LL, step, out)
        batch.launch(stream).wait()
        if step == 1 and not right:
            batch.launch(stream).wait()
        shmem.signal_set(credit, step, 0)
    stream.close()


def test_a_batch_on_a_stream_is_judged_too() -> None:
    assert kinds(in_a_stream, True, profile="udma") == []
    assert "stale" in {one.kind for one in explore(in_a_stream, 2, "udma", args=(False,), budget=50).failures}


def by_workers() -> None:
    """Both workers read the whole message, then one gives the credit."""
    slot, credit = shmem.zeros(8, np.uint8), shmem.zeros(1, np.uint64)
    for step in (1, 2):
        if shmem.my_pe() == 0:
            shmem.put_lines(slot, np.array([5], np.uint32), 1, shmem.LL, step)
            shmem.signal_wait_until(credit, ">=", step)
        else:
            shmem.workers(2, lambda k, step=step: shmem.poll_lines(slot, shmem.LL, step, 1, np.uint32))  # type: ignore[misc]
            shmem.signal_set(credit, step, 0)


def test_workers_may_read_the_same_message() -> None:
    report = explore(by_workers, 2, "udma", "random", budget=100)
    assert report.ok, report
