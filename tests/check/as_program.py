"""Litmus tests as programs on `sim`: the same statements, written with the calls of `shmem`.

The two have nothing in common but the delivery machine: one is interpreted as data, the other runs as tasks through the
whole library. So the same ends from both say that the `sim` fabric is what the language says it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmem
from shmem.check.litmus import as_program
from shmem.check.litmus.syntax import Test
from shmem.fabric.sim import Job, Program


class Watched(Job):
    """A job whose end is the registers of its PEs and who was left in the middle of its program."""

    def __init__(self, program: Program, test: Test) -> None:
        self.registers: list[as_program.Registers] = [{} for _ in range(test.pes)]
        self.finished: set[int] = set()
        self.told: dict[tuple[int, int], int] = {}  # messages outside the memory
        self.test = test
        super().__init__(program)

    def outcome(self) -> Any:
        assert not self.failed, self.failed[0].error
        registers = tuple(tuple(sorted(each.items())) for each in self.registers)
        return registers, tuple(pe for pe in range(self.test.pes) if pe not in self.finished)


def body(job: Callable[[], Watched], test: Test) -> Callable[[int], None]:
    """What a PE runs. `job` gives the execution it belongs to."""

    def run(pe: int) -> None:
        arrays = as_program.memory(test)
        shmem.barrier_all()
        here = as_program.Translated(arrays, as_program.private(test), job().registers[pe])
        for statement in test.programs.get(pe, ()):
            here.do(statement)
        job().finished.add(pe)

    return run
