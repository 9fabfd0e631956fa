"""What an atomic does to its word."""

from __future__ import annotations

from collections.abc import Callable

from .requests import Update

_APPLY: dict[str, Callable[[int, int, int], int]] = {
    "set": lambda old, new, cond: new,
    "swap": lambda old, new, cond: new,
    "add": lambda old, new, cond: old + new,
    "fetch": lambda old, new, cond: old,
    "compare_swap": lambda old, new, cond: new if old == cond else old,
    "and": lambda old, new, cond: old & new,
    "or": lambda old, new, cond: old | new,
    "xor": lambda old, new, cond: old ^ new,
}


def updated(old: bytes, update: Update) -> bytes:
    """A word after an atomic on it."""
    value = _APPLY[update.op](int.from_bytes(old, "little"), update.value, update.cond)
    return (value % (1 << 8 * update.width)).to_bytes(update.width, "little")
