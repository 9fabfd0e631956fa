"""Making and destroying teams (OpenSHMEM 1.6, 9.4).

A split is collective over the parent team. Each member shows which slots it has free; after the barrier that compares
the calls every member knows everybody's, and so which slot each new team takes: the lowest that is free at all of its
members. A second barrier compares what was chosen. It differs only where another thread of some PE took a slot
meanwhile, and then all choose again. Nothing here needs MPI.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence

from . import contexts, log
from .barriers import agree, arrive, meet, members_of
from .errors import TeamError
from .fabric.interface import CONTEXTS, Members, Status
from .in_use import team_in_use
from .records import fingerprint
from .runtime import PE, current
from .slots import SHARED, SLOTS, WORLD, Membership, choose
from .teams import TEAM_INVALID, TEAM_WORLD, Team, checked, resolve

Config = Mapping[str, int]
Lists = list[tuple[int, ...]]
_serial = itertools.count(1)


def team_split_strided(
    parent: Team, start: int, stride: int, size: int | None, config: Config | None = None,
    *, timeout: float | None = None,
) -> Team:  # fmt: skip
    """A new team of `size` members of `parent`: those with the numbers start, start + stride, ... in it, in that order.

    Collective over the parent. stride: may be negative, 0 only for one PE; no wrap-around. size: None = as many as
    there are. config: {"num_contexts": n} contexts that the team will need, a promise and no limit.
    Returns TEAM_INVALID at a PE that is no member of the new team. Raises on every PE of the parent: TeamError (no such
    PEs, a config with other keys, no slot left, invalid parent), SymmetryError if the arguments differ; ShmemTimeout,
    PeerDied. Completes nothing. OpenSHMEM 1.6, 9.4 (shmem_team_split_strided).
    """
    pes = resolve(parent).pes
    call = f"team_split_strided({parent!r}, {_text(start)}, {_text(stride)}, {_text(size)}, {_text(config)})"
    return _split(parent, call, lambda: [_strided(pes, start, stride, size)], [config], timeout)[0]


def team_split_2d(
    parent: Team, xrange: int, xconfig: Config | None = None, yconfig: Config | None = None,
    *, timeout: float | None = None,
) -> tuple[Team, Team]:  # fmt: skip
    """The row and the column of this PE where the parent's PEs are laid out in rows of `xrange`: (row, column).

    Collective over the parent. PE i of the parent is at x = i % xrange, y = i // xrange; it has number x in its row and
    y in its column. An xrange beyond the size of the parent means that size; the last row may be shorter. Raises as
    `team_split_strided`. OpenSHMEM 1.6, 9.4 (shmem_team_split_2d).
    """
    pes = resolve(parent).pes
    call = f"team_split_2d({parent!r}, {_text(xrange)}, {_text(xconfig)}, {_text(yconfig)})"

    def grid() -> Lists:
        width = min(_index(xrange, "xrange"), len(pes))
        if width < 1:
            raise TeamError(f"xrange={xrange}: must be 1 or more")
        return [pes[i : i + width] for i in range(0, len(pes), width)] + [pes[x::width] for x in range(width)]

    row, column = _split(parent, call, grid, [xconfig, yconfig], timeout)
    return row, column


def team_from_pes(pes: Sequence[int], *, timeout: float | None = None) -> Team:
    """A new team of any PEs of the job, in the order of the list. Ours.

    Collective over all PEs, with equal lists. Returns TEAM_INVALID at a PE that is not listed. Raises on every PE
    TeamError (no PE, a PE that does not exist, one twice, no slot left), SymmetryError, ShmemTimeout, PeerDied.
    """
    try:
        listed = list(pes)
    except TypeError:
        listed = None

    def given() -> Lists:
        if listed is None:
            raise TeamError(f"pes={pes!r}: must be a list of PEs")
        return [tuple(_of(TEAM_WORLD.pes, _index(pe, "a PE")) for pe in listed)]

    text = _text(pes) if listed is None else f"[{', '.join(map(_text, listed))}]"
    return _split(TEAM_WORLD, f"team_from_pes({text})", given, [None], timeout)[0]


def team_destroy(team: Team, *, timeout: float | None = None) -> None:
    """Destroys a team, with the contexts that its members made of it. Collective over it.

    Nothing for TEAM_INVALID and the predefined teams. On return: its members have come here, its contexts are complete.
    Raises TeamError for a team destroyed before; SymmetryError, ShmemTimeout, PeerDied, after which it exists
    still. So it does where a batch in flight on a stream meets on it (TeamError) or uses a context of it
    (ContextError); the other members get SymmetryError then. OpenSHMEM 1.6, 9.4 (shmem_team_destroy).
    """
    made = checked(team)._made
    if made.slot in (TEAM_INVALID._made.slot, WORLD, SHARED):
        return
    pe, members = current(), members_of(current(), team)
    agree(pe, members, f"team_destroy({team!r})", team_in_use(pe, team), timeout)
    # Who comes out of a barrier late could read the result of a later one of the slot's next team: so the last one has
    # no result.
    meet(pe, members, 0, f"team_destroy({team!r})", timeout)
    contexts.end(pe, [one for one in pe.contexts if one.team == team])
    pe.slots.give_back([made])
    log.debug("team_destroy: team %d of PEs %s", made.slot, ", ".join(map(str, made.pes)))


def _split(
    parent: Team, call: str, plan: Callable[[], Lists], configs: Sequence[Config | None], timeout: float | None
) -> list[Team]:
    """Makes the teams of `plan`, of which this PE gets one for each of `configs`: in order, those that it is in."""
    pe = current()
    members = members_of(pe, parent)
    problem: TeamError | None = None
    lists: Lists = []
    try:
        lists, sizes = _disjoint(plan()), [_num_contexts(config) for config in configs]
    except TeamError as error:
        error.pe, problem = pe.me, error  # raised once all are here: they wait for this PE, whatever it asks for
    for turn in itertools.count():
        pe.fabric.show(members.slot, pe.slots.free)
        arrive(pe, members, call, timeout)
        if problem is not None:
            raise problem
        taken = _take(pe, members, lists, sizes, turn, call, timeout, resolve(parent)._made.shared)
        if taken is not None:
            made = [Team._of(team) for team in taken] or [TEAM_INVALID for _ in configs]
            log.debug("%s: %s", call, ", ".join(map(repr, made)))
            return made
    raise AssertionError("never: the loop ends by returning")


def _take(
    pe: PE, parent: Members, lists: Lists, sizes: list[int], turn: int, call: str, timeout: float | None,
    shared: bool,
) -> list[Membership] | None:  # fmt: skip
    """The new teams of this PE, their slots taken; None if somebody could not keep the slot that was chosen."""
    free = {other: pe.fabric.shown(other, parent.slot) for other in parent.pes}
    slots = choose(lists, free, turn * parent.slot)
    own = [(slot, pes) for slot, pes in zip(slots or [], lists, strict=False) if pe.me in pes]
    mine = [Membership(*one, size, next(_serial), shared) for one, size in zip(own, sizes, strict=False)]
    kept = pe.slots.take(mine)
    try:
        for team in mine if kept else ():
            pe.fabric.team(Members(team.slot, team.pes))
            pe.left.pop(team.slot, None)  # what the slot's last team gave up
        equal = meet(pe, parent, fingerprint(f"{slots} {kept}"), call, timeout) is Status.OK
    except BaseException:
        pe.slots.give_back(mine if kept else [])
        raise
    if equal and slots is None:
        raise TeamError(f"{call}: no slot is free at all members; a PE is in at most {SLOTS} teams", pe=pe.me)
    if equal and kept:
        return mine
    pe.slots.give_back(mine if kept else [])
    return None


def _strided(pes: tuple[int, ...], start: int, stride: int, size: int | None) -> tuple[int, ...]:
    first, step = _index(start, "start"), _index(stride, "stride")
    if size is None:
        left = len(pes) - first if step > 0 else first + 1
        count = -(-left // abs(step)) if step else 1
    else:
        count = _index(size, "size")
    if not 1 <= count <= len(pes):
        raise TeamError(f"{count} PEs from {first} on, {step} apart: a team of {len(pes)} PEs has no such part")
    return tuple(_of(pes, first + i * step) for i in range(count))


def _of(pes: tuple[int, ...], number: int) -> int:
    if not 0 <= number < len(pes):
        raise TeamError(f"a team can't have PE {number} of PEs 0 to {len(pes) - 1}")
    return pes[number]


def _disjoint(lists: Lists) -> Lists:
    """The lists; raises TeamError for one that is empty or has a PE twice."""
    for pes in lists:
        if not pes:
            raise TeamError("a team has at least one PE")
        if len(set(pes)) < len(pes):
            raise TeamError(f"a PE has one number in a team: {list(pes[:16])} has one twice")
    return lists


def _num_contexts(config: Config | None) -> int:
    given = {} if config is None else config
    if not isinstance(given, Mapping) or set(given) - {"num_contexts"}:
        raise TeamError(f"config {given!r}: must be a dict with num_contexts and nothing else")
    number = _index(given.get("num_contexts", 0), "num_contexts")
    if not 0 <= number <= CONTEXTS:
        raise TeamError(f"num_contexts={number}: must be 0 to {CONTEXTS}")
    return number


def _index(value: object, name: str) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TeamError(f"{name}={value!r}: must be an integer") from None


def _text(value: object) -> str:
    """An argument in the text of a call: equal where the arguments mean the same."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_text(value[key])}' for key in sorted(value, key=str))}}}"
    try:
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return repr(value)
