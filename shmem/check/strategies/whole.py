"""Searches that are complete unless a bound is met."""

from __future__ import annotations

from collections.abc import Callable

from .. import dpor
from .. import eager as oracle
from ..bounds import Bounds, Ended
from ..found import Found
from ..system import System


def exhaustive(start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended) -> Found:
    """Every order that can be told apart."""
    return dpor.Search(start, bounds=bounds, ended=ended).run()


def eager(start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended) -> Found:
    """Every order: the slow oracle."""
    return oracle.search(start, bounds=bounds, ended=ended)
