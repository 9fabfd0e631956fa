"""Who a task is, and in what it waits, in words for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tasks import Task


def name_of(who: int | tuple[int, int]) -> str:
    """A PE, or one of its workers."""
    return f"PE {who[0]} worker {who[1]}" if isinstance(who, tuple) else f"PE {who}"


def waiting(task: Task) -> str:
    """In what a task waits before its step. That of a PE whose program has ended is in finalize."""
    what = "" if task.step is None else task.step.what
    if task.where or isinstance(task.key, tuple):
        return f"waits in {what}"
    rest = "waits for the others in finalize" if what == "barrier" else f"waits in finalize: {what}"
    return f"has ended its program and {rest}"
