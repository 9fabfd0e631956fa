"""Does the steps with `shmem` on one PE, and compares what it answers and what is in memory with the model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import shmem

from .model import Model
from .plan import Act, Alloc, Collective, Free, Round, Step


class Wrong(AssertionError):
    """The job and the model differ."""


class Player:
    """One PE of the job, and the model of all."""

    def __init__(self) -> None:
        self.me, self.n = shmem.my_pe(), shmem.n_pes()
        self.model = Model(self.n)
        self.arrays: dict[int, Any] = {}
        self.done: Counter[str] = Counter()  # of all PEs

    def do(self, step: Step) -> None:
        """Does a step, brings the model there as well, and compares."""
        match step:
            case Alloc(key, dtype, size, fill):
                made = shmem.zeros(size, dtype) if fill is None else shmem.full(size, fill, dtype)
                self.arrays[key] = made
                self.done["alloc"] += self.n
                self.model.do(step)
            case Free(key):
                shmem.free(self.arrays.pop(key))
                self.done["free"] += self.n
                self.model.do(step)
            case Round(acts):
                self._round(step, acts)
            case Collective():
                self._collective(step)
        self._compare(step)

    def _round(self, step: Round, acts: tuple[Act, ...]) -> None:
        found = [self._act(act) if act.by == self.me else None for act in acts]
        for act in acts:
            if act.signal >= 0 and act.on == self.me:
                self._receive(act)
        shmem.barrier_all()
        wanted = self.model.do(step)
        for act, got, want in zip(acts, found, wanted, strict=True):
            self.done[act.kind] += 1
            if act.by == self.me and want is not None and not np.array_equal(got, want):
                raise Wrong(f"{act} answered {got}, not {want}")
        self.done["barrier"] += self.n

    def _receive(self, act: Act) -> None:
        word = self.arrays[act.signal][act.cond : act.cond + 1]
        shmem.signal_wait_until(word, "==", act.value)
        got = self.arrays[act.key][act.start : act.start + act.n]
        if not np.array_equal(got, act.values):
            raise Wrong(f"behind the signal of {act} is {got}")

    def _act(self, act: Act) -> Any:
        array = self.arrays[act.key]
        end = act.start + (act.n - 1) * act.step + 1
        part = array[act.start : max(end, act.start)]
        match act.kind:
            case "put":
                shmem.put(part, act.values, act.on)
            case "put_nbi":
                shmem.put_nbi(part, act.values, act.on)
            case "p":
                shmem.p(part, act.values[0].item(), act.on)
            case "iput":
                shmem.iput(part, act.values, act.on, act.step, 1, act.n)
            case "put_signal":
                word = self.arrays[act.signal][act.cond : act.cond + 1]
                shmem.put_signal(part, act.values, act.on, word, act.value, shmem.SIGNAL_SET)
            case _:
                return self._answering(act, part)
        return None

    def _answering(self, act: Act, part: Any) -> Any:
        out = np.zeros(act.n, part.dtype)
        match act.kind:
            case "get":
                shmem.get(out, part, act.on)
            case "get_nbi":
                shmem.get_nbi(out, part, act.on)
                shmem.quiet()
            case "g":
                out[0] = shmem.g(part, act.on)
            case "iget":
                shmem.iget(out, part, act.on, 1, act.step, act.n)
            case "atomic_fetch" | "atomic_inc" | "atomic_fetch_inc":
                return getattr(shmem, act.kind)(part, act.on)
            case "atomic_compare_swap":
                return shmem.atomic_compare_swap(part, act.cond, act.value, act.on)
            case _:
                return getattr(shmem, act.kind)(part, act.value, act.on)
        return out

    def _collective(self, step: Collective) -> None:
        whole = step.size == self.n
        team = shmem.TEAM_WORLD if whole else shmem.TEAM_WORLD.split_strided(step.start, step.stride, step.size)
        if team:
            self._meet(step, team)
            if not whole:
                team.destroy()
        shmem.barrier_all()
        self.done[step.kind] += step.size
        self.done["team"] += 0 if whole else self.n
        self.model.do(step)

    def _meet(self, step: Collective, team: Any) -> None:
        target, source = self.arrays[step.target], self.arrays[step.source]
        call = getattr(shmem, step.kind)
        if step.kind == "broadcast":
            call(target, source, step.root, step.n, team)
        elif step.kind == "collect":
            call(target, source, step.sizes[team.my_pe()], team)
        else:
            call(target, source, step.n, team)

    def _compare(self, step: Step) -> None:
        """The own memory of all arrays; nobody goes on before everybody has looked."""
        for key, array in self.arrays.items():
            want = self.model.memory[key][self.me]
            if array.tobytes() != want.tobytes():
                cell = int(np.flatnonzero(array != want)[0]) if (array != want).any() else -1
                raise Wrong(f"array {key} cell {cell}: {array[cell]}, in the model {want[cell]}, after {step}")
        shmem.barrier_all()
