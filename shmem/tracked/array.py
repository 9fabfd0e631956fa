"""The tracked array: what a program holds in place of an ndarray. Indexing, views and conversions are here."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import CheckError, DtypeError
from ..views import Array
from . import functions
from .access import Watch, Watched, copied, gather, is_settled, read, read_element, scatter, write, write_element
from .flat import Flat

WAY_ROUND = "its memory can't be shown, since no access to it would be seen: take a copy (x.copy(), x[...].copy())"
_NUMBERS = (int, np.int64)  # the most frequent ones


class Tracked(Watched):
    """An array whose every access goes through a watch. See `shmem.tracked`; made by `track`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray  # so that isinstance(x, np.ndarray) holds

    def _like(self, plain: Array) -> Tracked:
        return self if plain is self._plain else Tracked(plain, self._watch)

    # -- indexing ----------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        kind = type(index)
        if kind is slice or (kind is int and self._plain.ndim > 1):
            return Tracked(self._plain[index], self._watch)
        if (offset := _offset(self._plain, index)) is not None:
            return read_element(self, offset)
        if (view := self._view(index)) is None:
            return gather(self, functions.loaded(index))
        return read(view)[()] if _selects_element(view, index) else view

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, Watched) and (offset := _offset(self._plain, index)) is not None:
            return write_element(self, offset, functions.loaded(value))
        view = self._view(index)
        if isinstance(value, Watched) and view is not None and is_settled(value, view._plain):
            return None
        if view is None:
            return scatter(self, functions.loaded(index), functions.loaded(value))
        values: Array = np.empty(view._plain.shape, view._plain.dtype)
        values[() if _selects_element(view, index) else ...] = functions.loaded(value)
        return write(view, values)

    def _view(self, index: Any) -> Tracked | None:
        """What the index selects, if NumPy gives a view or an element for it; None for an advanced index."""
        if not _is_advanced(index):
            parts = index if isinstance(index, tuple) else (index,)
            return self._like(self._plain[parts if _has_ellipsis(parts) else (*parts, ...)])
        names = index if isinstance(index, list) and index else [index]
        if all(isinstance(name, str) for name in names):
            return self._like(self._plain[index])
        return None

    def __delitem__(self, index: Any) -> NoReturn:
        raise ValueError("cannot delete array elements")

    def __iter__(self) -> Iterator[Any]:
        if not self._plain.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self._plain)))

    def __len__(self) -> int:
        return len(self._plain)

    @property
    def flat(self) -> Flat:
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        values: Array = np.empty(self._plain.shape, self._plain.dtype)
        values.flat[:] = functions.loaded(value)
        write(self, values)

    def item(self, *args: Any) -> Any:
        """`ndarray.item`: only that element is loaded."""
        if not args and self._plain.size == 1:
            return read(self).item()
        at = args[0] if len(args) == 1 else args
        if isinstance(at, (int, np.integer)) and -self._plain.size <= at < self._plain.size:
            return self.flat[at].item()
        if isinstance(at, tuple) and len(at) == self._plain.ndim and not _is_advanced(at):
            return self[at].item()
        return np.empty(self._plain.shape, self._plain.dtype).item(*args)  # raises

    # -- what NumPy asks ---------------------------------------------------------------------------------

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"a tracked array can't be converted without a copy: {WAY_ROUND}")
        values = read(self)
        if dtype is not None and values.dtype != dtype:
            return values.astype(dtype)
        return values.copy(order="K") if copy else _spaced_as(self._plain, values)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return functions.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return functions.function(func, args, kwargs)

    # -- views -------------------------------------------------------------------------------------------

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """`ndarray.view`: tracked, also as np.ndarray; as any other class, a read-only copy of that class."""
        kinds = [one for one in (*args, *kwargs.values()) if isinstance(one, type) and issubclass(one, np.ndarray)]
        if any(kind is not np.ndarray for kind in kinds):
            return read(self).view(*args, **kwargs)
        return self._like(self._plain.view(*args, **kwargs))

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """`ndarray.astype`: the array itself where NumPy gives that."""
        if self._plain.dtype == np.dtype(dtype) and self._plain.astype(dtype, *args, **kwargs) is self._plain:
            return self
        return read(self).astype(dtype, *args, **kwargs)

    def to_device(self, *args: Any, **kwargs: Any) -> Tracked:
        return self._like(self._plain.to_device(*args, **kwargs))

    # -- what stores -------------------------------------------------------------------------------------

    def fill(self, value: Any) -> None:
        values: Array = np.empty(self._plain.shape, self._plain.dtype)
        values.fill(functions.loaded(value))
        write(self, values)

    def setfield(self, val: Any, *args: Any, **kwargs: Any) -> None:
        self._like(self._plain.getfield(*args, **kwargs))[...] = val

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        functions.put(self, indices, values, mode)

    def byteswap(self, inplace: bool = False) -> Any:
        """`ndarray.byteswap`."""
        values = copied(self).byteswap(inplace)
        if not inplace:
            return values
        write(self, values)
        return self

    def resize(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise CheckError("a tracked array can't be resized: it doesn't own its memory")

    # -- what shows memory -------------------------------------------------------------------------------

    @property
    def base(self) -> None:
        """The owner of the memory is not shown."""

    @property
    def data(self) -> NoReturn:
        raise CheckError(f"x.data of a tracked array: {WAY_ROUND}")

    @property
    def ctypes(self) -> NoReturn:
        raise CheckError(f"x.ctypes of a tracked array: {WAY_ROUND}")

    def __buffer__(self, flags: int) -> NoReturn:  # asked for from Python 3.12 on; before, TypeError
        raise CheckError(f"the buffer of a tracked array: {WAY_ROUND}")

    def __dlpack__(self, *, copy: bool | None = None, **kwargs: Any) -> Any:
        if not copy:
            raise CheckError(f"DLPack of a tracked array: {WAY_ROUND}, or ask with copy=True")
        return copied(self).__dlpack__(**kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("__array_interface__", "__array_struct__"):  # NumPy looks for them, and goes on without
            raise AttributeError(f"{name} of a tracked array: {WAY_ROUND}")
        raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")

    # -- copies ------------------------------------------------------------------------------------------

    def __bytes__(self) -> bytes:
        return read(self).tobytes()

    def __reduce__(self) -> Any:
        return copied(self).__reduce__()

    def __copy__(self) -> Array:
        return copied(self)

    def __deepcopy__(self, memo: Any) -> Array:
        return copied(self)

    def __setstate__(self, state: Any) -> NoReturn:
        raise CheckError("a tracked array takes no state: assign to x[...]")


def _offset(plain: Array, index: Any) -> int | None:
    """Where in memory the element is that the index selects, in bytes; None if it selects none so simply."""
    parts = index if type(index) is tuple else (index,)
    if len(parts) != plain.ndim or plain.dtype.names is not None:
        return None
    offset = 0
    for i, n, step in zip(parts, plain.shape, plain.strides, strict=True):
        if type(i) not in _NUMBERS or not -n <= i < n:
            return None
        offset += int(i) % n * step
    return offset


def _is_advanced(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return not all(one is None or one is Ellipsis or isinstance(one, slice) or _is_number(one) for one in parts)


def _is_number(one: Any) -> bool:
    if isinstance(one, (bool, np.bool, np.ndarray, list, tuple, str)):
        return False
    try:
        operator.index(one)
    except TypeError:
        return False
    return True


def _has_ellipsis(parts: tuple[Any, ...]) -> bool:
    return any(one is Ellipsis for one in parts)


def _selects_element(view: Watched, index: Any) -> bool:
    """Whether NumPy gives a scalar for an index of this view: one of numbers only, as many as there are axes."""
    return not view._plain.ndim and not isinstance(index, (str, list)) and not _has_ellipsis(
        index if isinstance(index, tuple) else (index,)
    )  # fmt: skip


def _spaced_as(plain: Array, values: Array) -> Array:
    """The values in an array that is contiguous only if `plain` is, so that NumPy copies where it would have copied."""
    if plain.flags.forc or not plain.size:
        return values
    spaced: Array = np.empty((*values.shape, 2), values.dtype)[..., 0]
    spaced[...] = values
    spaced.flags.writeable = False
    return spaced


def track(array: Array, watch: Watch) -> Array:
    """A tracked view of an array: its shape, dtype and addresses, and the bytes that `watch` gives and takes for them.

    The array's own bytes are neither read nor written. Raises TypeError for what is no plain array, DtypeError for
    Python objects.
    """
    if isinstance(array, Watched) or not isinstance(array, np.ndarray):
        raise TypeError(f"a plain array can be tracked, not {type(array).__name__}")
    if array.dtype.hasobject:
        raise DtypeError(f"dtype {array.dtype}: Python objects can't be tracked")
    made: Any = Tracked(array.view(np.ndarray), watch)
    return made  # type: ignore[no-any-return]
