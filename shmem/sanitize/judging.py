"""The streams of one run, put into one order and judged.

Times ascend along each program, along the changes of each word with those who saw them, and across barriers. So events
in the order of their times stand behind all they can depend on, whatever comes first of equal times.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..check.races.accesses import Race
from ..check.races.judge import Judge
from ..errors import ArgumentError
from .decoding import Block, Decoder, Timed
from .reading import Reader, asked_for

NAME = re.compile(r"pe-(\d+)(?:\.(\d+))?\.stream")
PAGE = 1024  # bytes: rows and halos are longer than the words of a program that is explored
FORGET = 2000  # accesses in memory before the judge looks for those that are over


def stream_name(pe: int, start: int) -> str:
    """The file of a PE, of its first start of shmem or a later one."""
    return f"pe-{pe}.stream" if start == 1 else f"pe-{pe}.{start}.stream"


@dataclass
class Verdict:
    """What a run was found to be. `cut`: PEs whose streams do not end, since their processes were killed."""

    n: int
    events: int
    races: list[Race]
    cut: list[int]
    blocks: list[Block] = field(default_factory=list)


def runs(folder: str) -> list[list[Reader]]:
    """The streams in a folder: for each start of shmem one of each PE. Raises ArgumentError where some are missing,
    damaged, or of different runs."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ArgumentError(f"no streams in {folder}: {error.strerror}") from None
    found: dict[int, dict[int, Reader]] = {}
    for name in names:
        if parts := NAME.fullmatch(name):
            reader = Reader(os.path.join(folder, name))
            if reader.pe != int(parts[1]):
                raise ArgumentError(f"{reader.path} is the stream of PE {reader.pe}: it was renamed")
            found.setdefault(int(parts[2] or 1), {})[reader.pe] = reader
    if not found:
        raise ArgumentError(f"no streams in {folder}: run the program with SHMEMU_SANITIZE={folder}")
    return [_whole(folder, found[start]) for start in sorted(found)]


def _whole(folder: str, readers: dict[int, Reader]) -> list[Reader]:
    n = max(reader.n for reader in readers.values())
    if absent := [pe for pe in range(n) if pe not in readers]:
        listed = ", ".join(map(str, absent))
        raise ArgumentError(f"{folder} has no stream of PE {listed} of {n}: all are needed")
    if len({(reader.run, reader.n) for reader in readers.values()}) > 1:
        raise ArgumentError(f"the streams in {folder} are of different runs: empty it before the next one")
    return [readers[pe] for pe in range(n)]


def judged(readers: list[Reader], mode: str) -> Verdict:
    """The races of one run, each pair of lines once."""
    words = asked_for(readers)
    decoders = [Decoder(reader, words) for reader in readers]
    judge, tasks, verdict = Judge(mode, PAGE), [reader.pe for reader in readers], Verdict(len(readers), 0, [], [])
    limit, before = FORGET, 0
    for time, event in _in_order(decoders):
        if time > before and verdict.events >= limit:  # operations have landed at their own times
            aloft = [id for decoder in decoders for id in decoder.aloft()]
            limit = verdict.events + max(FORGET, 2 * judge.forget(tasks, aloft))
        before = time
        judge.take(event)
        verdict.events += 1
    verdict.races = judge.races
    verdict.cut = [reader.pe for reader in readers if not reader.ended]
    verdict.blocks = decoders[0].blocks
    return verdict


def _in_order(decoders: list[Decoder]) -> Iterator[Timed]:
    return heapq.merge(*(decoder.events() for decoder in decoders), key=lambda timed: timed[0])
