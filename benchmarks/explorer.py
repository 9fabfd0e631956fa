"""How long the explorer takes to the verdict on a toy LL protocol, against a search written by hand for it.

One PE sends messages of some words, each with its flag in the same eight bytes, one epoch after the other; the other
reads word by word and gives a credit at the end of each. `ours` runs the program, with real calls of `shmem`, under the
profile udma; the peer knows nothing but this protocol: its states are tuples, and it remembers them. Both look at
everything and find nothing wrong; with a credit that comes too early both find it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

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
State = tuple[int, int, int, int, int]


def ll(words: int, early: bool = False) -> None:
    """The protocol as a program. early: the credit is given before the last word is read."""
    lines, credit = shmem.zeros(8 * words, np.uint8), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        for epoch in range(1, EPOCHS + 1):
            shmem.put_lines(lines, np.full(words, epoch, np.uint32), 1, shmem.LL, epoch)
            shmem.signal_wait_until(credit, "==", epoch)
    else:
        for epoch in range(1, EPOCHS + 1):
            if early:
                shmem.signal_set(credit, epoch, 0)
            got = shmem.poll_lines(lines, shmem.LL, epoch, words, np.uint32, timeout=1)
            assert got.tolist() == [epoch] * words
            shmem.signal_set(credit, epoch, 0)


def by_hand(words: int, early: bool = False) -> tuple[bool, int]:
    """Whether every state leads on to the end, and how many there are. A state: epoch being sent, its words that have
    landed as bits, epoch being read, words of it that were read, credits that have landed."""
    whole = (1 << words) - 1
    start: State = (1, 0, 1, 0, 0)
    seen, todo, well = {start}, [start], True
    while todo:
        sent, landed, reading, read, credits = todo.pop()
        open_bits = [1 << i for i in range(words) if not landed >> i & 1]
        after: list[State] = [(sent, landed | bit, reading, read, credits) for bit in open_bits]
        if reading <= EPOCHS:
            if read < words and sent == reading and landed >> read & 1:
                after.append((sent, landed, reading, read + 1, credits))
            if read == words:
                after.append((sent, landed, reading + 1, 0, credits))
        given = reading if early else reading - 1
        if credits < min(given, EPOCHS):
            after.append((sent, landed, reading, read, credits + 1))
        if credits >= sent and sent < EPOCHS and (landed == whole or early):
            after.append((sent + 1, 0, reading, read, credits))
        well = well and (bool(after) or reading > EPOCHS)
        for state in after:
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return well, len(seen)


def search(words: int) -> Callable[[], tuple[float, int]]:
    """A search by ours, which returns its seconds and states. What comes before it (each PE gets its modules) and after
    (a second run of the first execution, to see that it is the same) is not in them."""
    program = prepare(ll, 2, "udma", (words,))

    def once() -> tuple[float, int]:
        with live(program):
            start = perf_counter()
            found = Search(lambda: Job(program)).run()
            taken = perf_counter() - start
        assert found.complete
        assert [end.kind for end in found.outcomes] == [""]
        return taken, found.states

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, small sizes")
    parser.add_argument("--out", help="folder for explorer.json")
    options = parser.parse_args()
    assert explore(ll, 2, "udma", args=(2, True)).failures, "ours finds the early credit"
    assert not by_hand(2, True)[0], "the peer finds the early credit"
    print("both find the early credit, and nothing else")
    report = common.header("explorer")
    rounds = 2 if options.quick else common.ROUNDS_MIN
    load = os.getloadavg()[0]
    for words in (4, 8) if options.quick else (8, 16, 32, 64):
        case = f"LL, {words} words, {EPOCHS} epochs"
        ours: list[float] = []
        peer: list[float] = []
        once = search(words)
        once()
        for _ in range(rounds):
            taken, states = once()
            ours.append(taken * 1e3)
            if words <= PEER_WORDS_MAX:
                start = perf_counter()
                well, theirs = by_hand(words)
                peer.append((perf_counter() - start) * 1e3)
                assert well
        report["rows"].append(common.row("explorer", f"{case}, {states} states", "ours", "ms", ours))
        if peer:
            report["rows"].append(common.row("explorer", f"{case}, {theirs} states", "by hand", "ms", peer))
            report["ratios"].append(common.ratio(case, "by hand", ours, peer, 1.0, load))
        print(f"{case}: ours {statistics.median(ours):.1f} ms, {states} states")
    common.show(report)
    common.finish(report, options.out)


if __name__ == "__main__":
    main()
