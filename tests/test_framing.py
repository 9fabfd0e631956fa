"""Layouts as data, and the plain Python statement of their stores and loads.

What a reader may accept is shown over all interleavings of the stores of a line with the loads of a reader; what is
torn and what is not is written down here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest

from shmem import ArgumentError, Layout, Reader
from shmem import layout as layouts
from shmem.framing import Store, pack_lines, read_lines, stores, unpack_lines
from shmem.records import LINES, RUNS_MAX

FOUR = Layout("four cells", 32, ((0, 24),), (24,), 8)
FRONT = Layout("flag in front", 32, ((8, 24),), (0,), 8)
OLD, NEW = np.full(24, 1, np.uint8), np.full(24, 2, np.uint8)


# -- layouts ---------------------------------------------------------------------------------------------

WRONG = {
    "a line of 12": {"line": 12},
    "a line of 0": {"line": 0},
    "a flag outside": {"flags": (32,)},
    "a flag across the end": {"flags": (28,), "flag_bytes": 8},
    "a flag on payload": {"flags": (20,)},
    "a flag not aligned": {"flags": (26,)},
    "a flag of 3 bytes": {"flag_bytes": 3},
    "no flag": {"flags": ()},
    "no payload": {"pieces": ()},
    "an empty piece": {"pieces": ((0, 0),)},
    "payload outside": {"pieces": ((16, 17),), "flags": (0,)},
    "pieces that overlap": {"pieces": ((0, 9), (8, 8))},
    "pieces in another order": {"pieces": ((8, 8), (0, 8))},
    "a cell of two pieces": {"pieces": ((0, 2), (4, 2))},
    "an alignment of 4": {"align": 4},
    "an alignment of 24": {"align": 24},
    "lines too near": {"pitch": 24},
    "lines not aligned": {"align": 32, "pitch": 40},
    "a negative group": {"group": -1},
    "one load, but no flag in each cell": {"reader": Reader.SAME_LOAD},
    "short by 4": {"short": 4},
    "short, payload behind the flag": {"pieces": ((8, 16),), "flags": (0,), "short": 8},
    "short and apart": {"short": 8, "pitch": 64},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_layout_is_checked(case: str) -> None:
    right: dict[str, object] = {"name": "x", "line": 32, "pieces": ((0, 24),), "flags": (24,)}
    Layout(**right)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no layout of lines"):
        Layout(**{**right, **WRONG[case]})  # type: ignore[arg-type]


def test_a_line_is_too_irregular_for_the_core() -> None:
    pieces = tuple((8 * i, 1 + i % 2) for i in range(2 * RUNS_MAX))
    with pytest.raises(ArgumentError, match="runs"):
        Layout("x", 16 * RUNS_MAX + 8, pieces, (16 * RUNS_MAX,))


WIRE = {  # of 0, 1, 8, 120, 121, 480, 4080, 4081, 4096 and 8160 bytes of payload, from the formula of each format
    "LL": [0, 8, 16, 240, 248, 960, 8160, 8168, 8192, 16320],
    "LL16": [0, 16, 16, 240, 256, 960, 8160, 8176, 8192, 16320],
    "LL128": [0, 128, 128, 128, 256, 512, 4352, 4480, 4480, 8704],
    "LL64": [0, 64, 64, 192, 192, 576, 4672, 4672, 4736, 9344],
    "BLOCK512": [0, 512, 512, 512, 512, 512, 4608, 4608, 4608, 8704],
    "EAGER_TILE": [0, 32, 32, 144, 144, 496, 4096, 4128, 4128, 8192],
    "EAGER_TILE_FIXED": [0, 4096, 4096, 4096, 4096, 4096, 4096, 8192, 8192, 8192],
}


@pytest.mark.parametrize("name", WIRE)
def test_bytes_on_the_wire(name: str) -> None:
    layout: Layout = getattr(layouts, name)
    sizes = (0, 1, 8, 120, 121, 480, 4080, 4081, 4096, 8160)
    assert [layout.wire_bytes(n) for n in sizes] == WIRE[name]


@pytest.mark.parametrize("layout", [*layouts.LAYOUTS, layouts.LLA2A.apart(64)], ids=lambda layout: layout.name)
def test_capacity_is_the_largest_payload_that_fits(layout: Layout) -> None:
    for nbytes in [*range(0, 600, 8), 4096, 4112, 4128, 8192, 9000]:
        assert layout.span(layout.capacity(nbytes)) <= nbytes
        assert layout.span(layout.capacity(nbytes) + 1) > nbytes


def test_the_core_has_the_same_struct() -> None:
    from shmem._native import _core

    assert _core.ffi.sizeof("sm_lines") == LINES.itemsize
    for name in ("line", "step", "data", "tail", "order", "reader", "group", "runs", "cells"):
        assert _core.ffi.offsetof("sm_lines", name) == LINES.fields[name][1]  # type: ignore[index]
    for name in ("unit", "mask", "at", "n", "start", "width", "shift"):
        assert _core.ffi.offsetof("sm_cells", name) == LINES["cells"].base.fields[name][1]  # type: ignore[index]


ALL = (1 << 64) - 1
FOR_THE_CORE = {  # line, step, data, tail, order, reader, group; runs of (unit, mask, at, n, start, width, shift)
    "LL": ((8, 8, 4, 0, 0, 0, 1), [(1 << 32, 0xFFFFFFFF << 32, 0, 1, 0, 4, 0)]),
    "LL16": ((16, 16, 8, 0, 0, 0, 1), [(1 << 32, 0xFFFFFFFF << 32, 0, 2, 0, 4, 0)]),
    "LL128": ((128, 128, 120, 0, 1, 2, 16), [(0, 0, 0, 15, 0, 8, 0), (1, ALL, 120, 1, 120, 0, 0)]),
    "BLOCK512": (
        (512, 512, 480, 0, 1, 1, 0),
        [(0, 0, 0, 60, 0, 8, 0), (1, 0xFFFFFFFF, 480, 1, 480, 0, 0), (0, 0, 488, 3, 480, 0, 0)],
    ),
    "EAGER_TILE": (
        (4096, 4096, 4080, 16, 1, 1, 1),
        [(0, 0, 0, 510, 0, 8, 0), (1, 0xFFFFFFFF, 4080, 1, 4080, 0, 0), (0, 0, 4088, 1, 4080, 0, 0)],
    ),
}


@pytest.mark.parametrize("name", FOR_THE_CORE)
def test_what_the_core_is_told(name: str) -> None:
    """Order, reader and group among it: whether the core obeys them shows only where PEs race."""
    one = getattr(layouts, name).descriptor[0]
    head, runs = FOR_THE_CORE[name]
    assert tuple(one[field] for field in ("line", "step", "data", "tail", "order", "reader", "group")) == head
    assert [tuple(run.tolist()) for run in one["cells"][: one["runs"]]] == runs


# -- order of the stores ---------------------------------------------------------------------------------


def test_the_flag_is_stored_last_with_release() -> None:
    for layout, flag_at in ((FOUR, 24), (FRONT, 0)):
        places = [(at, release) for at, _, release in stores(NEW, layout, 5)]
        assert sorted(at for at, _ in places) == [0, 8, 16, 24]
        assert places[-1] == (flag_at, True)
        assert [release for _, release in places[:-1]] == [False] * 3


def test_packets_are_stored_without_order() -> None:
    assert list(stores(np.array([7, 8], np.uint32), layouts.LL, 5)) == [
        (0, 5 << 32 | 7, False),
        (8, 5 << 32 | 8, False),
    ]


# -- what a reader accepts -------------------------------------------------------------------------------


def outcomes(layout: Layout, order: list[Store], loads_max: int = 7) -> Iterator[bytes]:
    """The payloads accepted, over all ways in which these stores of a new message fall between a reader's loads."""
    before = np.zeros(layout.span(24), np.uint8)
    pack_lines(before, OLD, layout, 1)
    for moments in combinations_with_replacement(range(len(order) + 1), loads_max):
        memory, turn, done = before.copy(), iter(moments), 0

        def load(at: int, acquire: bool) -> int:
            nonlocal done
            for to, bits, _ in order[done : (done := max(done, next(turn)))]:  # noqa: B023
                memory[to : to + 8] = np.frombuffer(bits.to_bytes(8, "little"), np.uint8)  # noqa: B023
            return int.from_bytes(memory[at : at + 8].tobytes(), "little")  # noqa: B023

        accepted = read_lines(load, layout, 2, 24, lambda: False)
        if accepted is not None:
            yield accepted


