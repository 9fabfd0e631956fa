"""Collectives that only move elements, equally many of each PE: broadcast, fcollect, alltoall, alltoalls."""

from __future__ import annotations

from ..errors import ArgumentError, InvalidPE, LayoutError
from ..fabric.interface import Members
from ..front import fronted
from ..plain import whole_number
from ..runtime import PE, range_of
from ..teams import Team
from ..views import Array, check_array
from .arguments import Call, check, run
from .plans import Plan
from .script import Script


@fronted
def broadcast(
    target: Array, source: Array, root: int, size: int | None = None, team: Team | None = None, *,
    timeout: float | None = None,
) -> None:  # fmt: skip
    """Copies `size` elements of `source` on PE `root` into `target` on every PE of a team, the root's own included.

    target, source: symmetric, one dtype (any of fixed size), the same arrays on all PEs, C-contiguous, 1-D with any
    step, or row blocks of 2-D arrays; two Fortran-contiguous ones are moved as their memory. Either the same or
    disjoint. root: a number of the team. size: elements, default all of source. team: default all PEs. timeout: seconds
    of the call, default SHMEMU_TIMEOUT_S. On return: target is written, source may be reused; puts of the program are
    not completed. Every PE of the team has entered the call.
    Raises NotSymmetric, FreedBlock, DtypeError, SizeMismatch, LayoutError, InvalidPE, ArgumentError, TeamError;
    SymmetryError on every PE where the calls differ, ShmemTimeout naming who is missing, PeerDied.
    OpenSHMEM 1.6, 9.10 (shmem_broadcast).
    """

    def plan(pe: PE, members: Members) -> Plan:
        first = _root(root, members, pe.me)
        call = check(pe, "broadcast", members, target, source, size, (1, 1), in_place=True, note=f", root {first}")
        return call.plan(lambda script: _broadcast(script, call, first))

    run("broadcast", plan, target, source, size, team, timeout, root)


def _root(root: object, members: Members, me: int) -> int:
    try:
        number = None if isinstance(root, bool) else int(root.__index__())  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        number = None
    if number is None:
        raise InvalidPE(f"the root is an integer, not {root!r}", pe=me)
    if not 0 <= number < len(members.pes):
        raise InvalidPE(f"root {number} does not exist: the team has {range_of(len(members.pes))}", pe=me)
    return number


def _broadcast(script: Script, call: Call, root: int) -> None:
    source, mine = call.members.pes[root], call.me == root and call.in_place
    if call.direct and call.nbytes > script.small:
        reads, writes = call.nbytes * (call.me == root), call.nbytes * (not mine)
        script.read_in_place(call.nbytes, *call.ends(reads, writes))
        script.meet()
        if not mine:
            script.fetch(source, call.what.offset, call.to, 0, call.nbytes)
        script.meet()
        return
    for first, nbytes in steps(call.nbytes, script.room):
        if call.me == root:
            script.show(call.what, first, nbytes, 0)
        script.meet()
        if not mine:
            script.fetch(source, script.shown, call.to, first, nbytes)
        script.turn()
    script.quiet()


def steps(nbytes: int, room: int) -> list[tuple[int, int]]:
    """(first, length) of the parts of a block that are shown one after the other: at least one, if only to meet."""
    return [(first, min(room, nbytes - first)) for first in range(0, nbytes, room)] or [(0, 0)]


