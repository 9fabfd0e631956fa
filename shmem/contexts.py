"""Contexts: streams of transfers that are ordered and completed each by itself, and sessions, hints about them.

A `Ctx` is a handle, as a `Team` is; what it stands for is a queue of the fabric and the team whose numbers its PE
arguments are. Every routine with an argument `ctx` finds both here: its queue by `check_context`, the PE it talks to by
`number_of`. A context belongs to the PE that made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from threading import get_ident
from types import TracebackType

from . import log
from .enums import CTX, CTX_SESSION
from .errors import ContextError, DtypeError
from .fabric.interface import Level
from .in_use import context_in_use
from .plain import whole_number
from .runtime import PE, Local, current, started
from .teams import TEAM_WORLD, Team, resolve
from .waiting import asked


@dataclass(eq=False)
class Context:
    """What a handle stands for."""

    q: int
    team: Team
    options: CTX
    pe: PE | None = None  # its owner; None: the default context, of whatever job runs
    pes: tuple[int, ...] | None = None  # the PEs that its numbers mean, None where they are those of the job
    thread: int | None = None  # the one that may use it, None = any
    live: bool = True


@dataclass(frozen=True)
class Session:
    """What a program said about the transfers to come on a context: hints, which change nothing of what it gets."""

    options: CTX_SESSION
    total_ops: int | None  # transfers expected, None = not said


_DEFAULT = Context(0, TEAM_WORLD, CTX(0))


class Ctx(Local):
    """A communication context. `Ctx(ctx)` is another handle of the same one, `Ctx()` one of none.

    Handles are equal if they stand for the same context; those of a destroyed one equal CTX_INVALID and are false. As
    a context manager it destroys itself. A copy is another handle; only the constants can be pickled. Raises DtypeError
    for what is no context. shmem4py.
    """

    __slots__ = ("_made",)

    def __init__(self, ctx: Ctx | None = None) -> None:
        if ctx is not None and not isinstance(ctx, Ctx):
            raise DtypeError(f"{ctx!r} is not a context", pe=_asking())
        self._made: Context | None = None if ctx is None else ctx._made

    @classmethod
    def _of(cls, made: Context) -> Ctx:
        handle = cls()
        handle._made = made
        return handle

    def _now(self) -> Context | None:
        made = self._made
        return made if made is _DEFAULT or (made is not None and made.live and made.pe is started()) else None

    def __copy__(self) -> Ctx:
        return Ctx(self)

    def __deepcopy__(self, memo: object) -> Ctx:
        return Ctx(self)

    def __reduce__(self) -> str | tuple[object, ...]:
        if self is CTX_DEFAULT or self is CTX_INVALID:
            return repr(self)  # its name in this module
        if self._made is None:
            return Ctx, ()
        return (Ctx, (CTX_DEFAULT,)) if self._made is _DEFAULT else super().__reduce__()

    def __bool__(self) -> bool:
        return self._now() is not None

    def __eq__(self, other: object) -> bool:
        return self._now() is other._now() if isinstance(other, Ctx) else NotImplemented

    def __hash__(self) -> int:
        return hash(Ctx)  # as with Team: a handle equals CTX_INVALID once its context is destroyed

    def __repr__(self) -> str:
        made = self._made
        if made is None or made is _DEFAULT:
            return "CTX_INVALID" if made is None else "CTX_DEFAULT"
        return f"{'' if self else 'destroyed '}Ctx {made.q} of {made.team!r}"

    @staticmethod
    def create(options: int = 0, team: Team | None = None) -> Ctx:
        """A new context of a team (default: all PEs). As `team_create_ctx`.

        OpenSHMEM 1.6, 9.5 (shmem_ctx_create, shmem_team_create_ctx).
        """
        return team_create_ctx(TEAM_WORLD if team is None else team, options)

    def destroy(self) -> None:
        """Completes and destroys the context; nothing for an invalid or destroyed one. Raises as `ctx_destroy`.

        Another handle of CTX_DEFAULT becomes invalid. OpenSHMEM 1.6, 9.5 (shmem_ctx_destroy).
        """
        if self:
            ctx_destroy(self)
        if self._made is _DEFAULT and self is not CTX_DEFAULT:
            self._made = None

    def get_team(self) -> Team:
        """The team whose numbers the context's PEs are. Raises ContextError if invalid.

        OpenSHMEM 1.6, 9.5 (shmem_ctx_get_team).
        """
        return Team(context_of(self).team)

    def fence(self) -> None:
        """Orders what was sent on this context, as `shmem.fence(ctx)`. OpenSHMEM 1.6, 9.12 (shmem_ctx_fence)."""
        current().fabric.fence(check_context(self))

    def quiet(self, *, timeout: float | None = None) -> None:
        """As `shmem.quiet(ctx)`: completes what was sent on this context, and nothing of another.

        OpenSHMEM 1.6, 9.12 (shmem_ctx_quiet).
        """
        pe, q = current(), check_context(self)
        pe.fabric.complete(q, Level.VISIBLE, None, asked(pe, timeout))

    def pending(self) -> int:
        """How many transfers were sent on the context since it was last completed. Ours.

        Blocking gets and fetches do not count. They may have arrived already: what counts is that the program can't
        rely on it.
        """
        return current().fabric.pending(check_context(self))

    @property
    def session(self) -> Session | None:
        """The running session of the context, None if there is none. Ours."""
        return current().sessions.get(check_context(self))

    def __enter__(self) -> Ctx:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made = self._now()
        if error is None or made is None or context_in_use(current(), [made]) is None:  # the block's error comes first
            self.destroy()


CTX_DEFAULT = Ctx._of(_DEFAULT)
CTX_INVALID = Ctx()


def context_of(ctx: object) -> Context:
    """What an argument `ctx=` means: None is the default context.

    Raises ContextError for an invalid or destroyed one, a private one of another thread, and what is none at all.
    """
    if ctx is None:
        return _DEFAULT
    if not isinstance(ctx, Ctx):
        raise ContextError(f"{ctx!r} is not a context", pe=_asking())
    made = ctx._now()
    if made is None:
        raise ContextError(f"{ctx!r} can't be used" if ctx._made else "the context is CTX_INVALID", pe=_asking())
    if made.thread is not None and made.thread != get_ident():
        raise ContextError(f"{ctx!r} is private to the thread that made it", pe=_asking())
    return made


def check_context(ctx: object) -> int:
    """The fabric's queue of a context. Raises as `context_of`."""
    return 0 if ctx is None else context_of(ctx).q


