"""The verdicts on lines against an oracle that knows no tags: payloads name their message, so values tell who wrote.

Random programs send messages over each other's lines, with too few credits; all their executions are looked at. In the
first family a line is placed and loaded whole, and flags come again; in the second payload and flag come apart, and a
flag names its message. A verdict does not end an execution here: it is noted and compared.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import dpor, eager
from shmem.check.bounds import Bounds
from shmem.check.exploration import prepare
from shmem.check.surroundings import live
from shmem.delivery.profiles import varied
from shmem.fabric.sim import Job, Program, lines
from tests.launcher.cells import FULL

PAIR = shmem.Layout("PAIR", 16, ((0, 8),), (8,), 8)
PAIR_GROUP = shmem.Layout("PAIR_GROUP", 16, ((0, 8),), (8,), 8, reader=shmem.Reader.RELOAD, group=0)
LINES = 2


@dataclass(frozen=True)
class Sent:
    """A message over n lines from `first` on. waits: the sender goes on once it was read."""

    first: int
    n: int
    flag: int
    waits: bool

    def covers(self, line: int) -> bool:
        return self.first <= line < self.first + self.n


def number(message: int, line: int) -> int:
    """What a message has in a line of the memory."""
    return 10 * (message + 1) + line


def sends(layout: shmem.Layout, messages: Sequence[Sent]) -> None:
    """The program: the reader asks for every message."""
    dtype = np.dtype(f"u{layout.data}")
    memory, credit = shmem.zeros(LINES * layout.line, np.uint8), shmem.zeros(1, np.uint64)
    for i, one in enumerate(messages):
        here = memory[one.first * layout.line : (one.first + one.n) * layout.line]
        if shmem.my_pe() == 0:
            payload = np.array([number(i, one.first + k) for k in range(one.n)], dtype)
            shmem.put_lines(here, payload, 1, layout, one.flag)
            if one.waits:
                shmem.signal_wait_until(credit, ">=", i + 1)
        else:
            shmem.poll_lines(here, layout, one.flag, one.n, dtype)
            shmem.signal_set(credit, i + 1, 0)


def drawn(rng: random.Random, flags: bool) -> list[Sent]:
    """flags: that come again."""
    found = []
    for i in range(rng.choice((2, 3, 3))):
        first = rng.randrange(LINES)
        flag = rng.choice((1, 2)) if flags else i + 1
        found.append(Sent(first, rng.randint(1, LINES - first), flag, rng.random() < 0.4))
    return found


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts are noted in the job, with the payload."""
    waiting, check = lines._Reader.waiting, lines._Reader.check

    def read(self: Any) -> bytes:
        self.payload = waiting(self)
        return self.payload  # type: ignore[no-any-return]

    def judged(self: Any) -> None:
        log = self.fabric.job.__dict__.setdefault("log", [])
        try:
            check(self)
        except shmem.AcceptError as error:
            log.append((self.payload, error.kind))
        else:
            log.append((self.payload, ""))

    monkeypatch.setattr(lines._Reader, "waiting", read)
    monkeypatch.setattr(lines._Reader, "check", judged)


def executions(program: Program, states: int) -> tuple[list[tuple[Any, Any]], bool]:
    """The logs and moves of the executions that the search makes, and that the slow oracle makes as far as it comes;
    whether it came to its end, with the same verdicts and payloads."""
    seen: list[tuple[Any, Any]] = []

    def ended(job: Any, moves: Any) -> bool:
        seen.append((tuple(getattr(job, "log", ())), list(moves)))
        return False

    assert dpor.Search(lambda: Job(program), ended=ended).run().complete
    found = {upto(log) for log, _ in seen}
    bounds = Bounds(states=states)
    whole = eager.search(lambda: Job(program), digest=Job.digest, bounds=bounds, ended=ended).complete  # type: ignore[arg-type]
    assert not whole or {upto(log) for log, _ in seen} == found
    return seen, whole


def upto(log: Any) -> tuple[Any, ...]:
    """A log up to the first verdict, where a program would end."""
    at = next((i for i, (_, kind) in enumerate(log) if kind), len(log) - 1)
    return tuple(log[: at + 1])


