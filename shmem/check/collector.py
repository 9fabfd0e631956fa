"""Python's search for garbage, while there is nearly none: what an execution makes is in use until its end."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

YOUNG = 50_000  # objects made since the last look, at which Python looks again; its default is 700


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Looks seldom meanwhile, and once at the end. Where the collector is off it stays off."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(YOUNG, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if before[0] and gc.isenabled():
            gc.collect(0)
