"""How long the explorer takes to the verdict on a toy LL protocol, against a search written by hand for it.

One PE sends messages of some words, each with its flag in the same eight bytes, one epoch after the other; the other
reads word by word and gives a credit at the end of each. `ours` runs the program, with real calls of `shmem`; the peer
knows nothing but this protocol: its states are tuples, and it remembers them. Both look at everything and find nothing
wrong; with a credit that comes too early both find it.

There are two models. Word by word: each word is posted by a call of its own, and words land in any order (profile
`srd`); of an epoch the peer sees, after p of w words were posted, those that landed in any combination and the reader
at any word that it can have reached, 2**(p+1) - 1 states, together 2**(w+2) - w - 3, and two more for the
credit: 3,045 states for 8 words and 3 epochs. Whole: a message is posted by one call (profile `udma`, in which it
is one work request of w units): 2**(w+1) - 1 states an epoch and two for the credit, 1,539 in all.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import common
import numpy as np

import shmem
from shmem.check.dpor import Search
from shmem.check.exploration import explore, prepare
from shmem.check.surroundings import live
from shmem.fabric.sim import Job

EPOCHS = 3
PEER_WORDS_MAX = 10  # 2**words states an epoch
PROFILE = {False: "srd", True: "udma"}  # in which what is posted lands in any order, but a put may wait for its target
State = tuple[int, int, int, int, int, int]


def ll(words: int, whole: bool = False, early: bool = False) -> None:
    """The protocol as a program. whole: a message is one call. early: the credit is given before the last word is
    read."""
    lines, credit = shmem.zeros(8 * words, np.uint8), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        for epoch in range(1, EPOCHS + 1):
            payload, step = np.full(words, epoch, np.uint32), words if whole else 1
            for i in range(0, words, step):
                shmem.put_lines(lines[8 * i : 8 * (i + step)], payload[i : i + step], 1, shmem.LL, epoch)
            shmem.signal_wait_until(credit, "==", epoch)
    else:
        for epoch in range(1, EPOCHS + 1):
            if early:
                shmem.signal_set(credit, epoch, 0)
            got = shmem.poll_lines(lines, shmem.LL, epoch, words, np.uint32, timeout=1)
            assert got.tolist() == [epoch] * words
            shmem.signal_set(credit, epoch, 0)


def by_hand(words: int, whole: bool = False, early: bool = False) -> tuple[bool, int]:
    """Whether every state leads on to the end, and how many there are. A state: epoch being sent, its words that were
    posted, those that have landed as bits, epoch being read, words of it that were read, credits that have landed."""
    everything = (1 << words) - 1
    first = words if whole else 0
    start: State = (1, first, 0, 1, 0, 0)
    seen, todo, well = {start}, [start], True
    while todo:
        sent, posted, landed, reading, read, credits = todo.pop()
        open_bits = [1 << i for i in range(posted) if not landed >> i & 1]
        after: list[State] = [(sent, posted, landed | bit, reading, read, credits) for bit in open_bits]
        if posted < words:
            after.append((sent, posted + 1, landed, reading, read, credits))
        if reading <= EPOCHS:
            if read < words and sent == reading and landed >> read & 1:
                after.append((sent, posted, landed, reading, read + 1, credits))
            if read == words:
                after.append((sent, posted, landed, reading + 1, 0, credits))
        given = reading if early else reading - 1
        if credits < min(given, EPOCHS):
            after.append((sent, posted, landed, reading, read, credits + 1))
        if credits >= sent and sent < EPOCHS and posted == words and (landed == everything or early):
            after.append((sent + 1, first, 0, reading, read, credits))
        well = well and (bool(after) or reading > EPOCHS)
        for state in after:
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return well, len(seen)


def search(words: int, whole: bool) -> Callable[[], tuple[float, int]]:
    """A search by ours, which returns its seconds and states. What comes before it (each PE gets its modules) and after
    (a second run of the first execution, to see that it is the same) is not in them."""
    program = prepare(ll, 2, PROFILE[whole], (words, whole))

    def once() -> tuple[float, int]:
        with live(program):
            start = perf_counter()
            found = Search(lambda: Job(program)).run()
            gc.collect(0)  # what it leaves behind is its own
            taken = perf_counter() - start
        assert found.complete
        assert [end.kind for end in found.outcomes] == [""]
        return taken, found.states

    return once


def compare(report: dict[str, Any], words: int, whole: bool, rounds: int) -> None:
    """Adds what a search takes, and the peer where it can."""
    case = f"LL, {words} words, {EPOCHS} epochs, {'whole' if whole else 'word by word'}"
    load = os.getloadavg()[0]
    once = search(words, whole)
    once()
    ours: list[float] = []
    peer: list[float] = []
    for _ in range(rounds):
        taken, states = once()
        ours.append(taken * 1e3)
        if words <= PEER_WORDS_MAX:
            start = perf_counter()
            well, theirs = by_hand(words, whole)
            peer.append((perf_counter() - start) * 1e3)
            assert well
    report["rows"].append(common.row("explorer", f"{case}, {states} states", "ours", "ms", ours))
    if peer:
        report["rows"].append(common.row("explorer", f"{case}, {theirs} states", "by hand", "ms", peer))
        report["ratios"].append(common.ratio(case, "by hand", ours, peer, 1.0, load))
    each = statistics.median(ours) / states * 1e3
    print(f"{case}: ours {statistics.median(ours):.1f} ms, {states} states, {each:.0f} us each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, small sizes")
    parser.add_argument("--out", help="folder for explorer.json")
    options = parser.parse_args()
    for whole in (False, True):
        assert explore(ll, 2, PROFILE[whole], args=(2, whole, True)).failures, "ours finds the early credit"
        assert not by_hand(2, whole, True)[0], "the peer finds the early credit"
    print("both find the early credit, and nothing else")
    report = common.header("explorer")
    for whole in (False, True):
        for words in (4, 8) if options.quick else (8, 16, 32, 64):
            compare(report, words, whole, 2 if options.quick else common.ROUNDS_MIN)
    common.show(report)
    common.finish(report, options.out)


if __name__ == "__main__":
    main()