@fronted
def fcollect(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Puts `size` elements of `source` of every PE of a team one after the other into `target` on all of them.

    target: at least n_pes blocks of `size`, disjoint from source; block i comes from PE i of the team. Arguments, what
    holds on return and errors as `broadcast`. OpenSHMEM 1.6, 9.10 (shmem_fcollect).
    """

    def plan(pe: PE, members: Members) -> Plan:
        call = check(pe, "fcollect", members, target, source, size, (len(members.pes), 1))
        return call.plan(lambda script: _fcollect(script, call))

    run("fcollect", plan, target, source, size, team, timeout)


def _fcollect(script: Script, call: Call) -> None:
    pes = call.members.pes
    if call.direct and call.nbytes > script.small:
        script.read_in_place(call.n * call.nbytes, *call.ends(call.nbytes, call.n * call.nbytes))
        script.meet()
        for i in script.others():
            script.fetch(pes[i], call.what.offset, call.to, i * call.nbytes, call.nbytes)
        script.meet()
        return
    for first, nbytes in steps(call.nbytes, script.room):
        script.show(call.what, first, nbytes, 0)
        script.meet()
        for i in script.others():
            script.fetch(pes[i], script.shown, call.to, i * call.nbytes + first, nbytes)
        script.turn()
    script.quiet()


@fronted
def alltoall(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Every PE of a team sends a block of `size` elements to every PE: block j of `source` becomes block i of `target`
    on PE j, where i is the sender.

    target, source: n_pes blocks of `size`, disjoint. size: default what source has, divided by n_pes. Arguments, what
    holds on return and errors as `broadcast`; SizeMismatch if source can't be divided. OpenSHMEM 1.6, 9.10
    (shmem_alltoall).
    """

    def plan(pe: PE, members: Members) -> Plan:
        n = len(members.pes)
        call = check(pe, "alltoall", members, target, source, size, (n, n))
        return call.plan(lambda script: _alltoall(script, call))

    run("alltoall", plan, target, source, size, team, timeout)


def alltoalls(
    target: Array, source: Array, tst: int = 1, sst: int = 1, size: int | None = None, team: Team | None = None, *,
    timeout: float | None = None,
) -> None:  # fmt: skip
    """As `alltoall`, with elements that lie `tst` elements apart in target and `sst` apart in source.

    Element k of the block for PE j is source[(j * size + k) * sst]. target, source: C-contiguous or 1-D. tst, sst: from
    1 up. size: default the smaller of the two strided counts, divided by n_pes. OpenSHMEM 1.6, 9.10 (shmem_alltoalls).
    """

    def plan(pe: PE, members: Members) -> Plan:
        n = len(members.pes)
        to, what = _every(target, tst, "target", pe.me), _every(source, sst, "source", pe.me)
        call = check(pe, "alltoalls", members, to, what, size, (n, n), smaller=True, note=f", strides {tst}, {sst}")
        return call.plan(lambda script: _alltoall(script, call))

    run("alltoalls", plan, target, source, size, team, timeout, tst, sst)


def _every(array: object, step: object, name: str, me: int) -> Array:
    checked = check_array(array, name, me)
    apart = whole_number(step, f"the stride of {name}", me, 1)
    if isinstance(step, bool):
        raise ArgumentError(f"the stride of {name} is {step!r}: it must be an integer from 1 up", pe=me)
    if checked.ndim != 1 and not checked.flags.c_contiguous:
        raise LayoutError(f"{name} of shape {checked.shape} must be C-contiguous or have one dimension", pe=me)
    flat = checked if checked.ndim == 1 else checked.reshape(-1)
    return flat[::apart]


def _alltoall(script: Script, call: Call) -> None:
    pes, n = call.members.pes, call.n
    if call.direct and n * call.nbytes > script.small:
        script.read_in_place(call.n * call.nbytes, *call.ends(call.n * call.nbytes, call.n * call.nbytes))
        script.meet()
        for i in script.others():
            script.fetch(pes[i], call.what.offset + call.me * call.nbytes, call.to, i * call.nbytes, call.nbytes)
        script.meet()
        return
    for first, nbytes in steps(call.nbytes, script.room // n):
        for i in script.others():
            script.show(call.what, i * call.nbytes + first, nbytes, i * nbytes)
        script.meet()
        for i in script.others():
            script.fetch(pes[i], script.shown + call.me * nbytes, call.to, i * call.nbytes + first, nbytes)
        script.turn()
    script.quiet()
