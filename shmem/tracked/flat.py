"""`x.flat` of a tracked array: every element it gives, takes or passes over is an access of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..views import Array
from .access import copied, read, scatter
from .functions import loaded


class Flat:
    """The elements of a tracked array in C order, as `ndarray.flat`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Any) -> None:
        self.base = base
        self.index = 0
        self._shape = base.shape

    @property
    def coords(self) -> tuple[Any, ...]:
        """The indices of the next element."""
        return tuple(int(at) for at in np.unravel_index(self.index, self._shape))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.index >= len(self):
            raise StopIteration
        value = self.base[self.coords]
        self.index += 1
        return value

    def __len__(self) -> int:
        return int(self.base.size)

    def __getitem__(self, index: Any) -> Any:
        numbers = np.arange(len(self)).reshape(self._shape).flat[loaded(index)]
        return self.base[np.unravel_index(numbers, self._shape)]

    def __setitem__(self, index: Any, value: Any) -> None:
        index, base = loaded(index), self.base
        values, touched = np.empty(self._shape, base.dtype), np.zeros(self._shape, bool)
        values.flat[index] = loaded(value)
        touched.flat[index] = True
        scatter(base, touched, values[touched])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy or (dtype is not None and dtype != self.base.dtype):
            return self.copy().astype(self.base.dtype if dtype is None else dtype, copy=False)
        values = read(self.base).reshape(-1)
        values.flags.writeable = False
        return values

    def copy(self) -> Array:
        """A 1-D copy of all elements."""
        return copied(self.base).reshape(-1)

    def __eq__(self, other: object) -> Any:
        return read(self.base).flat == other

    def __ne__(self, other: object) -> Any:
        return read(self.base).flat != other