def number_of(pe: PE, target: object, ctx: object) -> int:
    """The PE of the job that number `target` means on a context. Raises InvalidPE, and as `context_of`."""
    if ctx is None:
        return pe.check_pe(target)
    made = context_of(ctx)
    return pe.check_pe(target) if made.pes is None else pe.check_pe(target, made.pes, repr(made.team))


def ctx_create(options: int = 0) -> Ctx:
    """A new context of all PEs. As `team_create_ctx`. OpenSHMEM 1.6, 9.5 (shmem_ctx_create)."""
    return team_create_ctx(TEAM_WORLD, options)


def team_create_ctx(team: Team, options: int = 0) -> Ctx:
    """A new context on which PE numbers are those of a team. Local to this PE.

    options: any of CTX_PRIVATE (only this thread may use it: another one gets ContextError), CTX_SERIALIZED and
    CTX_NOSTORE (permissions that change nothing here). Raises ContextError for other options and when 64 contexts
    exist, TeamError for an invalid team. OpenSHMEM 1.6, 9.5 (shmem_team_create_ctx).
    """
    pe, of = current(), resolve(team)
    chosen = CTX(_bits(options, CTX, "options", pe))
    pes = None if of == TEAM_WORLD else of.pes
    thread = get_ident() if CTX.PRIVATE in chosen else None
    made = Context(pe.fabric.queue(), Team(of), chosen, pe, pes, thread)
    pe.contexts.append(made)
    log.debug("context %d of %r, options %d", made.q, made.team, made.options)
    return Ctx._of(made)


def ctx_destroy(ctx: Ctx) -> None:
    """Completes what was sent on a context and destroys it; nothing for CTX_DEFAULT and CTX_INVALID.

    Local to this PE. Raises ContextError for one that is destroyed already, and while a batch in flight on a stream
    uses it: a quiet does not wait for what the stream has not sent yet. OpenSHMEM 1.6, 9.5 (shmem_ctx_destroy).
    """
    if ctx is None:
        raise ContextError("None is not a context", pe=_asking())
    if isinstance(ctx, Ctx) and ctx._made in (None, _DEFAULT):
        return
    pe, made = current(), context_of(ctx)
    if (busy := context_in_use(pe, [made])) is not None:
        raise busy
    end(pe, [made])


def end(pe: PE, ended: list[Context]) -> None:
    """Completes and destroys contexts of this PE."""
    for one in list(ended):
        pe.fabric.complete(one.q, Level.VISIBLE)  # which may fail, or be interrupted: then it is as before
        one.live = False
        pe.contexts.remove(one)
        pe.sessions.pop(one.q, None)
        pe.fabric.release(one.q)
        log.debug("context %d destroyed", one.q)


def ctx_get_team(ctx: Ctx) -> Team:
    """The team of a context. Raises ContextError for an invalid one. OpenSHMEM 1.6, 9.5 (shmem_ctx_get_team)."""
    return Team(context_of(ctx).team)


def ctx_session_start(ctx: Ctx | None, options: int = 0, total_ops: int | None = None) -> None:
    """Says that a session of transfers begins on a context: a hint, which changes neither order nor completion.

    options: CTX_SESSION_BATCH (they may be sent together) or 0. total_ops: how many there will be. A start within a
    session adds its options; its total_ops counts if given. Nothing for CTX_INVALID. Local. Raises ContextError for a
    destroyed context and other options, ArgumentError (total_ops). OpenSHMEM 1.6, 9.9 (shmem_ctx_session_start).
    """
    if isinstance(ctx, Ctx) and ctx._made is None:
        return
    pe, q = current(), check_context(ctx)
    added = CTX_SESSION(_bits(options, CTX_SESSION, "options", pe))
    number = None if total_ops is None else whole_number(total_ops, "total_ops", pe.me, 0)
    before = pe.sessions.get(q, Session(CTX_SESSION(0), None))
    pe.sessions[q] = Session(before.options | added, before.total_ops if number is None else number)


def ctx_session_stop(ctx: Ctx | None) -> None:
    """Says that the session on a context is over; nothing without one, and for CTX_INVALID. Completes nothing.

    Local. Raises ContextError for a destroyed context. OpenSHMEM 1.6, 9.9 (shmem_ctx_session_stop).
    """
    if isinstance(ctx, Ctx) and ctx._made is None:
        return
    current().sessions.pop(check_context(ctx), None)


def _bits(value: object, kind: type[CTX] | type[CTX_SESSION], name: str, pe: PE) -> int:
    """The bits of an argument made of members of `kind`; raises ContextError for others, and other enumerations."""
    every = sum(kind)
    if isinstance(value, int) and not (isinstance(value, Enum) and not isinstance(value, kind)):
        bits = int(value)
        if bits & ~every == 0:
            return bits
    known = ", ".join(f"{kind.__name__}_{member.name}" for member in kind)
    raise ContextError(f"{name}={value!r}: must be made of {known}", pe=pe.me)


def _asking() -> int | None:
    here = started()
    return None if here is None else here.me
