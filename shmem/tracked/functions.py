"""NumPy's functions and ufuncs on tracked arrays.

There are four kinds. Those that only look at shape, dtype or memory get the poisoned views. Those that return views get
them too, and what lies in the same memory comes back tracked; where NumPy had to copy they are called again with
values. Those that write get a private array, of which exactly the written elements are stored. All others, also those
that nobody knew of here, get read-only copies: one that writes fails, and no write is lost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..views import Array
from .access import Watched, check_writeable, copied, gather, read, scatter, write

Function = Callable[..., Any]
LOOKING = (
    "can_cast common_type empty_like iscomplexobj isrealobj may_share_memory ndim ones_like result_type shape "
    "shares_memory size zeros_like"
)
VIEWING = (
    "array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag diagonal dsplit expand_dims flip "
    "fliplr flipud hsplit imag matrix_transpose meshgrid moveaxis permute_dims ravel real reshape rollaxis rot90 split "
    "squeeze swapaxes transpose unstack vsplit lib.stride_tricks.sliding_window_view linalg.diagonal "
    "linalg.matrix_transpose"
)


def _functions(names: str) -> frozenset[Function]:
    """Those of the functions that this NumPy has."""
    found = set()
    for name in names.split():
        function: Any = np
        for part in name.split("."):
            function = getattr(function, part, None)
        found.add(function)
    return frozenset(found - {None})


_LOOKING, _VIEWING = _functions(LOOKING), _functions(VIEWING)


def function(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`func(*args, **kwargs)` for a function of NumPy and arguments with tracked arrays among or in them."""
    if func in _LOOKING:
        return func(*deep(plain_view, args), **deep(plain_view, kwargs))
    if func is np.full_like and args:
        return func(deep(plain_view, args[0]), *loaded(args[1:]), **loaded(kwargs))
    if func in _VIEWING:
        return _views(func, args, kwargs)
    if (write_to := _WRITING.get(func)) and isinstance(_first(write_to, args, kwargs), Watched):
        return write_to(*args, **kwargs)
    return called(func, args, kwargs)


def ufunc(func: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc or a method of it: what `__array_ufunc__` has to do."""
    if method == "at" and isinstance(inputs[0], Watched):
        return _at(func, inputs[0], *loaded(inputs[1:]))
    if not kwargs:
        return getattr(func, method)(*(read(one) if isinstance(one, Watched) else one for one in inputs))
    if "where" not in kwargs or method != "__call__":  # that of a reduction selects what is read
        return called(getattr(func, method), inputs, kwargs)
    where = loaded(kwargs["where"])
    return called(func, inputs, {**kwargs, "where": where}, where)


def called(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], where: Any = True) -> Any:
    """Calls with read-only copies; what `out` holds is stored afterwards, of it the elements that `where` selects."""
    args, kwargs = _out_by_name(func, args, kwargs)
    out = kwargs.get("out")
    targets = out if isinstance(out, tuple) else (out,)
    if not any(isinstance(target, Watched) for target in targets):
        values, named = loaded(args), loaded(kwargs)
        if values is args and named is kwargs:  # they are in an object that NumPy looks into and this doesn't
            func = getattr(func, "_implementation", func)
        return func(*values, **named)
    private = tuple(_private(target) if isinstance(target, Watched) else target for target in targets)
    named = {**kwargs, "out": private if isinstance(out, tuple) else private[0]}
    result = func(*loaded(args), **loaded(named))
    for target, values in zip(targets, private, strict=True):
        if isinstance(target, Watched):
            _store(target, values, where)
    back = {id(values): target for target, values in zip(targets, private, strict=True)}
    return deep_any(lambda one: back.get(id(one), one), result)


def loaded(value: Any) -> Any:
    """The same with read-only copies for the tracked arrays in it; itself if there are none."""
    return deep(read, value)


def plain_view(view: Watched) -> Array:
    """The poisoned buffer, for those who look at shape and place only."""
    return view._plain


def deep(change: Callable[[Watched], Any], value: Any) -> Any:
    """`value` with the tracked arrays changed that it is or that are in its tuples, lists and dictionaries."""
    return deep_any(lambda one: change(one) if isinstance(one, Watched) else one, value)


def deep_any(change: Callable[[Any], Any], value: Any) -> Any:
    """As `deep`, of every object that is no tuple, list or dictionary."""
    if isinstance(value, (tuple, list)):
        items = [deep_any(change, one) for one in value]
        same = all(one is other for one, other in zip(items, value, strict=True))
        return value if same else tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        named = {name: deep_any(change, one) for name, one in value.items()}
        return value if all(named[name] is value[name] for name in value) else named
    return change(value)


def _first(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else kwargs.get(_parameters(func)[0])


# Before NumPy 2.4 functions written in C didn't tell their parameters: up to `out` and after.
_UNTOLD = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "max", "min"), "a axis out"),
    **dict.fromkeys(("cumprod", "cumsum", "mean", "prod", "std", "sum", "var"), "a axis dtype out"),
    "choose": "a choices out mode",
    "clip": "a min max out",
    "compress": "condition a axis out",  # of the method: a condition axis out
    "concatenate": "arrays axis out",
    "dot": "a b out",
    "round": "a decimals out",
    "take": "a indices axis out mode",
    "trace": "a offset axis1 axis2 dtype out",
}


@lru_cache(maxsize=512)
def _parameters(func: Function) -> tuple[str, ...]:
    """The parameters that can be given by position."""
    try:
        found = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):
        return tuple(_UNTOLD.get(getattr(func, "__name__", ""), "").split())
    return tuple(one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))


def _out_by_name(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tracked `out` that was given by position moves to `kwargs`, with what follows it."""
    if "out" in kwargs or not any(isinstance(one, Watched) for one in args[1:]):
        return args, kwargs
    names = _parameters(func)
    at = names.index("out") if "out" in names else len(args)
    return args[:at], {**dict(zip(names[at:], args[at:], strict=False)), **kwargs}


def _private(target: Watched) -> Array:
    check_writeable(target, "output array")
    return np.empty(target._plain.shape, target._plain.dtype)


def _store(target: Watched, values: Array, where: Any) -> None:
    if where is True:
        return write(target, values)
    mask = np.broadcast_to(np.asarray(where, bool), values.shape)
    return scatter(target, mask, values[mask])


def _views(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = list(_arrays((args, kwargs)))
    aliases = [(one._plain, one) for one in given if isinstance(one, Watched)]
    others = [one for one in given if not isinstance(one, Watched)]
    made = func(*deep(plain_view, args), **deep(plain_view, kwargs))
    results = [one for one in _arrays(made) if not any(_shares(one, other) for other in others)]
    owners = {id(one): next((view for plain, view in aliases if _shares(one, plain)), None) for one in results}
    if any(owner is None for owner in owners.values()):
        return func(*deep(copied, args), **deep(copied, kwargs))
    tracked: dict[int, Any] = {}
    for one in results:
        owner = owners[id(one)]
        assert owner is not None
        tracked[id(one)] = type(owner)(one, owner._watch)
    return deep_any(lambda one: tracked.get(id(one), one), made)


def _shares(array: Array, other: Array) -> bool:
    if array is other or (not array.size and array.base is not None and array.base is other.base):
        return True
    return bool(np.may_share_memory(array, other))


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):  # tracked ones say that they are
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _arrays(one)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))