def torn(layout: Layout, order: list[Store]) -> bool:
    found = set(outcomes(layout, order))
    assert NEW.tobytes() in found, "nothing is ever accepted: this shows nothing"
    return found != {NEW.tobytes()}


@pytest.mark.parametrize("layout", [FOUR, FRONT], ids=lambda layout: layout.name)
@pytest.mark.parametrize(
    ("reader", "broken"), [(Reader.FLAG_FIRST, False), (Reader.RELOAD, False), (Reader.SINGLE_PASS, True)]
)
def test_a_line_stored_flag_last(layout: Layout, reader: Reader, broken: bool) -> None:
    """In order: two readers are right. A single pass is right only by the luck of loading the flag first."""
    chosen = Layout(layout.name, 32, layout.pieces, layout.flags, 8, reader=reader)
    assert torn(chosen, list(stores(NEW, chosen, 2))) is (broken and layout is FOUR)


@pytest.mark.parametrize("reader", [Reader.FLAG_FIRST, Reader.RELOAD, Reader.SINGLE_PASS])
def test_a_line_whose_cells_come_in_any_order_is_torn(reader: Reader) -> None:
    chosen = Layout("x", 32, FOUR.pieces, FOUR.flags, 8, reader=reader)
    assert any(torn(chosen, list(order)) for order in permutations(stores(NEW, chosen, 2)) if order[-1][0] != 24)


