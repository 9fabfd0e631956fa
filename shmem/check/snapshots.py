"""What the globals of one PE hold, to be put back before every execution.

A snapshot follows everything that was made by the PE's import: namespaces, containers, arrays, streams of random
numbers, functions (defaults, attributes, closures), the program's classes and their instances. It keeps what each
holds and puts that back in place, so every reference to it stays good. What the caller's own modules hold as well was
not made by the import, but by a library: it is left alone. Objects of other types are pickled; where that differs
afterwards, a fresh one takes their place. What can't be pickled is left as it is.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from types import CellType, FunctionType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any

import numpy as np

from .contents import CONTENTS, Put, parts, put_cache, put_class, put_defaults, put_slots, put_vars, slot_of


def _pickled(thing: object) -> bytes | None:
    try:
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    except Exception:  # of any kind: it is other people's code
        return None


class Snapshot:
    """What namespaces hold at this moment, and all that hangs on them.

    owned: the modules whose functions, classes and instances are the program's. shared: ids of what is not looked at.
    """

    def __init__(self, spaces: Sequence[dict[str, Any]], owned: Collection[str], shared: Collection[int]) -> None:
        self._owned, self._spaces = owned, frozenset(map(id, spaces))
        self._puts: list[tuple[Put, Any, Any]] = []
        self._pickled: list[tuple[Any, bytes]] = []
        seen: set[int] = set()
        todo: list[Any] = list(spaces)
        while todo:
            thing = todo.pop()
            if id(thing) not in seen and (id(thing) not in shared or isinstance(thing, type)):
                seen.add(id(thing))
                todo += self._save(thing)

    @property
    def pickles(self) -> bool:
        """Whether `restore` pickles, and so needs the PE's modules in `sys.modules`."""
        return bool(self._pickled)

    def restore(self) -> None:
        """Puts everything back."""
        if self._pickled:
            self._renew()
        for put, thing, saved in self._puts:
            put(thing, saved)

    def _renew(self) -> None:
        """Fresh objects for those whose pickles differ, in what will be put back."""
        fresh = {}
        for i, (thing, pickled) in enumerate(self._pickled):
            if _pickled(thing) != pickled:
                self._pickled[i] = pickle.loads(pickled), pickled
                fresh[id(thing)] = thing, self._pickled[i][0]
        if not fresh:
            return
        for _, _, saved in self._puts:
            if isinstance(saved, (dict, list)):
                for key, value in saved.items() if isinstance(saved, dict) else enumerate(saved):
                    if id(value) in fresh:
                        saved[key] = fresh[id(value)][1]

    # ---- each of these saves something and returns what it holds ----

    def _save(self, thing: Any) -> Iterable[Any]:
        if (held := parts(thing)) is not None:
            return held
        if isinstance(thing, type):
            return self._save_class(thing)
        if isinstance(thing, FunctionType):
            return self._save_function(thing)
        if isinstance(thing, functools._lru_cache_wrapper):
            return self._save_cached(thing)
        mine = type(thing).__module__ in self._owned or isinstance(thing, SimpleNamespace)
        if isinstance(thing, MethodType):
            return (thing.__self__,) if type(thing.__self__).__module__ in self._owned else ()
        content = self._save_content(thing)
        if mine:
            return chain(content or (), self._save_instance(thing))
        if content is None:
            self._save_pickle(thing)
        return content or ()

    def _keep(self, put: Put, thing: Any, saved: Any) -> Any:
        self._puts.append((put, thing, saved))
        return saved

    def _save_class(self, thing: type) -> Iterable[Any]:
        if thing.__module__ not in self._owned:
            return ()
        held = self._keep(put_class, thing, dict(vars(thing))).items()
        fixed = ("__dict__", "__doc__", "__module__", "__annotations__", "__dataclass_fields__", "__dataclass_params__")
        return *(value for name, value in held if name not in fixed), *thing.__bases__

    def _save_function(self, thing: FunctionType) -> Iterable[Any]:
        if thing.__module__ not in self._owned and id(thing.__globals__) not in self._spaces:
            return ()
        attributes = self._keep(put_vars, thing, dict(vars(thing)))
        defaults = self._keep(put_defaults, thing, list(thing.__defaults__)) if thing.__defaults__ else ()
        cells = [cell for cell in thing.__closure__ or () if cell != CellType()]  # an empty one has nothing to save
        return *attributes.values(), *defaults, thing.__kwdefaults__, *cells

    def _save_cached(self, thing: functools._lru_cache_wrapper[Any]) -> Iterable[Any]:
        if thing.__module__ not in self._owned:
            return ()
        self._keep(put_cache, thing, None)
        return (thing.__wrapped__,)

    def _save_content(self, thing: Any) -> Iterable[Any] | None:
        """None if it is no container that is known."""
        for kind, save, put, holds in CONTENTS:
            if issubclass(type(thing), kind):
                if kind is np.ndarray and not thing.flags.writeable:
                    return ()
                saved = self._keep(put, thing, save(thing))
                return _held(saved) if holds else ()
        return None

    def _save_instance(self, thing: Any) -> Iterable[Any]:
        held: list[Any] = []
        if hasattr(thing, "__dict__"):
            held += self._keep(put_vars, thing, dict(vars(thing))).values()
        kinds = [kind for kind in type(thing).__mro__ if kind.__module__ in self._owned]
        slots = [value for kind in kinds for value in vars(kind).values() if isinstance(value, MemberDescriptorType)]
        if slots:
            held += self._keep(put_slots, thing, {slot: slot_of(thing, slot) for slot in slots}).values()
        return held

    def _save_pickle(self, thing: Any) -> None:
        if (pickled := _pickled(thing)) is not None:
            self._pickled.append((thing, pickled))


def _held(saved: Any) -> Iterable[Any]:
    """What saved content refers to."""
    if isinstance(saved, dict):
        return *saved.keys(), *saved.values()
    if isinstance(saved, np.ndarray):
        return list(saved.flat) if saved.dtype == object else ()
    return saved  # type: ignore[no-any-return]
