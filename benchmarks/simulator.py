"""How many events a second virtual time goes through, and what a run costs beside the same run without a clock.

An event is a turn of the clock: a message leaves its port, arrives, is acknowledged; a program goes on. The rate is
that of the simulation itself; milliseconds are those of the whole call, which gives each PE its copies of modules.
Programs are all-to-alls of small puts with a barrier after each, rings of signals, and large striped puts; what they
return is checked, and the time where there is a closed form. `usual order` is `shmem.run` without a clock.
"""

from __future__ import annotations

import argparse
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
from shmem.check.timing import Timing, simulate
from shmem.delivery.model import Link, Model
from shmem.delivery.profiles import varied

MINUTE = 60
MODEL = Model("benchmark", {"network": Link(2.0, 0.2, 0.1, 25.0, rails=4)}, receive_us=0.1)
LINK = MODEL.link("network")
STRIPED = varied("rc_strict", stripes=4, stripe_bytes=1 << 16)


def all_to_all(rounds: int) -> int:
    """Each PE puts a number to each, itself included; the sum of what it got."""
    me, n = shmem.my_pe(), shmem.n_pes()
    box = shmem.zeros((rounds, n), np.int64)
    for i in range(rounds):
        for d in range(n):
            shmem.p(box[i, me : me + 1], me + 1, (me + d) % n)
        shmem.barrier_all()
    return int(box.sum())


def ring(rounds: int) -> float:
    """A signal goes round; what that took, in microseconds."""
    me, n = shmem.my_pe(), shmem.n_pes()
    signal = shmem.zeros(1, np.uint64)
    shmem.barrier_all()
    start = shmem.virtual_time()
    for i in range(1, rounds + 1):
        if me:
            shmem.signal_wait_until(signal, "==", i)
        shmem.signal_set(signal, i, (me + 1) % n)
        if not me:
            shmem.signal_wait_until(signal, "==", i)
    return (shmem.virtual_time() - start) * 1e6


def large(puts: int) -> bool:
    """Each PE puts MiBs to the next."""
    me, n = shmem.my_pe(), shmem.n_pes()
    box, data = shmem.zeros(1 << 20, np.uint8), np.full(1 << 20, me, np.uint8)
    for _ in range(puts):
        shmem.put(box, data, (me + 1) % n)
    shmem.barrier_all()
    return bool((box == (me - 1) % n).all())


def sums_are_right(found: Timing, n: int, rounds: int) -> bool:
    """Whether every PE has got a number from each."""
    return found.results == [rounds * sum(range(1, n + 1))] * n


def ring_is_right(found: Timing, n: int, rounds: int) -> bool:
    """Whether PE 0 has waited for all hops."""
    hop = LINK.overhead_us + LINK.bytes_us(8) + LINK.latency_us + MODEL.receive_us
    return abs(found.results[0] - rounds * n * hop) < 1e-6 * rounds * n


def bytes_are_right(found: Timing, n: int, rounds: int) -> bool:
    """Whether every PE has got those of the one before it."""
    return all(found.results)


Case = tuple[str, Callable[[int], Any], int, int, Any, Callable[[Timing, int, int], bool]]


def cases(quick: bool) -> list[Case]:
    """Name, program, PEs, rounds, profile, check."""
    if quick:
        return [
            ("all-to-all", all_to_all, 8, 2, "rc_strict", sums_are_right),
            ("ring", ring, 8, 3, "rc_strict", ring_is_right),
            ("large puts", large, 2, 1, STRIPED, bytes_are_right),
        ]
    return [
        ("all-to-all", all_to_all, 64, 10, "rc_strict", sums_are_right),
        ("all-to-all", all_to_all, 64, 10, "openshmem", sums_are_right),
        ("all-to-all", all_to_all, 256, 1, "rc_strict", sums_are_right),
        ("ring", ring, 64, 50, "rc_strict", ring_is_right),
        ("large puts", large, 8, 10, STRIPED, bytes_are_right),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, small sizes")
    parser.add_argument("--out", help="folder for simulator.json")
    options = parser.parse_args()
    report = common.header("simulator")
    rounds = 2 if options.quick else common.ROUNDS_MIN
    for name, program, n, times, profile, right in cases(options.quick):
        told = profile if isinstance(profile, str) else "4 rails, rc_strict"
        rates, clocked, usual = list[float](), list[float](), list[float]()
        for _ in range(rounds):
            start = perf_counter()
            found = simulate(program, n, MODEL, profile, args=(times,))
            clocked.append((perf_counter() - start) * 1e3)
            assert right(found, n, times), f"{name}: {found.results}"
            rates.append(found.events / found.seconds)
            if name == "all-to-all" and profile == "rc_strict" and n <= 64:
                start = perf_counter()
                shmem.run(lambda: program(times), n, profile=profile)  # noqa: B023
                usual.append((perf_counter() - start) * 1e3)
        case = f"{name}, {n} PEs, {times} rounds, {told}, {found.messages} messages, {found.events} events"
        report["rows"].append(common.row("simulator", case, "ours", "events/s", rates))
        report["rows"].append(common.row("simulator", case, "ours", "ms", clocked))
        if usual:
            report["rows"].append(common.row("simulator", case, "usual order", "ms", usual))
        print(f"{case}: {statistics.median(rates) * MINUTE / 1e6:.2f} million events a minute")
    print("all results are right")
    common.show(report)
    common.finish(report, options.out)


if __name__ == "__main__":
    main()
