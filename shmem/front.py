"""Ties the hot calls to their C fronts.

`@fronted` replaces a function by the builtin of the same name where the native core is there. The builtin does the
common case itself and gives everything else, errors included, to the function it replaced, which stays the
specification; name, signature and docstring are those of the function.
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
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    signature = inspect.Signature(parameters)
    doc = f"{function.__name__}{signature}\n--\n\n{inspect.getdoc(function)}"
    front: F | None = _hot.front(function.__name__, function, doc, function.__module__)
    return function if front is None else front
