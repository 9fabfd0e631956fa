"""Ties the hot calls to their C fronts.

`@fronted` replaces a function by the builtin of the same name where the native core is there. The builtin does the
common case itself and gives everything else, errors included, to the function it replaced, which stays the
specification; name, signature and docstring are those of the function, which is `builtin.__self__.function`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def fronted(function: F) -> F:
    """The C front of `function`, or `function` itself where there is none."""
    try:
        from ._native import _hot
    except ImportError:
        return function
    given = inspect.signature(function).parameters.values()
    signature = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in given])
    doc = f"{function.__name__}{signature}\n--\n\n{inspect.getdoc(function)}"
    names = tuple(one.name for one in given)
    needed = sum(one.default is one.empty for one in given)
    positional = sum(one.kind is not one.KEYWORD_ONLY for one in given)
    front: F | None = _hot.front(function.__name__, function, doc, function.__module__, names, needed, positional)
    return function if front is None else front
