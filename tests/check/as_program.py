"""Litmus tests as programs: the same statements, written with the calls of `shmem`.

The two have nothing in common but the delivery machine: one is interpreted as data, the other runs as tasks through the
whole library. So the same ends from both say that the `sim` fabric is what the language says it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shmem
from shmem.check.litmus.syntax import Statement, Sum, Test, Word
from shmem.fabric.sim import Job, Program

Registers = dict[str, int]


class Watched(Job):
    """A job whose end is the registers of its PEs and who was left in the middle of its program."""

    def __init__(self, program: Program, test: Test) -> None:
        self.registers: list[Registers] = [{} for _ in range(test.pes)]
        self.finished: set[int] = set()
        self.test = test
        super().__init__(program)

    def outcome(self) -> Any:
        assert not self.failed, self.failed[0].error
        registers = tuple(tuple(sorted(each.items())) for each in self.registers)
        return registers, tuple(pe for pe in range(self.test.pes) if pe not in self.finished)


def body(job: Callable[[], Watched], test: Test) -> Callable[[int], None]:
    """What a PE runs. `job` gives the execution it belongs to."""

    def run(pe: int) -> None:
        arrays = {name: shmem.full(count, value, np.uint64) for name, (count, value) in test.symmetric.items()}
        private = {name: np.full(count, value, np.uint64) for name, (count, value) in test.private.items()}
        shmem.barrier_all()
        here = _Pe(arrays, private, job().registers[pe])
        for statement in test.programs.get(pe, ()):
            getattr(here, f"_{statement.verb}")(statement)
        job().finished.add(pe)

    return run


class _Pe:
    """One PE of a test; a method for each verb."""

    def __init__(self, arrays: dict[str, Any], private: dict[str, Any], registers: Registers) -> None:
        self.arrays, self.private, self.registers = arrays, private, registers

    def value(self, expression: Sum) -> int:
        return (expression.constant + sum(self.load(word) for word in expression.words)) % (1 << 64)

    def load(self, word: Word) -> int:
        if word.name in self.arrays:
            return int(self.arrays[word.name][word.lo])
        if word.name in self.private:
            return int(self.private[word.name][word.lo])
        return self.registers.get(word.name, 0)

    def store(self, word: Word, value: int) -> None:
        if word.name in self.arrays:
            self.arrays[word.name][word.lo : word.hi] = np.uint64(value)
        elif word.name in self.private:
            self.private[word.name][word.lo : word.hi] = value
        else:
            self.registers[word.name] = value

    def at(self, word: Word) -> Any:
        return self.arrays[word.name][word.lo : word.hi]

    def source(self, statement: Statement) -> Any:
        assert statement.source is not None
        if (buffer := statement.source.buffer) is not None:
            return (self.private if buffer.name in self.private else self.arrays)[buffer.name][buffer.lo : buffer.hi]
        return np.array([self.value(statement.source.value)], np.uint64)  # type: ignore[arg-type]

    def _assign(self, s: Statement) -> None:
        self.store(s.word, self.value(s.values[0]))  # type: ignore[arg-type]

    def _wait(self, s: Statement) -> None:
        shmem.wait_until(self.at(s.word), s.op, self.value(s.values[0]))  # type: ignore[arg-type]

    def _put(self, s: Statement) -> None:
        shmem.put(self.at(s.remote.word), self.source(s), s.remote.pe)  # type: ignore[union-attr]

    def _put_nbi(self, s: Statement) -> None:
        shmem.put_nbi(self.at(s.remote.word), self.source(s), s.remote.pe)  # type: ignore[union-attr]

    def _put_signal(self, s: Statement) -> None:
        assert s.remote is not None
        assert s.signal is not None
        assert s.update is not None
        how = shmem.SIGNAL_ADD if s.update.op == "add" else shmem.SIGNAL_SET
        source, value = self.source(s), self.value(s.update.value)
        shmem.put_signal(self.at(s.remote.word), source, s.remote.pe, self.at(s.signal.word), value, how)

    def _get(self, s: Statement) -> None:
        found = np.zeros(1, np.uint64)
        shmem.get(found, self.at(s.remote.word), s.remote.pe)  # type: ignore[union-attr]
        self.store(s.word, int(found[0]))  # type: ignore[arg-type]

    def _atomic_set(self, s: Statement) -> None:
        shmem.atomic_set(self.at(s.remote.word), self.value(s.values[0]), s.remote.pe)  # type: ignore[union-attr]

    def _atomic_add(self, s: Statement) -> None:
        shmem.atomic_add(self.at(s.remote.word), self.value(s.values[0]), s.remote.pe)  # type: ignore[union-attr]

    def _fetch_add(self, s: Statement) -> None:
        old = shmem.atomic_fetch_add(self.at(s.remote.word), self.value(s.values[0]), s.remote.pe)  # type: ignore
        self.store(s.word, old)  # type: ignore[arg-type]

    def _compare_swap(self, s: Statement) -> None:
        given = [self.value(each) for each in s.values]
        old = shmem.atomic_compare_swap(self.at(s.remote.word), *given, s.remote.pe)  # type: ignore[union-attr]
        self.store(s.word, old)  # type: ignore[arg-type]

    def _fence(self, s: Statement) -> None:
        shmem.fence()

    def _quiet(self, s: Statement) -> None:
        shmem.quiet()

    def _barrier_all(self, s: Statement) -> None:
        shmem.barrier_all()
