"""The native copies move exactly the bytes asked for, at every alignment and size, with every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from shmem._native import _core

LIB, FFI = _core.lib, _core.ffi
ISAS = {"auto": 0, "portable": 1, "avx2": 2}
SIZES = (*range(140), 255, 256, 257, 511, 4095, 4096, 14336, (1 << 20) - 1, (1 << 20) + 130)


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    LIB.sm_select_isa(ISAS[request.param])
    yield request.param
    LIB.sm_select_isa(0)


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize(("to", "source"), [(0, 0), (1, 0), (0, 1), (8, 3), (63, 64), (33, 31)])
def test_a_copy_writes_its_bytes_and_no_other(isa: str, streaming: int, to: int, source: int) -> None:
    rng = np.random.default_rng(0)
    bytes_ = rng.integers(1, 256, max(SIZES) + source, np.uint8)  # no zero: what is left zero was not written
    for size in SIZES:
        target = np.zeros(to + size + 64, np.uint8)
        there, here = FFI.from_buffer(target), FFI.from_buffer(bytes_)
        LIB.sm_copy(there + to, here + source, size, streaming)
        assert (target[to : to + size] == bytes_[source : source + size]).all(), size
        assert not target[:to].any(), size
        assert not target[to + size :].any(), size


@pytest.mark.parametrize("shift", [-70, -8, -1, 1, 8, 70])
@pytest.mark.parametrize("streaming", [0, 1])
def test_an_overlapping_copy_is_a_move(isa: str, streaming: int, shift: int) -> None:
    size = 1000
    memory = (np.arange(size + 200) % 251).astype(np.uint8)
    wanted = memory.copy()
    wanted[100 + shift : 100 + shift + size] = memory[100 : 100 + size].copy()
    start = FFI.from_buffer(memory)
    LIB.sm_copy(start + 100 + shift, start + 100, size, streaming)
    assert (memory == wanted).all()
