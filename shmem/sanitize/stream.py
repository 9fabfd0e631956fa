"""The stream of one PE: a file of frames, mapped while it is written, so that a process that is killed loses nothing.

A line of JSON that says whose stream it is, then frames: a head of 16 bytes (`HEAD`) and its payload. A head is written
behind its payload, and what was not written is zero: so a stream that ends in the middle has whole frames only.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from ..fabric.events import Kind

SCHEMA = "shmemu-race/1"
FIRST_BYTES = 1 << 20
HEAD = struct.Struct("<BBHIQ")  # kind of frame, flags, queue, bytes of payload, time
ACCESS = struct.Struct("<IBxxxII")  # line, kind, words that say what it was, number of a record or 0; spans follow
SPAN = struct.Struct("<qQQ")  # PE or PRIVATE, first byte, behind the last
LANDED = struct.Struct("<QQQQiI")  # time, number of the record, first byte, behind the last, PE, what happened
RECORDS = struct.Struct("<IIII")  # line, number of records, text of the domain, 0; times and records follow
ALLOCATED = struct.Struct("<QQII")  # offset, bytes, text, line
INNER, NO_STORES = 1, 2  # flags: of a collective's own queue; a fence that leaves out own stores
PRIVATE = -1
WORD = 8  # bytes of a time, and the most that a look for a flag takes
KINDS = tuple(Kind)


class Frame(IntEnum):
    """Kinds of frames."""

    NOTHING = 0  # here the stream ends
    TEXT = 1  # the next number stands for it
    ACCESS = 2
    RECORDS = 3
    LINES = 4  # lines are put: as ACCESS, of the PE in the first span
    WAITED = 5  # as ACCESS
    TAKEN = 6  # lines were accepted: as ACCESS
    FENCE = 7
    QUIET = 8  # payload: target or -1, level
    RELEASE = 9  # payload: a text, which names the token
    MEET = 10  # the same at a barrier
    ACQUIRE = 11  # payload: texts
    ALLOCATED = 12
    END = 13  # the program has ended
    LANDED = 14  # what an adapter has placed since it was asked last


class Stream:
    """A stream that is written. Raises OSError where the file can't be made or the disk is full."""

    def __init__(self, path: str, header: Mapping[str, Any]) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._size = FIRST_BYTES
        os.posix_fallocate(self._fd, 0, self._size)
        self._map = mmap.mmap(self._fd, self._size)
        self.base = _address(self._map)  # in this process; the next frame may change it
        line = json.dumps({"schema": SCHEMA, **header}, separators=(",", ":")).encode() + b"\n"
        line = line[:-1] + b" " * (-len(line) % 8) + b"\n"  # times are written in place, at whole words
        self._map[: len(line)] = line
        self.at = len(line)
        self._texts: dict[str, int] = {}
        self.closed = False

    def text(self, text: str) -> int:
        """The number that stands for a text; 0 for none."""
        number = self._texts.get(text)
        if number is None:
            if not text:
                return 0
            number = self._texts[text] = len(self._texts) + 1
            data = text.encode()
            self.frame(Frame.TEXT, 0, data + b"\0" * (-len(data) % 8))
        return number

    def frame(self, kind: int, time: int, payload: bytes, flags: int = 0, q: int = 0) -> int:
        """Adds a frame; where its payload begins. Payloads are padded to whole words."""
        if len(payload) & 7:
            payload += b"\0" * (-len(payload) % 8)
        at = self.at + HEAD.size
        end = at + len(payload)
        if end + HEAD.size > self._size:
            self._grow(end + HEAD.size)
        self._map[at:end] = payload
        HEAD.pack_into(self._map, self.at, kind, flags, q, len(payload), time)
        self.at = end
        return at

    def _grow(self, nbytes: int) -> None:
        size = max(2 * self._size, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        os.posix_fallocate(self._fd, 0, size)  # a full disk raises here, and does not end the process at a store
        self._map.resize(size)
        self._size, self.base = size, _address(self._map)

    def close(self, time: int) -> None:
        """Ends the stream: nothing was lost."""
        if not self.closed:
            self.frame(Frame.END, time, b"")
            self.closed = True
            self._map.close()
            os.ftruncate(self._fd, self.at)
            os.close(self._fd)


def _address(memory: mmap.mmap) -> int:
    return int(np.frombuffer(memory, np.uint8, 1).__array_interface__["data"][0])


def access(where: int, kind: Kind, what: int, spans: Iterable[tuple[int, int, int]], number: int = 0) -> bytes:
    """The payload of an access. number: of the record that is carried out later, modulo 2**32; 0: of none."""
    head = ACCESS.pack(where, KINDS.index(kind), what, number & 0xFFFFFFFF)
    return head + b"".join([SPAN.pack(*span) for span in spans])
