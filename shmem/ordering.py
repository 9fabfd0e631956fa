"""Order and completion of what this PE sent: fence, quiet, pe_quiet (OpenSHMEM 1.6, 9.12).

Neither makes a peer wait, and neither tells a peer anything: that is what signals and barriers are for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .contexts import check_context as check_context
from .contexts import number_of
from .errors import InvalidPE
from .fabric.interface import Level
from .front import fronted
from .runtime import current
from .waiting import asked


@fronted
def fence(ctx: object = None) -> None:
    """Orders what was sent to each PE before against what is sent to it after.

    Covers puts, AMOs, put-signals and local stores, not gets; completes nothing, frees no source. Wakes waiters of this
    PE, so that a store by another thread is noticed. Raises ContextError. OpenSHMEM 1.6, 9.12 (shmem_fence).
    """
    current().fabric.fence(check_context(ctx))


@fronted
def quiet(ctx: object = None, *, timeout: float | None = None) -> None:
    """Completes everything sent on the context (default: the default one), and nothing of another.

    On return: puts, AMOs and put-signals are visible to all PEs, nonblocking gets and fetches have their results,
    all sources may be reused. timeout: seconds, default SHMEMU_TIMEOUT_S; only where transfers take time (`nic`).
    Raises ContextError, ShmemTimeout with what is in flight. OpenSHMEM 1.6, 9.12 (shmem_quiet).
    """
    pe = current()
    pe.fabric.complete(check_context(ctx), Level.VISIBLE, None, asked(pe, timeout))


def flush_local(ctx: object = None, *, timeout: float | None = None) -> None:
    """Makes the sources of everything sent on the context reusable, and nothing more: nothing need have arrived.

    Weaker than `quiet`: results of nonblocking gets and fetches may still be missing. timeout and errors as `quiet`.
    nvshmemx_flush; not in OpenSHMEM.
    """
    pe = current()
    pe.fabric.complete(check_context(ctx), Level.SOURCE, None, asked(pe, timeout))


def pe_quiet(pes: int | Iterable[int], ctx: object = None, *, timeout: float | None = None) -> None:
    """Completes everything sent on the context to the PEs listed (numbers in its team); an empty list returns at once.

    On return: as `quiet`, for those targets; timeout as there. Raises InvalidPE, ContextError, ShmemTimeout.
    OpenSHMEM 1.6, 9.12 (shmem_pe_quiet).
    """
    pe = current()
    q, limit = check_context(ctx), asked(pe, timeout)
    try:
        listed = [pes] if isinstance(pes, (int, np.integer)) else list(pes)
    except TypeError:
        raise InvalidPE(f"pes is {pes!r}: a PE or several are needed", pe=pe.me) from None
    targets = [number_of(pe, target, ctx) for target in listed]
    if targets:
        pe.fabric.complete(q, Level.VISIBLE, targets, limit)