def _written(target: Watched, value: Any, run: Callable[[Array, Any], object]) -> None:
    """Stores the elements that `run(array, value)` assigns to."""
    values, touched = _private(target), np.zeros(target._plain.shape, bool)
    run(values, value)
    if np.size(value):
        run(touched, [True])
        scatter(target, touched, values[touched])


def _copyto(dst: Watched, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    values, where = _private(dst), loaded(where)
    np.copyto(values, loaded(src), casting=casting, where=where)
    _store(dst, values, where)


def put(a: Watched, ind: Any, v: Any, mode: Any = "raise") -> None:
    """`np.put`."""
    at = loaded(ind)
    _written(a, loaded(v), lambda array, value: np.put(array, at, value, mode))


def _place(arr: Watched, mask: Any, vals: Any) -> None:
    where = loaded(mask)
    _written(arr, loaded(vals), lambda array, value: np.place(array, where, value))


def _putmask(a: Watched, mask: Any, values: Any) -> None:
    where = loaded(mask)
    _written(a, loaded(values), lambda array, value: np.putmask(array, where, value))


def _fill_diagonal(a: Watched, val: Any, wrap: bool = False) -> None:
    _written(a, loaded(val), lambda array, value: np.fill_diagonal(array, value, wrap))


def _put_along_axis(arr: Watched, indices: Any, values: Any, axis: Any = -1) -> None:
    at = loaded(indices)
    _written(arr, loaded(values), lambda array, value: np.put_along_axis(array, at, value, axis))


_WRITING: dict[Function, Function] = {
    np.copyto: _copyto,
    np.put: put,
    np.place: _place,
    np.putmask: _putmask,
    np.fill_diagonal: _fill_diagonal,
    np.put_along_axis: _put_along_axis,
}


def _at(func: np.ufunc, target: Watched, index: Any, *operands: Any) -> None:
    """`func.at`: the elements it names are loaded in one step and stored in one."""
    values, touched = _private(target), np.zeros(target._plain.shape, bool)
    touched[index] = True
    values[touched] = gather(target, touched)
    func.at(values, index, *operands)
    scatter(target, touched, values[touched])
