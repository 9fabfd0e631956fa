"""What the handles of the PE that calls say of its memory and its contexts."""

from __future__ import annotations

from ..enums import CTX
from ..runtime import here


def is_lock(offset: int) -> bool:
    """Whether a byte of the heap is in the word of a lock that the PE has used."""
    pe = here().current
    return pe is not None and bool(pe.locks) and offset & ~7 in pe.locks


def context(q: int) -> tuple[str, bool]:
    """The atomicity domain of a context, and whether fences on it cover own stores."""
    pe = here().current
    for made in pe.contexts if pe is not None and q else ():
        if made.q == q:
            return "TEAM_SHARED" if made.team._made.shared else "TEAM_WORLD", CTX.NOSTORE not in made.options
    return "TEAM_WORLD", True
