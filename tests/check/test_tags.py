"""Ghost tags: what `check.accept` and `poll_lines` say of bytes, by who wrote them. See docs/check.md, "Messages"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import dpor, eager
from shmem.check.exploration import explore, prepare
from shmem.check.report import Report
from shmem.check.surroundings import live
from shmem.delivery.profiles import varied
from shmem.fabric.sim import Job

from .planted_tags import HALF_LL

ME, SENDER, OTHER = 0, 1, 2
Act = tuple[int, int | None, int, int]  # a PE writes words [first, end), as part of a message or not


def after(acts: tuple[Act, ...]) -> None:
    """One act after the other; then PE 0 takes two words for message 5 of PE 1."""
    box = shmem.zeros(2, np.uint64)
    for pe, number, first, end in acts:
        if shmem.my_pe() == pe:
            words = np.zeros(end - first, np.uint64)  # what was there already
            if number is not None:
                with shmem.check.tagged(number):
                    shmem.put(box[first:end], words, ME)
            elif pe == ME:
                box[first:end] = words
            else:
                shmem.put(box[first:end], words, ME)
        shmem.barrier_all()
    if shmem.my_pe() == ME:
        shmem.check.accept(box, (SENDER, 5))


def kinds(program: Callable[..., Any], *args: Any, pes: int = 2, profile: Any = "tso", **options: Any) -> list[str]:
    """How the program can fail."""
    report: Report = explore(program, pes, profile, args=args, keep_going=True, **options)
    assert report.complete, report
    return sorted({failure.kind for failure in report.failures})


WHOLE = (SENDER, 5, 0, 2)
ACCEPTS: dict[str, tuple[tuple[Act, ...], str]] = {
    "the message": ((WHOLE,), ""),
    "in two parts": (((SENDER, 5, 1, 2), (SENDER, 5, 0, 1)), ""),
    "over an older one": (((SENDER, 4, 0, 2), WHOLE), ""),
    "over a later one": (((SENDER, 6, 0, 2), WHOLE), ""),
    "nothing": ((), "stale"),
    "an older one": (((SENDER, 4, 0, 2),), "stale"),
    "an own store": (((ME, None, 0, 2),), "stale"),
    "no message": (((SENDER, None, 0, 2),), "stale"),
    "another sender's": (((OTHER, 5, 0, 2),), "stale"),
    "half of it": (((SENDER, 5, 0, 1),), "torn"),
    "half of it over an older one": (((SENDER, 4, 0, 2), (SENDER, 5, 1, 2)), "torn"),
    "a later one": (((SENDER, 6, 0, 2),), "clobber"),
    "half of a later one": (((SENDER, 6, 0, 1),), "clobber"),
    "a later one over it": ((WHOLE, (SENDER, 6, 1, 2)), "clobber"),
    "an older one over it": ((WHOLE, (SENDER, 4, 0, 1)), "clobber"),
    "an own store over it": ((WHOLE, (ME, None, 0, 1)), "clobber"),
    "no message over it": ((WHOLE, (SENDER, None, 1, 2)), "clobber"),
    "another sender's over it": ((WHOLE, (OTHER, 5, 0, 2)), "clobber"),
    "overwritten, then sent again": ((WHOLE, (SENDER, 6, 0, 2), WHOLE), ""),
}


@pytest.mark.parametrize("case", ACCEPTS)
def test_what_is_accepted(case: str) -> None:
    acts, kind = ACCEPTS[case]
    assert kinds(after, acts, pes=3) == ([kind] if kind else [])


def calls(how: str) -> None:
    """One message by some call, which the receiver is told of by a barrier."""
    box, signal = shmem.zeros(2, np.uint64, align=64), shmem.zeros(1, np.uint64)
    two = np.zeros(2, np.uint64)
    peer = shmem.ptr(box, 1)
    if shmem.my_pe() == 0:
        if how == "stream":
            stream = shmem.Stream()
        with shmem.check.tagged(3):
            if how == "put_nbi":
                shmem.put_nbi(box, two, 1)
            elif how == "put_signal":
                shmem.put_signal(box, two, 1, signal, 1, shmem.SIGNAL_SET)
            elif how == "iput":
                shmem.iput(box, two, 1, 1, 2, 1)
                shmem.iput(box[1:], two, 1, 1, 1, 1)
            elif how == "atomics":
                shmem.atomic_set(box[:1], 0, 1)
                shmem.atomic_add(box[1:], 0, 1)
            elif how == "p":
                shmem.p(box[:1], 0, 1)
                shmem.p(box[1:], 0, 1)
            elif how == "ptr":
                peer[:] = two
            elif how == "lines":
                shmem.put_lines(box, np.zeros(2, np.uint32), 1, shmem.LL, 0)
            elif how == "batch":
                batch = shmem.Batch()
                batch.put(box, two, 1)
                batch.run()
            elif how == "stream":
                batch = shmem.Batch()
                batch.put(box, two, 1)
                done = batch.launch(stream)
        if how == "stream":
            done.wait()
            stream.close()
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        shmem.check.accept(box, (0, 3))
        if how == "put_signal":
            shmem.check.accept(signal, (0, 3))


CALLS = ["put_nbi", "put_signal", "iput", "atomics", "p", "ptr", "lines", "batch", "stream"]


@pytest.mark.parametrize("profile", ["openshmem", "tso"])
@pytest.mark.parametrize("how", CALLS)
def test_every_call_carries_the_tag(how: str, profile: str) -> None:
    report = explore(calls, 2, varied(profile, unit=8), args=(how,), budget=300)
    assert report.ok, report


def by_requests() -> None:
    """A queue pair under a profile that keeps no order: the flag may pass the data, which change nothing."""
    data, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    here, word = nic.register(data), nic.register(flag)
    there = 1 - shmem.my_pe()
    qp = nic.QueuePair(there, nic.CompletionQueue())
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            for value, segment in ((0, here), (1, word)):
                remote = nic.import_segment(segment, there)
                local = np.full(1, value, np.uint64)
                qp.post(nic.WorkRequest(nic.WRITE, local=local, remote=remote, inline=True))
    else:
        shmem.wait_until(flag, "==", 1)
        shmem.check.accept(flag, (0, 1))
        shmem.check.accept(data, (0, 1))


def test_requests_of_queue_pairs_carry_the_tag() -> None:
    assert kinds(by_requests, profile="rc_strict") == []
    assert kinds(by_requests, profile="udma") == ["stale"]


def nested() -> None:
    box = shmem.zeros(3, np.uint64)
    one = np.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            with shmem.check.tagged(2):
                shmem.put(box[:1], one, 1)
            shmem.put(box[1:2], one, 1)
        shmem.put(box[2:], one, 1)
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        shmem.check.accept(box[:1], (0, 2))
        shmem.check.accept(box[1:2], (0, 1))
        shmem.check.accept(box[:0], (0, 9))
        shmem.check.accept(box[2:], (0, 1))


def test_blocks_end_where_they_end() -> None:
    assert kinds(nested) == ["stale"]


def rows() -> None:
    """Only the column of a matrix is the message."""
    box = shmem.zeros((3, 2), np.uint32)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            shmem.iput(box.reshape(-1), np.zeros(3, np.uint32), 1, 2, 1, 3)
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        shmem.check.accept(box[::-1, 0], (0, 1))
        shmem.check.accept(box, (0, 1))


def test_only_the_view_is_looked_at() -> None:
    assert kinds(rows) == ["torn"]


def overtaking(plain: bool) -> None:
    """The flag is seen by a plain load or by a wait."""
    box, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            shmem.put(box, np.zeros(1, np.uint64), 1)
        shmem.put(flag, np.ones(1, np.uint64), 1)
        return
    if plain:
        while not flag[0]:
            shmem.spin()
    else:
        shmem.wait_until(flag, "==", 1)
    shmem.check.accept(box, (0, 1))


def test_a_lazy_reader_accepts_what_it_sees() -> None:
    lazy = varied("rc_strict", unit=8, reader="lazy")
    assert kinds(overtaking, True, profile=lazy) == ["stale"]
    assert kinds(overtaking, False, profile=lazy) == []
    assert kinds(overtaking, True, profile="rc_strict") == []


def stored_over() -> None:
    """The message is placed, and not seen yet, when its reader stores over it."""
    box, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            shmem.put(box, np.zeros(1, np.uint64), 1)
        shmem.put(flag, np.ones(1, np.uint64), 1)
    else:
        while not flag[0]:
            shmem.spin()
        with shmem.check.tagged(2):
            box[0] = 0
        shmem.check.accept(box, (1, 2))
        shmem.quiet()  # everything is seen
        shmem.check.accept(box, (1, 2))


def test_what_is_seen_late_undoes_no_store() -> None:
    assert kinds(stored_over, profile=varied("rc_strict", unit=8, reader="lazy")) == []


def own_words() -> None:
    """A PE accepts what it has stored itself, which others may not see yet."""
    box = shmem.zeros(2, np.uint64)
    with shmem.check.tagged(4):
        box[:] = 0
    shmem.check.accept(box, (shmem.my_pe(), 4))


@pytest.mark.parametrize("reader", ["coherent", "lazy"])
@pytest.mark.parametrize("profile", ["tso", "rc_strict", "openshmem"])
def test_own_stores_are_there_at_once(profile: str, reader: str) -> None:
    chosen = profile if reader == "coherent" or profile == "tso" else varied(profile, reader=reader)
    assert explore(own_words, 2, chosen, budget=300).ok


WRONG: dict[str, tuple[Callable[[Any], object], type[Exception]]] = {
    "a private copy": (lambda box: shmem.check.accept(box.copy(), (0, 1)), shmem.NotSymmetric),
    "no array": (lambda box: shmem.check.accept([1], (0, 1)), shmem.DtypeError),  # type: ignore[arg-type]
    "no PE": (lambda box: shmem.check.accept(box, (2, 1)), shmem.InvalidPE),
    "no pair": (lambda box: shmem.check.accept(box, 1), shmem.ArgumentError),  # type: ignore[arg-type]
    "no number": (lambda box: shmem.check.accept(box, (0, "1")), shmem.ArgumentError),  # type: ignore[arg-type]
    "no tag": (lambda box: shmem.check.tagged(1.5).__enter__(), shmem.ArgumentError),  # type: ignore[arg-type, func-returns-value]
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case: str) -> None:
    act, error = WRONG[case]

    def program() -> None:
        act(shmem.zeros(1, np.uint64))

    with pytest.raises(error):
        shmem.run(program, 2)


def test_a_run_raises_it() -> None:
    with pytest.raises(shmem.AcceptError, match="message 5 of PE 1 is not there") as found:
        shmem.run(lambda: after(((SENDER, 4, 0, 2),)), 3)
    assert (found.value.kind, found.value.pe) == ("stale", ME)


def test_virtual_time_judges_nothing() -> None:
    shmem.run(lambda: after(((SENDER, 4, 0, 2),)), 3, clock="node")
    shmem.run(lambda: header_first(True), 2, clock="node")


# ---- lines ----


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


def header_first(again: bool) -> None:
    """The first word is the length; then the whole message is read, with that word once more."""
    slot = shmem.zeros(16, np.uint8)
    if shmem.my_pe() == 0:
        shmem.put_lines(slot, np.array([1, 7], np.uint32), 1, shmem.LL, 3)
    else:
        n = int(shmem.poll_lines(slot, shmem.LL, 3, 1, np.uint32)[0])
        assert shmem.poll_lines(slot, shmem.LL, 3, 1 + n, np.uint32)[1] == 7
        if again:
            shmem.poll_lines(slot, shmem.LL, 3, 2, np.uint32)


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


# ---- the search ----


def silent(put: bool) -> None:
    """The message is what memory holds already; the receiver is told too early, or by a signal that covers it."""
    box, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            if put:
                shmem.put(box, np.zeros(1, np.uint64), 1)
                shmem.p(flag, 1, 1)
            else:
                shmem.put_signal(box, np.zeros(1, np.uint64), 1, flag, 1, shmem.SIGNAL_SET)
    else:
        shmem.signal_wait_until(flag, "==", 1)
        shmem.check.accept(box, (0, 1))


@pytest.mark.parametrize("strategy", ["exhaustive", "eager", "random", "pct", "delay"])
def test_a_write_that_changes_no_byte_is_seen_by_who_asks(strategy: str) -> None:
    profile = varied("openshmem", unit=8)
    report = explore(silent, 2, profile, strategy, args=(True,), budget=300)
    assert [failure.kind for failure in report.failures] == ["stale"]
    assert explore(silent, 2, profile, strategy, args=(False,), budget=300).ok


def two_writers() -> None:
    """Both write what is there already, in either order; no loads, so nobody is told of it."""
    box = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            shmem.put(box, np.zeros(1, np.uint64), 1)
    else:
        box[0] = 0
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        shmem.check.accept(box, (0, 1))


def test_states_that_differ_in_tags_are_two() -> None:
    program = prepare(two_writers, 2, varied("openshmem", unit=8), ())
    with live(program):
        plain = dpor.Search(lambda: Job(program)).run()
        hashed = eager.search(lambda: Job(program), digest=Job.digest)  # type: ignore[arg-type]
    assert plain.complete
    assert hashed.complete
    assert set(plain.outcomes) == set(hashed.outcomes)
    assert len(plain.outcomes) == 2


def unasked() -> None:
    box = shmem.zeros(1, np.uint64)
    if shmem.my_pe():
        shmem.put(box, np.zeros(1, np.uint64), 0)
    else:
        _ = box[0]


def test_it_costs_no_state_where_nobody_asks() -> None:
    report = explore(unasked, 2, varied("openshmem", unit=8))
    assert (report.complete, report.executions) == (True, 1)
