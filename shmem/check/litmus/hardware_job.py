"""What each PE of `shmemu litmus --hardware` runs: one test many times, through the calls of `shmem`.

A run begins with first values and a barrier, each PE goes on after a small delay of its own, and all meet again before
the final values are read. What each PE saw is left in a file for the launcher, run by run.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import shmem

from . import as_program
from .syntax import Test

DELAY_MAX = 300  # turns of an empty loop: about as long as a few calls


def main(folder: Path) -> None:
    """Runs the test that lies in `folder`, and leaves this PE's runs there. Collective."""
    test, times, seed = pickle.loads((folder / "test").read_bytes())
    pe = shmem.my_pe()
    runs = _Runs(test, pe, random.Random(f"{seed} {pe}"))
    seen = [runs.once() for _ in range(times)]
    (folder / str(pe)).write_text(json.dumps(seen), encoding="utf-8")
    runs.end()


class _Runs:
    """One PE of a test, with all that is made before its program starts."""

    def __init__(self, test: Test, pe: int, rng: random.Random) -> None:
        self.test, self.pe, self.rng = test, pe, rng
        self.arrays = as_program.memory(test)
        names = sorted({each.context for given in test.programs.values() for each in given if each.context})
        self.contexts = {name: shmem.ctx_create() for name in names}
        self.team_of = {members: shmem.team_from_pes(members) for members in as_program.teams(test)}
        self.steps = test.programs[pe] if pe in test.programs else as_program.meetings(test, pe)
        self.values = [name for name in test.symmetric if name not in as_program.locks(test)]

    def once(self) -> list[Any]:
        """One run: this PE's registers, and its own symmetric words at the end."""
        for name in self.values:
            self.arrays[name][:] = self.test.symmetric[name][1]
        registers: as_program.Registers = {}
        private = as_program.private(self.test)
        here = as_program.Translated(self.arrays, private, registers, self.contexts, self.team_of)
        delay = range(self.rng.randrange(DELAY_MAX))
        shmem.barrier_all()
        for _ in delay:
            pass
        for statement in self.steps:
            here.do(statement)
        for context in self.contexts.values():
            shmem.quiet(context)
        shmem.barrier_all()
        return [sorted(registers.items()), [[int(each) for each in self.arrays[name]] for name in self.values]]

    def end(self) -> None:
        """Gives back all that was made. Collective."""
        for context in self.contexts.values():
            context.destroy()
        for team in self.team_of.values():
            team.destroy()
        for name, array in self.arrays.items():
            shmem.free(array) if name in self.values else shmem.del_lock(array)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
