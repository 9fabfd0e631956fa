"""The smallest programs that rely on what tests of tests/mpi rely on beyond OpenSHMEM: see test_needs.py.

Two PEs each; a failed assertion, or a message that is torn, is what OpenSHMEM does not exclude.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import shmem


def memory(nbytes: int) -> Any:
    """Symmetric bytes, aligned to a page."""
    return np.frombuffer(shmem.align(4096, nbytes), np.uint8)


def message(name: str, nbytes: int) -> None:
    """A message in lines of a layout, which PE 1 takes as soon as its flags are there."""
    layout, x = getattr(shmem, name), memory(4096)
    if shmem.my_pe() == 0:
        shmem.put_lines(x, np.full(nbytes, 7, np.uint8), 1, layout, 1)
    else:
        assert (shmem.poll_lines(x, layout, 1, nbytes) == 7).all()


def message_to_a_stream(name: str, nbytes: int) -> None:
    """The same, taken by a batch on a stream."""
    layout, x = getattr(shmem, name), memory(4096)
    if shmem.my_pe() == 0:
        shmem.put_lines(x, np.full(nbytes, 7, np.uint8), 1, layout, 1)
        return
    got = np.zeros(nbytes, np.uint8)
    with shmem.Stream() as stream:
        batch = shmem.Batch()
        batch.poll_lines(x, layout, 1, got)
        batch.launch(stream).wait()
    assert (got == 7).all()


def put_and_atomic_fetch() -> None:
    """Two words go from 255 to 256 by puts with a fence between: one byte of the second may come before the other."""
    x = shmem.full(2, 255, np.int32)
    if shmem.my_pe() == 0:
        shmem.p(x[:1], 256, 1)
        shmem.fence()
        shmem.p(x[1:], 256, 1)
    else:
        later = shmem.atomic_fetch(x[1:], 1)
        assert shmem.atomic_fetch(x[:1], 1) >= later


@dataclass(frozen=True)
class Witness:
    """A program that fails under `openshmem`, as `kind`; with what the test needs it does not."""

    program: Callable[..., None]
    args: tuple[Any, ...]
    kind: str
    unit: int = 0  # with units of so many bytes instead: the same executions are among those with units of one byte


STREAM = "test_lines.py::test_no_message_of_a_stream_is_torn"
WITNESSES: dict[tuple[str, str, str], Witness] = {  # by test, parameter ("" for all), and what it needs
    **{(STREAM, name, "words"): Witness(message, (name, 4), "torn") for name in ("LL", "LL16", "LLA2A")},
    **{(STREAM, name, "tso"): Witness(message, (name, 8), "torn") for name in ("LL128", "LL64")},
    (STREAM, "EAGER_TILE", "tso"): Witness(message, ("EAGER_TILE", 16), "torn"),
    **{
        (STREAM, name, "tso"): Witness(message, (name, 16), "torn", unit=128)
        for name in ("BLOCK512", "EAGER_TILE_FIXED")
    },
    ("test_lines.py::test_a_stream_waits_for_lines_while_the_program_goes_on", "", "words"): Witness(
        message_to_a_stream, ("LL", 4), "torn"
    ),
    ("test_ordering.py::test_fence_orders_stores_to_one_pe", "p", "words"): Witness(
        put_and_atomic_fetch, (), "assertion"
    ),
}  # fmt: skip
