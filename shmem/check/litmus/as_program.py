"""Litmus tests as programs: the same statements, written with the calls of `shmem`.

It has nothing in common with the search but the language: there a statement is data, here it is a call, for real
processes (`hardware`) or for the tasks of the fabric `sim`. Queue pairs have no calls here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

import shmem

from .model import COMPARE
from .syntax import VALUES, Remote, Statement, Sum, Test, Word

Registers = dict[str, int]
Team = tuple[int, ...]
_MEETINGS = ("barrier_all", "sync_all", "barrier", "sync")


def missing(test: Test) -> str:
    """The first statement of a test that has no call, in words; "" where all have one."""
    for statements in test.programs.values():
        for each in statements:
            if not hasattr(Translated, f"do_{each.verb}"):
                return f"line {each.line}: {each.verb} needs queue pairs, or messages outside the memory"
    return ""


def meetings(test: Test, pe: int) -> list[Statement]:
    """The collectives of a PE without a program: those that the busiest of the others meets it in."""
    found = [[each for each in given if each.verb in _MEETINGS] for given in test.programs.values()]
    busiest = max(found, key=len, default=[])
    return [each for each in busiest if not each.pes or pe in each.pes]


def locks(test: Test) -> set[str]:
    """The words that are locks."""
    return {each.name for given in test.programs.values() for each in given if each.verb == "lock"}


def teams(test: Test) -> list[Team]:
    """The teams of a test, in the order in which all PEs make them."""
    return sorted({_members(each) for given in test.programs.values() for each in given if each.verb in _MEETINGS[2:]})


def _members(statement: Statement) -> Team:
    return tuple(sorted(set(statement.pes)))


def memory(test: Test) -> dict[str, Any]:
    """The symmetric words of a test, collective over all PEs: arrays of uint64 with their first values, or locks."""
    given = locks(test)
    return {
        name: shmem.new_lock() if name in given else shmem.full(count, value, np.uint64)
        for name, (count, value) in test.symmetric.items()
    }


def private(test: Test) -> dict[str, Any]:
    """The private words of a test with their first values."""
    return {name: np.full(count, value, np.uint64) for name, (count, value) in test.private.items()}


class Translated:
    """One PE of a test; a method for each verb. `contexts`, `team_of`: what was made before the program starts."""

    def __init__(
        self, arrays: dict[str, Any], private: dict[str, Any], registers: Registers,
        contexts: Mapping[str, Any] | None = None, team_of: Mapping[Team, Any] | None = None,
    ) -> None:  # fmt: skip
        self.arrays, self.private, self.registers = arrays, private, registers
        self.contexts, self.team_of = contexts or {}, team_of or {}
        self.kept: list[Any] = []  # sources of nonblocking calls, which are read late

    def do(self, statement: Statement) -> None:
        """Makes the call of a statement."""
        cast("Callable[[Statement], None]", getattr(self, f"do_{statement.verb}"))(statement)

    # ---- values ----

    def value(self, expression: Sum) -> int:
        """The value of a sum."""
        return (expression.constant + sum(self.load(word) for word in expression.words)) % VALUES

    def load(self, word: Word) -> int:
        """A plain load of an own word, or a register."""
        for names in (self.arrays, self.private):
            if word.name in names:
                return int(names[word.name][word.lo])
        return self.registers.get(word.name, 0)

    def store(self, word: Word, value: int) -> None:
        """A plain store."""
        for names in (self.arrays, self.private):
            if word.name in names:
                names[word.name][word.lo : word.hi] = np.uint64(value)
                return
        self.registers[word.name] = value

    def at(self, word: Word | None) -> Any:
        """The own array that stands for a symmetric word."""
        assert word is not None
        return self.arrays[word.name][word.lo : word.hi]

    def _there(self, remote: Remote | None) -> tuple[Any, int]:
        assert remote is not None
        return self.at(remote.word), remote.pe

    def _source(self, statement: Statement) -> Any:
        assert statement.source is not None
        assert statement.remote is not None
        count = statement.remote.word.hi - statement.remote.word.lo
        if (buffer := statement.source.buffer) is not None:
            names = self.private if buffer.name in self.private else self.arrays
            return names[buffer.name][buffer.lo : buffer.lo + count]
        assert statement.source.value is not None
        made = np.full(count, self.value(statement.source.value), np.uint64)
        self.kept.append(made)
        return made

    def _ctx(self, statement: Statement) -> Any:
        return self.contexts[statement.context] if statement.context else None

    def _word(self, statement: Statement) -> Word:
        assert statement.word is not None
        return statement.word

    # ---- plain accesses and waits ----

    def do_assign(self, s: Statement) -> None:
        self.store(self._word(s), self.value(s.values[0]))

    def do_wait(self, s: Statement) -> None:
        shmem.wait_until(self.at(s.word), s.op, self.value(s.values[0]))

    def do_signal_wait(self, s: Statement) -> None:
        shmem.signal_wait_until(self.at(s.word), s.op, self.value(s.values[0]))

    def do_poll(self, s: Statement) -> None:
        wanted = self.value(s.values[0])
        while not COMPARE[s.op](self.load(self._word(s)), wanted):
            shmem.spin()

    do_poll_line = do_poll

    # ---- transfers ----

    def do_put(self, s: Statement) -> None:
        target, pe = self._there(s.remote)
        shmem.put(target, self._source(s), pe, ctx=self._ctx(s))

    def do_put_nbi(self, s: Statement) -> None:
        target, pe = self._there(s.remote)
        shmem.put_nbi(target, self._source(s), pe, ctx=self._ctx(s))

    def _put_signal(self, call: Callable[..., None], s: Statement) -> None:
        target, pe = self._there(s.remote)
        assert s.update is not None
        how = shmem.SIGNAL_ADD if s.update.op == "add" else shmem.SIGNAL_SET
        source, value = self._source(s), self.value(s.update.value)
        call(target, source, pe, self._there(s.signal)[0], value, how, ctx=self._ctx(s))

    def do_put_signal(self, s: Statement) -> None:
        self._put_signal(shmem.put_signal, s)

    def do_put_signal_nbi(self, s: Statement) -> None:
        self._put_signal(shmem.put_signal_nbi, s)

    def do_signal(self, s: Statement) -> None:
        target, pe = self._there(s.remote)
        assert s.update is not None
        call = shmem.signal_add if s.update.op == "add" else shmem.signal_set
        call(target, self.value(s.update.value), pe, ctx=self._ctx(s))

    def do_get(self, s: Statement) -> None:
        source, pe = self._there(s.remote)
        found = np.zeros(1, np.uint64)
        shmem.get(found, source, pe, ctx=self._ctx(s))
        self.store(self._word(s), int(found[0]))

    def do_get_nbi(self, s: Statement) -> None:
        source, pe = self._there(s.remote)
        word = self._word(s)
        shmem.get_nbi(self.private[word.name][word.lo : word.hi], source, pe, ctx=self._ctx(s))

    # ---- atomics ----

    def _atomic(self, call: Callable[..., Any], s: Statement) -> None:
        target, pe = self._there(s.remote)
        old = call(target, *(self.value(each) for each in s.values), pe, ctx=self._ctx(s))
        if s.word is not None:
            self.store(s.word, int(old))

    def do_atomic_set(self, s: Statement) -> None:
        self._atomic(shmem.atomic_set, s)

    def do_atomic_add(self, s: Statement) -> None:
        self._atomic(shmem.atomic_add, s)

    def do_atomic_fetch(self, s: Statement) -> None:
        self._atomic(shmem.atomic_fetch, s)

    def do_fetch_add(self, s: Statement) -> None:
        self._atomic(shmem.atomic_fetch_add, s)

    def do_swap(self, s: Statement) -> None:
        self._atomic(shmem.atomic_swap, s)

    def do_compare_swap(self, s: Statement) -> None:
        self._atomic(shmem.atomic_compare_swap, s)

    def do_fetch_add_nbi(self, s: Statement) -> None:
        target, pe = self._there(s.remote)
        word = self._word(s)
        fetch = self.private[word.name][word.lo : word.hi]
        shmem.atomic_fetch_add_nbi(fetch, target, self.value(s.values[0]), pe, ctx=self._ctx(s))

    # ---- order and meetings ----

    def do_fence(self, s: Statement) -> None:
        shmem.fence(self._ctx(s))

    def do_quiet(self, s: Statement) -> None:
        shmem.quiet(self._ctx(s))

    def do_pe_quiet(self, s: Statement) -> None:
        shmem.pe_quiet(s.pes[0], self._ctx(s))

    def do_barrier_all(self, s: Statement) -> None:
        shmem.barrier_all()

    def do_sync_all(self, s: Statement) -> None:
        shmem.sync_all()

    def do_barrier(self, s: Statement) -> None:
        shmem.barrier(self.team_of[_members(s)])

    def do_sync(self, s: Statement) -> None:
        shmem.sync(self.team_of[_members(s)])

    def do_lock(self, s: Statement) -> None:
        shmem.set_lock(self.arrays[s.name])

    def do_unlock(self, s: Statement) -> None:
        shmem.clear_lock(self.arrays[s.name])
