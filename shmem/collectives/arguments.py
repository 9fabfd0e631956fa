"""The arguments of collective calls: checked, described in one line that is compared between PEs, and run.

A wrong argument raises on the PE that made it. It still arrives at the call's barrier, in the name of a refused call,
so that members whose arguments were right raise SymmetryError with its reason and don't wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..barriers import arrive, members_of
from ..errors import ArgumentError, DtypeError, ShmemError, SizeMismatch, SymmetryError
from ..fabric.interface import Members
from ..runtime import PE, current
from ..teams import Team
from ..views import Array, Place, check_array, check_target, symmetric
from ..waiting import deadline
from .plans import After, Plan, perform, recall, remember
from .script import Script


@dataclass(frozen=True)
class Call:
    """A call whose arguments are right. `size` elements a block; sides as places of the own heap."""

    pe: PE
    name: str
    members: Members
    target: Array
    source: Array
    to: Place
    what: Place
    size: int
    in_place: bool
    text: str  # compared between PEs
    given: str  # all of it

    @property
    def n(self) -> int:
        """How many PEs take part."""
        return len(self.members.pes)

    @property
    def me(self) -> int:
        """The position of this PE among them."""
        return self.members.pes.index(self.pe.me)

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.size * self.source.itemsize

    @property
    def direct(self) -> bool:
        """Whether both sides are contiguous, so that no copy needs packing."""
        return self.to.count == 1 and self.what.count == 1

    def plan(self, write: Callable[[Script], None], after: After | None = None, *private: Array) -> Plan:
        """The plan whose records `write` puts into a script, for either half; `private` arrays come with it."""
        scripts = [Script(self.pe, self.members, self.text, half) for half in (0, 1)]
        for script in scripts:
            write(script)
        keep = (self.target, self.source, *private, *scripts[0].keep, *scripts[1].keep)
        records = scripts[0].records(), scripts[1].records()
        spare = sum(array.nbytes for array in private)
        return Plan(self.text, self.members, records, keep, after, spare, self.given, scripts[0].in_place)

    def ends(self, reads: int, writes: int) -> list[tuple[int, int, bool]]:
        """What is done to so many bytes of source and of target, as `Script.read_in_place` takes it."""
        return [(self.what.offset, reads, False), (self.to.offset, writes, True)]


Plans = Callable[[PE, Members], Plan]


def run(name: str, plan: Plans, target: Any, source: Any, size: object, team: Team | None, timeout: float | None,
        *extra: object) -> None:  # fmt: skip
    """Runs a collective call: with the plan of an equal one before it, else with the one that `plan` makes."""
    pe = current()
    deadline(pe, timeout)
    members = members_of(pe, team)  # the very object pe.members where no team was given
    key = _key(pe, name, members, target, source, size, extra)
    known = None if key is None else recall(pe, key)
    if known is None:
        try:
            known = plan(pe, members)
        except ShmemError as problem:
            refuse(name, problem, team, timeout)
        if key is not None:
            remember(pe, key, known)
    if key is not None and members is pe.members and known.after is None:
        pe.fabric.learn(name, (target, source, extra[0] if extra else None, size), known)
    perform(pe, known, timeout)


def refuse(name: str, problem: ShmemError, team: Team | None, timeout: float | None) -> NoReturn:
    """Raises `problem`, once the other members know of it."""
    pe = current()
    try:
        arrive(pe, members_of(pe, team), f"{name}(refused: {problem})", timeout, refused=True)
    except SymmetryError as others:
        raise problem from others
    raise problem


def _key(pe: PE, name: str, members: Members, target: Any, source: Any, size: object, extra: Any) -> object:
    """What a plan depends on; None if it can't be kept. A block given back makes all plans worth nothing."""
    key = [name, members, type(size), size, pe.fabric.frees]
    for one in extra:
        key += [type(one), one]
    for array in (target, source):
        if type(array) is not np.ndarray:
            return None
        inner = array.__array_interface__
        key += [inner["data"], array.shape, array.strides, array.dtype]
    made = tuple(key)
    try:
        hash(made)
    except TypeError:
        return None
    return made


def check(
    pe: PE, name: str, members: Members, target: object, source: object, size: object,
    blocks: tuple[int, int], *, in_place: bool = False, smaller: bool = False, varying: bool = False, note: str = "",
) -> Call:  # fmt: skip
    """Checks both arrays of a call with `size` elements a block, `blocks` of them in target and in source.

    Without a size all of source is taken; with `smaller`, as much as both hold. `varying`: target takes an unknown part
    of what others give, and neither size nor source is compared between PEs. Raises DtypeError, SizeMismatch,
    LayoutError, NotSymmetric, FreedBlock, and ArgumentError for a read-only target and for arrays that overlap, but for
    target and source being the same where `in_place`.
    """
    to, what = check_array(target, "target", pe.me), check_array(source, "source", pe.me)
    check_target(to, "target", pe.me)
    if to.dtype != what.dtype:
        raise DtypeError(f"source has dtype {what.dtype}, target {to.dtype}; view both as uint8 for bytes", pe=pe.me)
    if all(a.flags.f_contiguous and not a.flags.c_contiguous for a in (to, what)):
        to, what = to.T, what.T  # the same memory on both sides, in the order in which it lies
    n = _elements(to, what, size, blocks, smaller, pe.me)
    taken = to.size if varying else n * blocks[0]
    ends = symmetric(pe, to, taken, "target"), symmetric(pe, what, n * blocks[1], "source")
    same = ends[0] == ends[1]
    if not (same and in_place) and _overlap(ends[0], ends[1], to, what):
        least = "must be the same or disjoint" if in_place else "must be disjoint"
        raise ArgumentError(f"target and source overlap: in {name} they {least}", pe=pe.me)
    given = f"{name}({n} x {to.dtype}{note}, target at {_where(ends[0])}, source at {_where(ends[1])})"
    text = f"{name}({to.dtype}, target at {_where(ends[0])})" if varying else given
    return Call(pe, name, members, to, what, *ends, n, same, text, given)


def _elements(to: Array, what: Array, size: object, blocks: tuple[int, int], smaller: bool, me: int) -> int:
    if size is None:
        whole = min(what.size, to.size) if smaller else what.size
        if whole % blocks[1]:
            raise SizeMismatch(f"{whole} elements of source can't be divided among {blocks[1]} PEs", pe=me)
        n = whole // blocks[1]
    else:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise SizeMismatch(f"size={size!r}: must be a number of elements from 0 up", pe=me)
        n = int(size)
    for name, array, count in (("target", to, blocks[0]), ("source", what, blocks[1])):
        if n * count > array.size:
            text = f"{count} blocks of {n}" if count > 1 else f"{n}"
            raise SizeMismatch(f"{name} has {array.size} elements, but {text} are needed", pe=me)
    return n


def _where(place: Place) -> str:
    apart = f" in blocks of {place.block} bytes every {place.stride}" if place.count > 1 else ""
    return f"{place.offset:#x}{apart}"


def _span(place: Place) -> tuple[int, int]:
    ends = place.offset, place.offset + (place.count - 1) * place.stride
    return min(ends), max(ends) + place.block


def _overlap(to: Place, what: Place, target: Array, source: Array) -> bool:
    """Whether two places share a byte; views that interleave do not."""
    (low, high), (first, last) = _span(to), _span(what)
    if not (low < last and first < high) or low == high or first == last:
        return False
    if to.count == what.count == 1:
        return True
    try:
        return np.shares_memory(target, source, max_work=10000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