def by_values(messages: Sequence[Sent], log: Any, size: int) -> list[str]:
    """The verdicts on the polls of an execution of whole lines, from their payloads."""
    taken: set[tuple[int, int]] = set()
    verdicts = []
    for i, (payload, _) in enumerate(log):
        flag, first = messages[i].flag, messages[i].first
        values = [int(value) for value in np.frombuffer(payload, f"u{size}")]
        took = [(value // 10 - 1, first + k) for k, value in enumerate(values)]
        assert all(value == number(*one) for value, one in zip(values, took, strict=True))
        fresh = {message for message, line in took if (message, line) not in taken}
        unread = {m for m in range(len(messages)) if not any(m == message for message, _ in taken)}
        verdict = ""
        for message, line in took:
            lost = [m for m in unread if m < message and messages[m].flag == flag and messages[m].covers(line)]
            verdict = verdict or ("clobber" if lost else "" if message in fresh else "stale")
        verdicts.append(verdict)
        if verdict:
            break
        taken.update(took)
    return verdicts


def by_history(program: Any, moves: Any, layout: shmem.Layout, messages: Sequence[Sent], log: Any) -> list[str]:
    """The verdicts where flags are unambiguous, from what memory held at each step: the execution is made again."""
    job = Job(program)
    held: list[set[int]] = [set() for _ in range(LINES)]  # the values that a line's payload has had
    loads: list[list[set[int]]] = []  # that when a payload was loaded
    split = layout is not shmem.LL
    for move in moves:
        step = job.tasks[1].step
        what = step.what if move == 1 and step is not None else ""
        if what.startswith("load of a cell") or (what.startswith("flag ") and not split):
            loads.append([set(values) for values in held])
        job.perform(move)
        if 1 in job.machine.memory.spaces:
            memory = bytes(job.machine.memory.spaces[1][: LINES * layout.line])
            for line, values in enumerate(held):
                at = line * layout.line
                values.add(int.from_bytes(memory[at : at + layout.data], "little"))
    job.close()
    verdicts, done = [], 0
    for i, (payload, _) in enumerate(log):
        verdict = ""
        for k, value in enumerate(np.frombuffer(payload, f"u{layout.data}")):
            line = messages[i].first + k
            writer = int(value) // 10 - 1 if value else -1
            if writer != i and not verdict:
                verdict = "clobber" if writer > i or number(i, line) in loads[done][line] else "torn"
            done += 1
        verdicts.append(verdict)
        if verdict:
            break
    return verdicts


def given(log: Any) -> list[str]:
    return [kind for _, kind in upto(log)]


def test_whole_lines_are_judged_as_their_values_are() -> None:
    kinds: Counter[str] = Counter()
    whole = 0
    seeds = 40 if FULL else 10
    for seed in range(seeds):
        messages = drawn(random.Random(seed), True)
        program = prepare(sends, 2, varied("udma", unit=8), (shmem.LL, tuple(messages)))
        with live(program):
            seen, complete = executions(program, 1500 if FULL else 500)
        whole += complete
        for log, _ in seen:
            assert given(log) == by_values(messages, log, 4), (messages, log)
            kinds.update(given(log))
    assert all(kinds[kind] > 3 for kind in ("", "stale", "clobber")), kinds
    assert not kinds["torn"]
    assert whole >= seeds // 5


@pytest.mark.parametrize(("layout", "unit"), [(shmem.LL, 4), (PAIR, 8), (PAIR_GROUP, 8)], ids=["LL", "PAIR", "GROUP"])
def test_lines_in_pieces_are_judged_as_the_history_is(layout: shmem.Layout, unit: int) -> None:
    kinds: Counter[str] = Counter()
    whole = 0
    for seed in range(12 if FULL else 2):
        messages = drawn(random.Random(seed), False)
        program = prepare(sends, 2, varied("udma", unit=unit), (layout, tuple(messages)))
        with live(program):
            seen, complete = executions(program, 1500 if FULL else 500)
            whole += complete
            for log, moves in seen if FULL else random.Random(seed).sample(seen, min(len(seen), 150)):
                assert given(log) == by_history(program, moves, layout, messages, log), (messages, log)
                kinds.update(given(log))
    assert all(kinds[kind] > 3 for kind in ("", "torn", "clobber")), kinds
    assert not kinds["stale"]
    assert whole
