"""What becomes of the records of one call: those that touch are joined, and nothing else is."""

from __future__ import annotations

import ctypes
import json
import random
from pathlib import Path

import numpy as np
import pytest

from shmem.fabric.events import Event, Kind, Landed, Operation
from shmem.records import NBI, RECORD, ROWS, Cast, Op
from shmem.sanitize.decoding import Decoder, alike, joined
from shmem.sanitize.reading import Reader
from shmem.sanitize.rows import touched
from shmem.sanitize.stream import RECORDS, Frame, Stream


@pytest.mark.parametrize("overlap", [False, True])
def test_ranges_that_touch_are_joined(overlap: bool) -> None:
    draw = random.Random(1)
    for _ in range(200):
        cells = [0] * 70
        ranges = []
        for _ in range(draw.randrange(1, 12)):
            lo = draw.randrange(60)
            hi = lo + draw.randrange(1, 9)
            if overlap or not any(cells[lo:hi]):
                ranges.append((lo, hi))
                for i in range(lo, hi):
                    cells[i] += 1
        found = list(joined(np.array([lo for lo, _ in ranges]), np.array([hi - lo for lo, hi in ranges]), overlap))
        runs, start = [], None  # of cells that are covered
        for i, covered in enumerate([*map(bool, cells), False]):
            if covered and start is None:
                start = i
            if not covered and start is not None:
                runs.append((start, i))
                start = None
        assert found == runs


def test_ranges_that_share_bytes_stay_two_operations() -> None:
    assert list(joined(np.array([0, 8, 12]), np.array([8, 8, 8]), False)) == [(0, 16), (12, 20)]


def test_only_blocking_moves_of_one_kind_go_together() -> None:
    ops = np.zeros(9, RECORD)
    ops["op"] = [Op.PUT, Op.PUT, Op.GET, Op.GET, Op.FENCE, Op.PUT, Op.PUT, Op.AMO, Op.AMO]
    ops["flags"][6] = NBI
    assert [(one.start, one.stop) for one in alike(ops)] == [(0, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)]
    assert list(alike(ops[:0])) == []


def decoded(folder: Path, ops: np.ndarray, times: list[int], words: dict[int, list[int]]) -> list[tuple[int, Event]]:
    """What a stream with these records tells, of PE 0 of 2, whose heaps lie at 4096 and 8192."""
    path = folder / "pe-0.stream"
    stream = Stream(str(path), {"pe": 0, "n": 2, "run": "r", "bases": [4096, 8192], "nbytes": 4096})
    head = RECORDS.pack(stream.text("a.py:1"), len(ops), stream.text("TEAM_WORLD"), 0)
    stream.frame(Frame.RECORDS, 5, head + np.array(times, np.uint64).tobytes() + ops.tobytes())
    stream.close(9)
    return list(Decoder(Reader(str(path)), words).events())


def test_puts_to_words_that_somebody_waits_for_keep_their_times(tmp_path: Path) -> None:
    ops = np.zeros(4, RECORD)
    ops["op"], ops["pe"], ops["n"], ops["src"] = Op.PUT, 1, 8, 100_000
    ops["dst"] = [0, 8, 16, 24]
    told = decoded(tmp_path, ops, [6, 7, 8, 9], {0: [], 1: [2]})
    made = [(time, event.at.lo, event.at.hi) for time, event in told if isinstance(event, Operation)]
    assert sorted(made) == [(6, 0, 16), (6, 24, 32), (8, 16, 24)]
    assert [(time, event.at.lo) for time, event in told if isinstance(event, Landed)] == [(8, 16)]


def test_a_record_without_a_time_is_the_last(tmp_path: Path) -> None:
    ops = np.zeros(3, RECORD)
    ops["op"], ops["pe"], ops["width"], ops["flags"] = Op.AMO, 1, 8, 2
    told = decoded(tmp_path, ops, [6, 0, 0], {0: [], 1: [0]})
    made = [(time, event.kind) for time, event in told if isinstance(event, Operation)]
    assert made == [(6, Kind.UPDATE), (6, Kind.UPDATE)]


def test_a_stream_that_is_not_closed_is_whole_so_far(tmp_path: Path) -> None:
    path = tmp_path / "pe-0.stream"
    stream = Stream(str(path), {"pe": 0, "n": 1, "run": "r", "bases": [4096], "nbytes": 4096})
    for i in range(50_000):  # more than it was first made for
        stream.frame(Frame.RELEASE, i, stream.text(f"t{i % 10}").to_bytes(4, "little"))
    reader = Reader(str(path))
    times = [frame.time for frame in reader.frames() if frame.kind is Frame.RELEASE]
    assert (times, reader.ended) == (list(range(50_000)), False)
    stream.close(7)
    stream.close(7)
    reader = Reader(str(path))
    assert len(list(reader.frames())) == 50_010
    assert reader.ended
    assert json.loads(path.read_bytes().split(b"\n", 1)[0])["schema"] == "shmemu-race/1"


def test_what_local_records_touch() -> None:
    rows, detail = np.array([2, 0], np.int64), np.zeros(1, ROWS)
    detail["source_rows"], detail["source_stride"] = rows.ctypes.data, 64
    detail["target_stride"], detail["width"] = 32, 16
    op = np.zeros(2, RECORD)
    op["op"], op["src"], op["dst"], op["n"] = (Op.COPY_ROWS, Op.CAST), 1000, 5000, (2, 3)
    op["aux"][0], op["flags"][1] = detail.ctypes.data, Cast.BF16_TO_F32
    reads, writes = touched(op[0], [])
    assert (list(reads), list(writes)) == ([(1128, 16), (1000, 16)], [(5000, 16), (5032, 16)])
    reads, writes = touched(op[1], [])
    assert (list(reads), list(writes)) == ([(1000, 6)], [(5000, 12)])
    assert ctypes.sizeof(ctypes.c_longdouble) == 16
