"""Reductions: and, or, xor, max, min, sum, prod of the elements of all PEs of a team.

The order is part of the result: the first PE's value, then one PE after the other. The C core folds what it knows
(`records.Element`); of other dtypes the terms are fetched and folded here, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..enums import OP, OP_SUM, reduction
from ..errors import ArgumentError
from ..fabric.interface import Members
from ..front import fronted
from ..records import Element, Fold
from ..rma import scatter
from ..runtime import PE
from ..teams import Team
from ..views import Array, address_of
from .arguments import Call, check, refuse, run
from .folds import Folding, folding
from .moves import steps
from .plans import Plan
from .script import Script, Term

STEP = 1 << 17  # bytes that one PE reduces before it passes them on, out of the cache


def _reduce(
    name: str, op: OP, target: Array, source: Array, size: int | None, team: Team | None, timeout: float | None
) -> None:
    def plan(pe: PE, members: Members) -> Plan:
        how = folding(source, op, name, pe.me)
        call = check(pe, name, members, target, source, size, (1, 1), in_place=True)
        element = how.element
        if element is None or not call.direct or call.nbytes <= _limit(call):
            return folded(call, how, range(call.n))
        return call.plan(lambda script: _shared_out(script, call, element, how.fold))

    run(name, plan, target, source, size, team, timeout)


def _limit(call: Call) -> int:
    """Bytes up to which every PE reduces everything itself."""
    room = call.pe.heap.scratch(call.members.slot, 0)[1]
    return min(room, call.pe.fabric.meet_bytes) // call.n


def _shared_out(script: Script, call: Call, element: Element, fold: Fold) -> None:
    """Every PE reduces its share of the elements, straight from all sources, and puts it into all targets.

    Nobody but the PE itself reads or writes its share of any array, so target may be source.
    """
    pes, item, base = call.members.pes, call.source.itemsize, call.pe.heap.base
    per_line = max(1, 64 // item)
    first, last = (call.size * i // call.n // per_line * per_line for i in (call.me, call.me + 1))
    last = call.size if call.me == call.n - 1 else last
    script.read_in_place(call.nbytes, *call.ends(call.nbytes, call.nbytes))
    script.meet()
    for at, nbytes in steps((last - first) * item, STEP // item * item):
        start = first * item + at
        terms = [Term(pe, call.what.offset + start) for pe in pes]
        address = base + call.to.offset + start
        script.reduce(element, fold, address, nbytes // item, terms)
        for i in script.others()[1:]:
            script.put(pes[i], call.to.offset + start, address, nbytes)
    script.meet()


def folded(call: Call, how: Folding, terms: Sequence[int]) -> Plan:
    """The plan in which every PE shows all of source and folds those of `terms` (members by position) itself."""
    item, pes = call.source.itemsize, [call.members.pes[i] for i in terms]
    if how.element is None:
        gathered = np.zeros((len(pes), call.size), call.source.dtype)
        return call.plan(
            lambda script: _gather(script, call, pes, gathered),
            lambda half, timeout: scatter(call.target, call.size, how.fold_rows(gathered)),
            gathered,
        )
    element, packed = how.element, None if call.to.count == 1 else np.empty(call.size, call.target.dtype)
    address = call.pe.heap.base + call.to.offset if packed is None else address_of(packed)

    def write(script: Script) -> None:
        for first, nbytes in steps(call.nbytes, script.room // item * item):
            script.show(call.what, first, nbytes, 0)
            script.meet()
            script.reduce(element, how.fold, address + first, nbytes // item, [Term(pe, script.shown) for pe in pes])
            script.turn()

    if packed is None:
        return call.plan(write)
    return call.plan(write, lambda half, timeout: scatter(call.target, call.size, packed), packed)


def _gather(script: Script, call: Call, pes: Sequence[int], gathered: Array) -> None:
    for first, nbytes in steps(call.nbytes, script.room):
        script.show(call.what, first, nbytes, 0)
        script.meet()
        for i, pe in enumerate(pes):
            script.fetch_private(pe, script.shown, address_of(gathered) + i * call.nbytes + first, nbytes)
        script.turn()
    script.quiet()


def reduce(
    target: Array, source: Array, op: OP | str = OP_SUM, size: int | None = None, team: Team | None = None, *,
    timeout: float | None = None,
) -> None:  # fmt: skip
    """Reduces `source` of every PE of a team, element by element, into `target` on all of them. shmem4py's name.

    op: an OP, or 'and' 'or' 'xor' 'max' 'min' 'sum' 'prod'; else as the routine of that name, `sum_reduce` and so on.
    """
    try:
        kind = reduction(op)
    except ArgumentError as problem:
        refuse("reduce", problem, team, timeout)
    _reduce(f"{kind.value}_reduce", kind, target, source, size, team, timeout)


@fronted
def sum_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Adds `source` of every PE of a team, element by element, into `target` on all of them.

    On return: as `broadcast`.
    The order is fixed: the value of PE 0 of the team, then one PE after the other. Integers wrap, bools are or-ed.
    float32, float64, long double and complex round at every addition in their own type; bfloat16, float16 and fp8 are
    added in float32 and rounded once at the end. target, source: as in `broadcast`; the same or disjoint. On return:
    target is written, source may be reused. Raises as `broadcast`, and DtypeError on every PE for a dtype without
    addition, before anything moves.
    OpenSHMEM 1.6, 9.10 (shmem_sum_reduce).
    """
    _reduce("sum_reduce", OP.SUM, target, source, size, team, timeout)


@fronted
def prod_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Multiplies, otherwise as `sum_reduce`; bools are and-ed. The four products of a complex one round each by itself
    on every machine (NumPy's own fuse some where the CPU can). OpenSHMEM 1.6, 9.10 (shmem_prod_reduce)."""
    _reduce("prod_reduce", OP.PROD, target, source, size, team, timeout)


@fronted
def min_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """The smallest of each element, NaN if any is NaN (NaT of times); otherwise as `sum_reduce`. DtypeError for
    complex. OpenSHMEM 1.6, 9.10 (shmem_min_reduce)."""
    _reduce("min_reduce", OP.MIN, target, source, size, team, timeout)


@fronted
def max_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """The largest of each element, NaN if any is NaN (NaT of times); otherwise as `sum_reduce`. DtypeError for
    complex. OpenSHMEM 1.6, 9.10 (shmem_max_reduce)."""
    _reduce("max_reduce", OP.MAX, target, source, size, team, timeout)


@fronted
def and_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Bitwise and of integers or bools, otherwise as `sum_reduce`. DtypeError for all other dtypes.
    OpenSHMEM 1.6, 9.10 (shmem_and_reduce)."""
    _reduce("and_reduce", OP.AND, target, source, size, team, timeout)


@fronted
def or_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Bitwise or of integers or bools, otherwise as `sum_reduce`. DtypeError for all other dtypes.
    OpenSHMEM 1.6, 9.10 (shmem_or_reduce)."""
    _reduce("or_reduce", OP.OR, target, source, size, team, timeout)


@fronted
def xor_reduce(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Bitwise exclusive or of integers or bools, otherwise as `sum_reduce`. DtypeError for all other dtypes.
    OpenSHMEM 1.6, 9.10 (shmem_xor_reduce)."""
    _reduce("xor_reduce", OP.XOR, target, source, size, team, timeout)
