"""Streams of real runs as they are read: files, frames, and the words that somebody asks for."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..delivery.requests import Act
from ..errors import ArgumentError
from ..records import RECORD, Op
from .stream import ACCESS, HEAD, INNER, LANDED, RECORDS, SCHEMA, SPAN, WORD, Frame


class Raw(NamedTuple):
    """One frame."""

    kind: Frame
    flags: int
    q: int
    time: int
    payload: memoryview


class Reader:
    """A stream that was written. Raises ArgumentError for what is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                self._data: Any = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) if size else b"")
        except OSError as error:
            raise ArgumentError(f"{path} can't be read: {error.strerror}") from None
        line = bytes(self._data[: 1 << 20]).split(b"\n", 1)[0]
        try:
            about = json.loads(line)
            known = about["schema"] == SCHEMA
            self.pe, self.n, self.run = int(about["pe"]), int(about["n"]), str(about["run"])
            self.bases, self.nbytes = [int(base) for base in about["bases"]], int(about["nbytes"])
        except (ValueError, KeyError, TypeError):
            known = False
        if not known or not 0 <= self.pe < self.n == len(self.bases):
            raise ArgumentError(f"{path} is no stream of accesses, or its beginning is damaged")
        self._start = len(line) + 1
        self.ended = False  # the frame that ends it was seen

    def frames(self) -> Iterator[Raw]:
        """All whole frames. Raises ArgumentError where there is none that could be."""
        at, data = self._start, self._data
        while at + HEAD.size <= len(data):
            code, flags, q, nbytes, time = HEAD.unpack_from(data, at)
            if code == Frame.NOTHING:
                return
            if code > max(Frame):
                raise ArgumentError(f"{self.path} is damaged at byte {at}: frames of kind {code} do not exist")
            first, at = at + HEAD.size, at + HEAD.size + nbytes
            if at > len(data):
                return
            if code == Frame.END:
                self.ended = True
                return
            yield Raw(Frame(code), flags, q, time, data[first:at])


class Landing(NamedTuple):
    """What an adapter has placed: a word behind the data, or bytes of them."""

    time: int
    number: int  # of the record that it is of
    pe: int
    lo: int
    hi: int
    word: bool


def landings(reader: Reader) -> list[Landing]:
    """All that the adapter of a PE has placed, in the order of times."""
    return [
        Landing(time, number & 0xFFFFFFFF, pe, lo, hi, act == Act.WORD)
        for frame in reader.frames()
        if frame.kind is Frame.LANDED
        for time, number, lo, hi, pe, act in LANDED.iter_unpack(frame.payload)
    ]


Words = dict[int, list[int]]  # by PE: the numbers of words of 8 bytes whose makers somebody may ask for


def asked_for(readers: list[Reader]) -> Words:
    """The words that any PE waits for, changes by atomics, or looks at by small loads."""
    found: dict[int, set[int]] = {reader.pe: set() for reader in readers}
    for reader in readers:
        for frame in reader.frames():
            if frame.kind is Frame.RECORDS and not frame.flags & INNER:
                _, ops = records(frame.payload)
                for op, column in ((Op.AMO, "dst"), (Op.PUT_SIGNAL, "aux")):
                    some = ops[ops["op"] == op]
                    for pe, at in zip(some["pe"].tolist(), some[column].tolist(), strict=True):
                        found[pe].add(at // WORD)
            elif frame.kind in (Frame.ACCESS, Frame.WAITED, Frame.TAKEN, Frame.LINES):
                small = frame.kind is Frame.ACCESS  # of many spans: rows, which nobody polls
                if small and len(frame.payload) > ACCESS.size + SPAN.size:
                    continue
                for space, lo, hi in SPAN.iter_unpack(frame.payload[ACCESS.size :]):
                    if space in found and (not small or hi - lo <= WORD):
                        found[space].update(range(lo // WORD, -(-hi // WORD)))
    return {pe: sorted(words) for pe, words in found.items()}


def records(payload: memoryview) -> tuple[list[int], npt.NDArray[np.void]]:
    """The times and the records of a frame."""
    n = RECORDS.unpack_from(payload)[1]
    start = RECORDS.size
    times = np.frombuffer(payload[start : start + 8 * n], np.uint64).tolist()
    return times, np.frombuffer(payload[start + 8 * n : start + 8 * n + 64 * n], RECORD)
