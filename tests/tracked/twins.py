"""A program on a tracked array, the same on its plain twin, and that both gave the same."""

from __future__ import annotations

import collections
import copy
import ctypes
import hashlib
import io
import math
import operator
import pickle
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from shmem.tracked import Tracked

from .model import Array

MODULES = (collections, copy, ctypes, hashlib, io, math, ml_dtypes, np, operator, pickle, struct)
Rows = collections.namedtuple("Rows", "upper lower")


class Index:
    """A number, but no int."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Other:
    """Something that an array leaves the operator to."""

    __array_ufunc__ = None

    def __radd__(self, other: Array) -> list[Any]:
        return [*other]

    __add__ = __radd__


class Senior:
    """Something that an array leaves even an operation in place to."""

    __array_priority__ = 1000

    def __radd__(self, other: Array) -> list[Any]:
        return [*other]


class Exporter:
    """DLPack as a consumer asks for it that takes a copy."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **asked: Any) -> Any:
        if type(self.array) is Tracked:
            asked["copy"] = True  # before NumPy 2.1 arrays don't know the word
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def run(program: str, x: Array, folder: Path) -> Any:
    """The value of an expression, or `r` after statements, in which `x` is the array."""
    names = {"np" if module is np else module.__name__: module for module in MODULES}
    names |= {"x": x, "p": np.arange(100, 108), "z": np.zeros(8, np.int64), "m": np.arange(8) % 3 == 0}
    names |= {cls.__name__: cls for cls in (Exporter, Index, Other, Rows, Senior)} | {"path": str(folder / "file")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(compile(program, program, "eval"), names)
        except SyntaxError:
            exec(compile(program, program, "exec"), names)
    return names.get("r")


def run_raising(program: str, x: Array, folder: Path) -> Exception:
    """The error of a program that has one."""
    try:
        result = run(program, x, folder)
    except Exception as error:
        return error
    pytest.fail(f"no error, but {result!r}")


def leaves(value: Any) -> Iterator[Any]:
    """What is in a result, however deep in tuples and lists."""
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def assert_same(got: Any, expected: Any) -> None:
    """The same types, dtypes, shapes and values; NaN is NaN."""
    assert isinstance(got, tuple) == isinstance(expected, tuple)
    ours, theirs = list(leaves(got)), list(leaves(expected))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, (np.ndarray, np.generic)):
            assert isinstance(one, np.ndarray) == isinstance(other, np.ndarray)
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert repr(one.tolist()) == repr(other.tolist())
        else:
            assert type(one) is type(other)
            assert one == other or other != other


def assert_no_lost_write(got: Any, expected: Any, twin: Array) -> None:
    """What shares the memory in NumPy is tracked or read-only; what does not is neither."""
    for one, other in zip(leaves(got), leaves(expected), strict=True):
        if isinstance(one, np.ndarray):
            shared = isinstance(other, np.ndarray) and (other.size == 0 or np.may_share_memory(other, twin))
            assert type(one) is not Tracked or shared
            if type(one) is not Tracked and other.size:
                assert one.flags.writeable == (not shared and other.flags.writeable)
