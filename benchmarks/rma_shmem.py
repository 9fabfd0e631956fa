"""The calls of `benchmarks/rma.py` as shmem makes them: ours and shmem4py's, whose names and arguments are the same.

    oshrun --oversubscribe -n 2 PYTHON benchmarks/rma_shmem.py --result FILE ...      shmem4py, in a job of its own

PE 0 acts on PE 1, which waits in a barrier meanwhile. Nothing here knows our package: another Python runs it too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common
import numpy as np

Loop = Callable[[int], Any]  # makes that many calls; what the last one gave
SIZES = (8, 64, 512, 4096, 65536, 1 << 20, 4 << 20)
WINDOW = 64  # messages in flight at most, where messages are counted
ATOMICS = ("fetch_add", "compare_swap", "swap", "fetch", "add")
OTHER = 1


def label(size: int) -> str:
    """`8 B`, `64 KiB`, `4 MiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def case_names() -> dict[str, int]:
    """Every case and its bytes: latencies are of a call that is complete, rates a message of up to 64 under way."""
    kinds = ("put", "get", "put rate", "get rate")
    names = {f"{kind}, {label(size)}": size for kind in kinds for size in SIZES}
    return names | {f"{name}, 8 B": 8 for name in (*ATOMICS, "add rate")}


class ShmemCalls:
    """The loops over one module's calls: `shmem`, or `shmem4py.shmem`."""

    def __init__(self, shmem: Any) -> None:
        self.shmem = shmem
        self.me = shmem.my_pe()
        self.target = shmem.zeros(SIZES[-1] // 8, np.int64)
        self.word = shmem.zeros(1, np.int64)
        self.source = np.arange(1, SIZES[-1] // 8 + 1)
        self.landing = np.zeros(SIZES[-1] // 8, np.int64)
        self.fetched = np.zeros(1, np.int64)

    def barrier(self) -> None:
        self.shmem.barrier_all()

    def free(self) -> None:
        """Collective."""
        self.shmem.free(self.word)
        self.shmem.free(self.target)

    def loops(self) -> dict[str, Loop]:
        """Every case of `case_names`."""
        loops: dict[str, Loop] = {}
        for size in SIZES:
            n = size // 8
            loops[f"put, {label(size)}"] = self._put(n)
            loops[f"get, {label(size)}"] = self._get(n)
            loops[f"put rate, {label(size)}"] = self._rate(self.shmem.put_nbi, self.target[:n], self.source[:n])
            loops[f"get rate, {label(size)}"] = self._rate(self.shmem.get_nbi, self.landing[:n], self.target[:n])
        for name in ATOMICS:
            loops[f"{name}, 8 B"] = getattr(self, f"_{name}")()
        loops["add rate, 8 B"] = self._rate(self.shmem.atomic_add, self.word, 1)
        return loops

    def _put(self, n: int) -> Loop:
        put, quiet, target, source = self.shmem.put, self.shmem.quiet, self.target[:n], self.source[:n]

        def loop(times: int) -> None:
            for _ in range(times):
                put(target, source, OTHER)
                quiet()

        return loop

    def _get(self, n: int) -> Loop:
        get, target, source = self.shmem.get, self.landing[:n], self.target[:n]

        def loop(times: int) -> None:
            for _ in range(times):
                get(target, source, OTHER)

        return loop

    def _rate(self, call: Callable[..., Any], to: Any, what: Any) -> Loop:
        quiet = self.shmem.quiet

        def loop(times: int) -> None:
            for first in range(0, times, WINDOW):
                for _ in range(min(WINDOW, times - first)):
                    call(to, what, OTHER)
                quiet()

        return loop

    def _fetch_add(self) -> Loop:
        fetch_add, word = self.shmem.atomic_fetch_add, self.word

        def loop(times: int) -> Any:
            for _ in range(times):
                old = fetch_add(word, 1, OTHER)
            return old

        return loop

    def _compare_swap(self) -> Loop:
        compare_swap, word = self.shmem.atomic_compare_swap, self.word

        def loop(times: int) -> Any:
            for _ in range(0, times, 2):
                compare_swap(word, 7, 8, OTHER)
                old = compare_swap(word, 8, 7, OTHER)
            return old

        return loop

    def _swap(self) -> Loop:
        swap, word = self.shmem.atomic_swap, self.word

        def loop(times: int) -> Any:
            for _ in range(times):
                old = swap(word, 7, OTHER)
            return old

        return loop

    def _fetch(self) -> Loop:
        fetch, word = self.shmem.atomic_fetch, self.word

        def loop(times: int) -> Any:
            for _ in range(times):
                value = fetch(word, OTHER)
            return value

        return loop

    def _add(self) -> Loop:
        add, quiet, word = self.shmem.atomic_add, self.shmem.quiet, self.word

        def loop(times: int) -> None:
            for _ in range(times):
                add(word, 1, OTHER)
                quiet()

        return loop


# ------------------------------------------------------------------------------------------ right, then fast


def check(party: Any) -> None:
    """Collective: every loop moves what it should and nothing else; AssertionError if not."""
    for case, loop in party.loops().items():
        kind, _, size = case.partition(", ")
        if kind.startswith(("put", "get")):
            n = next(size_b for size_b in SIZES if label(size_b) == size) // 8
            _check_copy(party, case, loop, kind.split()[0], n)
    found = [_atomically(party, f"{name}, 8 B", times) for name, times in CHECKED]
    if party.me == 0:
        assert found == [9, 7, 8, 7, None, None], f"the atomics gave {found}"
    party.barrier()
    if party.me == OTHER:
        assert party.word[0] == 7 + 10 + 100, f"the atomics left {party.word[0]}"
    party.barrier()


CHECKED = (("fetch_add", 10), ("swap", 2), ("compare_swap", 10), ("fetch", 1), ("add", 10), ("add rate", 100))


def _check_copy(party: Any, case: str, loop: Loop, kind: str, n: int) -> None:
    party.target[:] = party.source if kind == "get" else 0
    party.landing[:] = 0
    party.barrier()
    if party.me == 0:
        loop(3)
    party.barrier()
    got = {("put", OTHER): party.target, ("get", 0): party.landing}.get((kind, party.me))
    if got is not None:
        assert np.array_equal(got[:n], party.source[:n]), f"{case}: wrong elements"
        assert not got[n:].any(), f"{case}: elements beyond it"
    party.barrier()


def _atomically(party: Any, case: str, times: int) -> Any:
    got = party.loops()[case](times) if party.me == 0 else None
    return got if got is None else int(got)


def measure(
    parties: Mapping[str, Any], rounds: int, calls: int, meet: Callable[[], None]
) -> dict[str, dict[str, list[float]]]:
    """Seconds a call or message `[case][party]`, one number a round, in which the parties take turns. Collective."""
    found: dict[str, dict[str, list[float]]] = {}
    loops = {name: party.loops() for name, party in parties.items()}
    for case, size in case_names().items():
        times = max(4, min(calls, (32 << 20) // size))
        timed = {name: _timed(party, loops[name][case], times) for name, party in parties.items()}
        common.interleaved(1, timed, meet)
        seconds = common.interleaved(rounds, timed, meet)
        found[case] = {name: phases["call"] for name, phases in seconds.items()}
    return found


def _timed(party: Any, loop: Loop, times: int) -> Callable[[], dict[str, float]]:
    def run() -> dict[str, float]:
        if party.me:
            return {"call": 0.0}
        started = time.perf_counter()
        loop(times)
        return {"call": (time.perf_counter() - started) / times}

    return run


def main() -> None:
    """shmem4py's job: checks, measures, writes the file on PE 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args()
    from shmem4py import shmem  # type: ignore[import-not-found, unused-ignore]

    party = ShmemCalls(shmem)
    check(party)
    cases = measure({"shmem4py": party}, args.rounds, args.calls, party.barrier)
    if party.me == 0:
        partial = args.result.with_suffix(".part")
        partial.write_text(json.dumps({"name": shmem.info_get_name(), "cases": cases}), encoding="utf-8")
        os.replace(partial, args.result)
    party.barrier()


if __name__ == "__main__":
    main()
