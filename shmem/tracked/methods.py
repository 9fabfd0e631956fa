"""The rest of the interface of an ndarray, name by name: which kind of access each of its attributes is."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from .access import Watched, check_writeable, copied, read, write
from .array import Tracked
from .functions import called, loaded

# They look at the view, and load nothing.
LOOKS = "__array_namespace__ __array_priority__ __dlpack_device__ device flags itemsize nbytes ndim setflags size"
SETTABLE = "dtype shape strides"
# They return views, or copies where NumPy can't.
VIEWS = "diagonal getfield ravel reshape squeeze swapaxes transpose"
VIEW_ATTRIBUTES = "T mT"
VIEWS_TO_ASSIGN_TO = "imag real"
# They load everything.
READS = (
    "all any argmax argmin argpartition argsort choose clip compress conj conjugate copy cumprod cumsum dot dump dumps "
    "flatten max mean min nonzero prod repeat round searchsorted std sum take tobytes tofile tolist tostring trace var"
)
OPERATORS = (
    "__abs__ __add__ __and__ __contains__ __divmod__ __eq__ __floordiv__ __format__ __ge__ __gt__ __invert__ __le__ "
    "__lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rdivmod__ "
    "__repr__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ "
    "__rtruediv__ __rxor__ __str__ __sub__ __truediv__ __xor__"
)
# They load one element, and of other arrays nothing, only to fail.
CONVERSIONS = "__bool__ __complex__ __float__ __index__ __int__"
# They load everything and store everything.
UPDATES = "partition sort"
IN_PLACE = (
    "__iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __ior__ __ipow__ __irshift__ __isub__ "
    "__itruediv__ __ixor__"
)


def _looks(name: str) -> property:
    return property(attrgetter(f"_plain.{name}"))


def _settable(name: str) -> property:
    return property(attrgetter(f"_plain.{name}"), lambda self, value: setattr(self._plain, name, value))


def _same_memory(made: Any, plain: Any) -> bool:
    return made is plain or (made.base is not None and made.base is plain.base)


def _views(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def view(self: Tracked, *args: Any, **kwargs: Any) -> Any:
        made = method(self._plain, *args, **kwargs)
        return self._like(made) if _same_memory(made, self._plain) else method(copied(self), *args, **kwargs)

    return view


def _view_attribute(name: str) -> property:
    def view(self: Tracked) -> Any:
        made = getattr(self._plain, name)
        return self._like(made) if _same_memory(made, self._plain) else getattr(copied(self), name)

    def assign(self: Tracked, value: Any) -> None:
        target = view(self)
        if not isinstance(target, Watched):
            setattr(np.empty(self._plain.shape, self._plain.dtype), name, loaded(value))  # raises
        target[...] = value

    return property(view, assign if name in VIEWS_TO_ASSIGN_TO.split() else None)


def _reads(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def read_all(self: Tracked, *args: Any, **kwargs: Any) -> Any:
        return called(method, (self, *args), kwargs) if args or kwargs else method(read(self))

    return read_all


def _operator(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def operate(self: Tracked, *others: Any) -> Any:
        return method(read(self), *loaded(others))

    return operate


def _conversion(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def convert(self: Tracked) -> Any:
        plain = self._plain
        single = plain.size == 1 and (name != "__index__" or not plain.ndim)
        return method(read(self) if single else plain)

    return convert


def _updates(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def update(self: Tracked, *args: Any, **kwargs: Any) -> None:
        check_writeable(self, f"{name} array")
        values = copied(self)
        method(values, *loaded(args), **loaded(kwargs))
        write(self, values)

    return update


def _in_place(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def operate(self: Tracked, other: Any) -> Any:
        check_writeable(self, "output array")
        values = copied(self)
        result = method(values, loaded(other))
        if result is NotImplemented:
            return result
        write(self, values)
        self._settled = True
        return self

    return operate


MAKERS: dict[str, Callable[[str], Any]] = {
    LOOKS: _looks,
    SETTABLE: _settable,
    VIEWS: _views,
    VIEW_ATTRIBUTES: _view_attribute,
    VIEWS_TO_ASSIGN_TO: _view_attribute,
    READS: _reads,
    OPERATORS: _operator,
    CONVERSIONS: _conversion,
    UPDATES: _updates,
    IN_PLACE: _in_place,
}


def install() -> None:
    """Gives `Tracked` all of them that this NumPy has."""
    for names, make in MAKERS.items():
        for name in names.split():
            if hasattr(np.ndarray, name):
                made = make(name)
                if not isinstance(made, property):
                    made.__name__, made.__doc__ = name, getattr(np.ndarray, name).__doc__
                setattr(Tracked, name, made)


install()
