"""A watch for tests: the true bytes of one array in a bytearray, and what was asked of it, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from shmem.heap import POISON
from shmem.tracked import track
from shmem.views import address_of

Array = npt.NDArray[Any]
Range = tuple[int, int]
# bytes 4 to 8 and 22 to 24 belong to no field
RECORD: np.dtype[Any] = np.dtype(
    {"names": ["a", "b", "c"], "formats": ["i4", "f8", ("u2", (3,))], "offsets": [0, 8, 16], "itemsize": 24}
)


class Model:
    """`steps` lists (load or store, ranges), with addresses counted from the first byte of the array."""

    def __init__(self, values: Array) -> None:
        self.buffer = np.full(values.nbytes, POISON, np.uint8)
        self.bytes = bytearray(values.tobytes())
        self.steps: list[tuple[str, list[Range]]] = []

    def load(self, ranges: Sequence[Range]) -> bytes:
        return b"".join(bytes(self.bytes[at : at + n]) for at, n in self._note("load", ranges))

    def store(self, ranges: Sequence[Range], data: bytes) -> None:
        ranges = self._note("store", ranges)
        assert len(data) == sum(n for _, n in ranges)
        for at, n in ranges:
            self.bytes[at : at + n], data = data[:n], data[n:]

    def equals(self, twin: Array) -> bool:
        """Whether the true bytes are those of a plain array, apart from padding."""
        return of_fields(np.frombuffer(bytes(self.bytes), twin.dtype)) == of_fields(twin)

    def _note(self, what: str, ranges: Sequence[Range]) -> list[Range]:
        at = [(address - address_of(self.buffer), n) for address, n in ranges]
        assert at, "a step with nothing in it"
        assert all(n > 0 and first >= 0 and first + n <= len(self.bytes) for first, n in at)
        ends = [first + n for first, n in at]
        assert all(end != first for end, (first, _) in zip(ends, at[1:], strict=False)), "neighbours not merged"
        self.steps.append((what, at))
        return at


def of_fields(array: Array) -> bytes:
    """The bytes of a contiguous array, those of no field zero."""
    if not array.dtype.names:
        return array.tobytes()
    made = np.zeros(array.size, array.dtype)
    for name in array.dtype.names:
        made[name] = array.reshape(-1)[name]
    return made.tobytes()


def pair(values: Array) -> tuple[Array, Model, Array]:
    """A tracked array with these values, its model, and its plain twin."""
    model = Model(values)
    return track(model.buffer.view(values.dtype).reshape(values.shape), model), model, values.copy()


def records() -> Array:
    made = np.zeros(4, RECORD)
    made["a"], made["b"], made["c"] = [4, 1, 3, 2], [0.5, 1.5, 2.5, 3.5], np.arange(12).reshape(4, 3)
    return made


VALUES: dict[str, Array] = {
    "ints": np.array([5, 3, 4, 1, 0, 2, 7, 6]),
    "bytes": np.array([5, 3, 4, 1, 0, 2, 7, 6], np.uint8),
    "floats": np.array([[1.5, -2.0, 0.25], [4.0, 8.5, -0.5]]),
    "square": np.arange(9.0).reshape(3, 3) - 4,
    "complexes": np.array([1 + 2j, 3 - 4j, -0.5j]),
    "bools": np.array([True, False, True, True]),
    "one": np.array([7]),
    "scalar": np.array(7),
    "real": np.array(2.5),
    "empty": np.zeros((0, 3)),
    "names": np.array(["ab", "c", "def"]),
    "records": records(),
    "record": records()[1, ...].copy(),
    "bfloat16": np.array([1.5, 2.25, -3.0, 0.0], ml_dtypes.bfloat16),
    "float8": np.array([1.5, 2.25, -3.0, 0.0], ml_dtypes.float8_e4m3fn),
}