def test_packets_in_any_order_are_never_torn() -> None:
    """24 bytes are six packets; their stores fall anywhere between the loads, in a few orders."""
    rng = np.random.default_rng(0)
    for layout in (layouts.LL, layouts.LL16):
        order = list(stores(NEW, layout, 2))
        for _ in range(5):
            shuffled = [order[i] for i in rng.permutation(len(order))]
            assert not torn(layout, shuffled)


def test_of_a_group_all_flags_come_first() -> None:
    """FLAG_FIRST over a group: the flags of its lines, then their data; the next group only after that."""
    layout = Layout("x", 16, ((0, 8),), (8,), 8, group=2)
    memory = np.zeros(64, np.uint8)
    pack_lines(memory, np.arange(32, dtype=np.uint8), layout, 3)
    loads = []

    def load(at: int, acquire: bool) -> int:
        loads.append((at, acquire))
        return int.from_bytes(memory[at : at + 8].tobytes(), "little")

    assert read_lines(load, layout, 3, 32, lambda: False) == bytes(range(32))
    flags, data = [(8, True), (24, True), (40, True), (56, True)], [(0, False), (16, False), (32, False), (48, False)]
    assert loads == [*flags[:2], *data[:2], *flags[2:], *data[2:]]


def test_a_reader_asks_before_it_looks_again() -> None:
    memory, asked = np.zeros(32, np.uint8), []

    def load(at: int, acquire: bool) -> int:
        return int.from_bytes(memory[at : at + 8].tobytes(), "little")

    def again() -> bool:
        asked.append(1)
        if len(asked) == 3:
            pack_lines(memory, NEW, FOUR, 9)
        return True

    assert read_lines(load, FOUR, 9, 24, again) == NEW.tobytes()
    assert len(asked) == 3
    assert unpack_lines(memory, FOUR, 8, 24) is None


def test_layouts_start_no_mpi() -> None:
    code = "import sys, shmem.layout, shmem.framing; print('mpi4py.MPI' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
