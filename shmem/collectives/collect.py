"""collect: blocks of different sizes one after the other.

Each PE shows a head (how many bytes it gives, how many its target holds) with the first part of its block. After the
meeting everybody knows all sizes and so, without another word, how many more rounds there are and whether everything
fits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import SizeMismatch
from ..fabric.interface import Members
from ..runtime import PE
from ..teams import Team
from ..views import Array, address_of
from .arguments import Call, check, run
from .moves import steps
from .plans import Plan, perform
from .script import Script

HEAD = 64  # bytes in front of the first part; 16 used


def collect(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Puts the elements that every PE of a team gives one after the other into `target` on all of them.

    size: how many elements of source this PE gives, default all; may differ between PEs and be 0. target: at least the
    sum of all, disjoint from source. The sources may be different views. Arguments, what holds on return and
    errors otherwise as `broadcast`; every PE raises SizeMismatch if the target of one is too small, and then nothing
    was moved. OpenSHMEM 1.6, 9.10 (shmem_collect).
    """

    def plan(pe: PE, members: Members) -> Plan:
        return _first(check(pe, "collect", members, target, source, size, (0, 1), varying=True))

    run("collect", plan, target, source, size, team, timeout)


def _first(call: Call) -> Plan:
    """The round in which the sizes become known; then `_rest`."""
    head = np.array([call.nbytes, call.target.nbytes], np.int64)
    heads = np.zeros((call.n, 2), np.int64)

    def write(script: Script) -> None:
        script.put(call.pe.me, script.shown, address_of(head), head.nbytes)
        script.show(call.what, 0, min(call.nbytes, script.room - HEAD), HEAD)
        script.meet()
        for i, pe in enumerate(call.members.pes):
            script.fetch_private(pe, script.shown, address_of(heads[i]), head.nbytes)
        script.quiet()

    return call.plan(write, lambda half, timeout: _rest(call, heads.copy(), half, timeout), head, heads)


def _rest(call: Call, heads: npt.NDArray[np.int64], half: int, timeout: float | None) -> None:
    total, least = int(heads[:, 0].sum()), int(heads[:, 1].min())
    if total > least:
        item = call.target.itemsize
        raise SizeMismatch(f"collect of {total // item} elements into a target of {least // item}", pe=call.pe.me)
    sizes = [int(size) for size in heads[:, 0]]
    starts = [sum(sizes[:i]) for i in range(call.n)]
    perform(call.pe, call.plan(lambda script: _fetch(script, call, sizes, starts, half)), timeout)


def _fetch(script: Script, call: Call, sizes: list[int], starts: list[int], half: int) -> None:
    pes, room = call.members.pes, script.room - HEAD
    shown = call.pe.heap.scratch(call.members.slot, half)[0] + HEAD
    for i in script.others():
        script.fetch(pes[i], shown, call.to, starts[i], min(sizes[i], room))
    if max(sizes) > room:
        for first, _ in steps(max(sizes) - room, script.room):
            at = room + first
            parts = [max(0, min(size - at, script.room)) for size in sizes]
            script.show(call.what, at, parts[call.me], 0)
            script.meet()
            for i in script.others():
                script.fetch(pes[i], script.shown, call.to, starts[i] + at, parts[i])
            script.turn()
    script.quiet()
