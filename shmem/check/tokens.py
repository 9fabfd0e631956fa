"""Tokens: one execution as a short text, `s1.<program>.<choices>`.

An execution is a list of choices, the place of each move among those possible, which stand in the usual order; so most
are 0, and what is written are runs. The hash of the program and its bounds guards against a replay of another one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from itertools import groupby

from ..errors import ArgumentError, ReplayMismatch

VERSION = "s1"
CHOICES_MAX = 1 << 24  # no execution is so long


def digest(*parts: object) -> str:
    """Eight hex digits that stand for a program and its bounds."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=4).hexdigest()


def encode(program: str, choices: Sequence[int]) -> str:
    """The token of an execution. Choices that the usual order would make anyway need not be there: zeros at the end."""
    last = max((i for i, choice in enumerate(choices) if choice), default=-1)
    data = bytearray()
    for choice, run in groupby(choices[: last + 1]):
        data += _number(choice) + _number(len(list(run)))
    return f"{VERSION}.{program}.{base64.urlsafe_b64encode(bytes(data)).decode().rstrip('=')}"


def decode(token: str, program: str | None = None) -> list[int]:
    """The choices of a token. Raises ArgumentError for what is no token, ReplayMismatch if it is another program's."""
    parts = token.split(".")
    if len(parts) != 3 or not parts[0].startswith("s"):
        raise ArgumentError(f"{token!r} is no token: they look like {VERSION}.0f1e2d3c.AAEC")
    if parts[0] != VERSION:
        raise ArgumentError(f"{token!r} was made by another version: this one knows {VERSION}")
    if program is not None and parts[1] != program:
        raise ReplayMismatch(
            f"the token is of the program {parts[1]}, this one is {program}: the program, its arguments, its bounds or "
            "its profile changed since"
        )
    try:
        data = base64.b64decode(parts[2] + "=" * (-len(parts[2]) % 4), altchars=b"-_", validate=True)
        numbers = _numbers(data)
    except (binascii.Error, IndexError):
        raise ArgumentError(f"{token!r} is damaged") from None
    if len(numbers) % 2 or sum(numbers[1::2]) > CHOICES_MAX:
        raise ArgumentError(f"{token!r} is damaged")
    return [choice for choice, times in zip(numbers[::2], numbers[1::2], strict=True) for _ in range(times)]


def _number(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        found.append(value)
    return found
