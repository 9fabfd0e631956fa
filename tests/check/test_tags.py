"""Ghost tags: what `check.accept` says of bytes, by who wrote them. See docs/check.md, "Messages".

`test_tags_of_lines` has what `poll_lines` says, `test_tags_search` what tags are to the search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check.exploration import explore
from shmem.delivery.profiles import varied

from .messages import ME, OTHER, SENDER, Act, after, header_first, kinds

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
