"""Sums over the PEs before: sum_inscan (this PE included) and sum_exscan (without it)."""

from __future__ import annotations

from ..enums import OP
from ..fabric.interface import Members
from ..runtime import PE
from ..teams import Team
from ..views import Array
from .arguments import check, run
from .folds import folding
from .plans import Plan
from .reductions import folded


def _scan(
    name: str, inclusive: bool, target: Array, source: Array, size: int | None, team: Team | None,
    timeout: float | None,
) -> None:  # fmt: skip
    def plan(pe: PE, members: Members) -> Plan:
        how = folding(source, OP.SUM, name, pe.me)
        call = check(pe, name, members, target, source, size, (1, 1), in_place=True)
        return folded(call, how, range(call.me + inclusive))

    run(name, plan, target, source, size, team, timeout)


def sum_inscan(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Adds `source` of the PEs of a team from 0 up to this one, element by element, into `target`.

    Order, rounding, arguments and errors as `sum_reduce`. OpenSHMEM 1.6, 9.10 (shmem_sum_inscan).
    """
    _scan("sum_inscan", True, target, source, size, team, timeout)


def sum_exscan(
    target: Array, source: Array, size: int | None = None, team: Team | None = None, *, timeout: float | None = None
) -> None:
    """Adds `source` of the PEs of a team before this one, element by element, into `target`; zeros on PE 0.

    Order, rounding, arguments and errors as `sum_reduce`. OpenSHMEM 1.6, 9.10 (shmem_sum_exscan).
    """
    _scan("sum_exscan", False, target, source, size, team, timeout)
