"""Memory that queue pairs may use: segments, registered by their owner and imported by the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType

from ..errors import ArgumentError, NotSymmetric, StateError
from ..rma import reach
from ..runtime import current
from ..views import Array, address_of, check_array, check_live
from .adapter import engine_of
from .engine import Engine

RIGHTS = "rwa"


@dataclass(frozen=True)
class Segment:
    """Registered memory: `nbytes` bytes of PE `pe`, known to adapters by `key`. An own one has its `array`.

    rights: what other PEs may do, of "r" (READ), "w" (WRITE), "a" (atomics); "" is for the own PE alone. Source: verbs
    memory regions, URMA segments.
    """

    pe: int
    key: int
    nbytes: int
    rights: str
    array: Array | None = field(default=None, compare=False)
    number: int = 0  # registrations of the same memory before it
    engine: Engine | None = field(default=None, compare=False)

    def close(self) -> None:
        """Ends the registration of an own segment: requests that come to it fail with `rem_access`. An imported one is
        let go of, which is nothing."""
        if self.array is not None and self.engine is not None:
            self.engine.deregister(self.key)

    def __enter__(self) -> Segment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def register(array: Array, rights: str = RIGHTS) -> Segment:
    """Makes an array known to the adapter, so that it can be local memory of work requests and, by its rights, remote
    memory of other PEs' requests.

    array: C-contiguous, symmetric or private; it is kept alive. Symmetric memory needs this only to be reached by
    others. Raises ArgumentError, also for rights to change a read-only array, FreedBlock, NotSymmetric for memory
    from before finalize, DtypeError, StateError on a fabric without queue pairs.
    """
    pe = current()
    engine = engine_of(pe)
    check_array(array, "array", pe.me)
    if not array.flags.c_contiguous or not array.size:
        raise ArgumentError("only C-contiguous arrays with elements can be registered", pe=pe.me)
    if not isinstance(rights, str) or set(rights) - set(RIGHTS):
        raise ArgumentError(f"rights={rights!r}: use letters of {RIGHTS!r}", pe=pe.me)
    if not array.flags.writeable and set(rights) & set("wa"):
        raise ArgumentError(f"the array is read-only: rights={rights!r} would let others change it", pe=pe.me)
    check_live(pe, array, "array")
    key, number = engine.register(array, rights)
    return Segment(pe.me, key, array.nbytes, rights, array, number, engine)


def import_segment(segment: Segment, pe: int) -> Segment:
    """The segment that another PE has registered for the same symmetric memory as this one.

    Waits until it has: the n-th registration of the same memory there belongs to the n-th here. Raises NotSymmetric for
    private memory, InvalidPE, StateError for a segment that is not an own one.
    """
    mine = current()
    engine = engine_of(mine)
    if not isinstance(segment, Segment) or segment.array is None or segment.engine is not engine:
        raise StateError("import_segment takes a segment that this PE has registered", pe=mine.me)
    where = reach(mine, pe)
    key = engine.imported(where, address_of(segment.array), segment.nbytes, segment.number)
    if key is None:
        raise NotSymmetric(
            "private memory: no other PE has any that belongs to it; register a symmetric array", pe=mine.me
        )
    return Segment(where, key, segment.nbytes, segment.rights)
