"""The pool of output memory: a block is given out again only when no array shows any part of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from moe_ep.outputs import MAX_BLOCKS, SMALLEST, OutputPool

LARGE = (SMALLEST, 2)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


KEEPERS = {
    "the array": lambda array: array,
    "a slice": lambda array: array[5:],
    "a strided view of a view": lambda array: array[1:].view(np.uint8)[::3],
    "a transposed view": lambda array: array.T,
    "a memoryview": memoryview,
    "an array made of its buffer": lambda array: np.frombuffer(array, np.uint8),
    "one element's view": lambda array: array[3:4, 1:2],
    "an attribute of an object": lambda array: SimpleNamespace(kept=array.reshape(-1)),
}


@pytest.mark.parametrize("what", KEEPERS)
def test_memory_in_use_in_any_way_is_not_given_out(what):
    pool = OutputPool()
    first = pool.empty(LARGE, np.uint16)
    first[:] = 7
    where, kept = address(first), KEEPERS[what](first)
    del first
    second = pool.empty(LARGE, np.uint16)
    assert address(second) != where
    del kept, second
    pair = [pool.empty(LARGE, np.uint16) for _ in range(2)]
    assert where in map(address, pair)  # once the keeper is gone


def test_memory_that_nobody_holds_is_used_again():
    pool = OutputPool()
    where = address(pool.empty(LARGE, np.uint16))
    assert address(pool.empty(LARGE, np.uint16)) == where
    assert address(pool.empty((LARGE[0], 8), np.float32)) != where  # larger than the block
    assert address(pool.empty((LARGE[0] // 2, 2), np.float16)) == where


def test_arrays_are_aligned_contiguous_and_of_the_asked_kind():
    pool = OutputPool()
    for shape, dtype in ((LARGE, np.uint16), ((0, 16), np.uint16), ((3,), np.float32)):
        array = pool.empty(shape, dtype)
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.flags.c_contiguous
        assert array.flags.writeable
    assert address(pool.empty(LARGE, np.uint16)) % 64 == 0


def test_the_pool_remembers_few_blocks():
    pool = OutputPool()
    held = [pool.empty(LARGE, np.uint16) for _ in range(MAX_BLOCKS + 3)]
    assert len({address(array) for array in held}) == len(held)
    assert len(pool._blocks) == MAX_BLOCKS
    pool.clear()
    assert all(array.sum() >= 0 for array in held)  # the blocks live on with their users
