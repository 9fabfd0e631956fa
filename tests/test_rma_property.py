"""put and get on random views, dtypes, sizes and PEs, against NumPy in this process.

hypothesis runs here and nowhere else; a job of three PEs carries out what it thinks of. What is promised (C-contiguous
views, 1-D views, row blocks of 2-D arrays) has to work; anything else works or raises, and moves no wrong byte.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmem import launch
from tests.launcher import cells
from tests.launcher.cells import FULL
from tests.launcher.job import REPOSITORY
from tests.launcher.wire import Message, Wire
from tests.mpi.data import DTYPES, Array, payload

N_PES = 3
HEAP_BYTES = 1 << 14


class Server:
    """The job that carries out cases."""

    def __init__(self, folder: Path) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "socket"))
        listener.listen(1)
        listener.settimeout(60)
        program = [sys.executable, str(REPOSITORY / "tests/programs/serve_rma.py"), str(folder / "socket")]
        env = {"PYTHONPATH": str(REPOSITORY), **cells.of_size(N_PES).environment()}
        self.process = subprocess.Popen(
            launch.command(N_PES, program), env=launch.environment(N_PES, env=env), stdin=subprocess.DEVNULL
        )
        self.sock = listener.accept()[0]
        listener.close()
        self.sock.settimeout(30)
        self.wire = Wire(self.sock)
        self.answers = iter(self.wire)

    def ask(self, case: Message) -> list[tuple[bytes, bytes, str]]:
        assert self.wire.send(**case)
        answer = next(self.answers)
        return [(bytes.fromhex(heap), bytes.fromhex(private), error) for heap, private, error in answer["pes"]]

    def close(self) -> int:
        self.sock.close()
        return self.process.wait(30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("rma"))
    try:
        yield running
        assert running.close() == 0
    finally:
        running.process.kill()
        running.process.wait()


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, int]) -> list[Any]:
    """An index of a 2-D array as JSON: each side a number or [start, stop, step]."""
    parts: list[Any] = []
    for side in shape:
        if draw(st.integers(0, 3)) == 0:
            parts.append(draw(st.integers(0, side - 1)))
        else:
            piece = draw(st.slices(side))
            parts.append([piece.start, piece.stop, piece.step])
    return parts if any(isinstance(part, list) for part in parts) else [parts[0], [None, None, None]]


@st.composite
def cases(draw: st.DrawFn) -> Message:
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    return {
        "call": draw(st.sampled_from(["put", "get", "put_nbi", "get_nbi"])),
        "dtype": draw(st.integers(0, len(DTYPES) - 1)),
        "shape": shape,
        "symmetric": draw(indices(shape)),
        "private": draw(indices(shape)),
        "symmetric_transposed": draw(st.integers(0, 5)) == 0,
        "private_transposed": draw(st.integers(0, 5)) == 0,
        "size": draw(st.none() | st.integers(0, 81)),
        "seed": draw(st.integers(0, 1000)),
        "origin": draw(st.integers(0, N_PES - 1)),
        "pe": draw(st.integers(0, N_PES - 1)),
    }


def places(case: Message, side: str) -> Array:
    """Which elements of the array a view shows, as numbers, in the view's shape."""
    rows, columns = case["shape"]
    numbers = np.arange(rows * columns).reshape(rows, columns)
    index = tuple(slice(*part) if isinstance(part, list) else part for part in case[side])
    return numbers[index].T if case[f"{side}_transposed"] else numbers[index]


def raw(array: Array) -> Array:
    """The bytes of each element, in place."""
    return array.view(np.uint8).reshape(array.size, array.itemsize)


def promised(view: Array, size: int) -> bool:
    """Whether the first `size` elements of such a view have to work."""
    if size == 0 or view.flags.c_contiguous or view.ndim == 1:
        return True
    return view.strides[1] == view.itemsize and size % view.shape[1] == 0


@settings(max_examples=400 if FULL else 150, deadline=None, derandomize=True, database=None)
@given(case=cases())
def test_views_of_both_sides(server: Server, case: Message) -> None:
    dtype, count = DTYPES[case["dtype"]], case["shape"][0] * case["shape"][1]
    far, near = places(case, "symmetric"), places(case, "private")
    puts = case["call"].startswith("put")
    source, target = (near, far) if puts else (far, near)
    size = source.size if case["size"] is None else case["size"]
    heaps = [payload(dtype, count, case["seed"], pe) for pe in range(N_PES)]
    privates = [payload(dtype, count, case["seed"], pe, 1) for pe in range(N_PES)]
    answers = server.ask(case)
    error = answers[case["origin"]][2]
    if size > min(source.size, target.size):
        assert error == "SizeMismatch"
    elif error:
        assert error == "LayoutError"
        assert not (promised(source, size) and promised(target, size))
    else:
        there, here = heaps[case["pe"]], privates[case["origin"]]
        from_, to = (raw(here), raw(there)) if puts else (raw(there), raw(here))
        for i in range(size):
            to[target.reshape(-1)[i]] = from_[source.reshape(-1)[i]]
    for pe, (heap, private, said) in enumerate(answers):
        assert heap == heaps[pe].tobytes().ljust(HEAP_BYTES, b"\0")
        assert private == privates[pe].tobytes()
        assert pe == case["origin"] or not said


def test_the_oracle_notices_one_bit(server: Server) -> None:
    """The comparison above is of bytes: a put of a value that differs in one bit is not the same memory."""
    case = {
        "call": "put", "dtype": 2, "shape": (1, 1), "symmetric": [0, [None, None, None]],
        "private": [0, [None, None, None]], "symmetric_transposed": False, "private_transposed": False,
        "size": None, "seed": 1, "origin": 0, "pe": 1,
    }  # fmt: skip
    came = bytearray(server.ask(case)[1][0])
    wanted = payload(DTYPES[2], 1, 1, 0, 1).tobytes().ljust(HEAP_BYTES, b"\0")
    assert came == wanted
    came[0] ^= 1
    assert came != wanted


def test_only_the_parent_knows_hypothesis() -> None:
    """Ranks import what they need and no more: hypothesis takes as long to import as all the rest."""
    for path in [*(REPOSITORY / "tests/mpi").glob("*.py"), *(REPOSITORY / "tests/programs").glob("*.py")]:
        assert "import hypothesis" not in path.read_text()
        assert "from hypothesis" not in path.read_text()
    assert "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in os.environ
