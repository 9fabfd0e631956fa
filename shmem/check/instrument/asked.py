"""Who wants the program's file instrumented: `shmemu check` and the pytest plugin, around their calls of `explore`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_ASKED = ContextVar("shmemu_instrumented_import", default=False)


@contextlib.contextmanager
def instrumented() -> Iterator[None]:
    """Programs that are prepared in here have their file instrumented, if their races are judged."""
    token = _ASKED.set(True)
    try:
        yield
    finally:
        _ASKED.reset(token)


def is_asked() -> bool:
    """Whether it is so here."""
    return _ASKED.get()
