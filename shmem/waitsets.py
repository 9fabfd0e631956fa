"""Waits and tests on several own words: the _all, _any and _some forms and their vector forms (OpenSHMEM 1.6, 9.11).

One set of words (`WaitSet`) and one loop (`waiting.until`) serve all twelve routines. Who waits for any of several
words sleeps once for all of them; who waits for all sleeps for one after the other. What any and some return is what a
test of the whole set saw after the sleep; `any` takes turns, so that a word which holds is returned at the latest when
all others that hold have been.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from .enums import comparison
from .errors import SizeMismatch
from .fabric.interface import Status
from .plain import array_of
from .records import CONDITION, Conditions
from .runtime import PE, current
from .views import Array, check_array, many_bits, scalar_bits, words_at
from .waiting import SYMBOL, until

TURNS_MAX = 1024  # sets of words whose turn a PE remembers


class WaitSet:
    """The words of a call that are not excluded, what they are compared with, and their numbers in `ivars`."""

    def __init__(self, ivars: object, cmp: object, values: object, status: object, what: str, vector: bool) -> None:
        self.pe = current()
        self.words = check_array(ivars, "ivars", self.pe.me)
        offsets, kind = words_at(self.pe, self.words, what)
        how = comparison(cmp)
        many: Conditions = np.zeros(len(offsets), CONDITION)
        many["offset"], many["kind"], many["cmp"] = offsets, kind, how
        if vector:
            many["value"] = many_bits(values, self.words.dtype, len(offsets), self.pe.me)
        else:
            many["value"] = scalar_bits(values, self.words.dtype, self.pe.me)
        self.numbers = _included(self.pe, status, len(offsets))
        self.conditions = many[self.numbers]
        self._key = int(offsets[0]) if len(offsets) else 0
        self._what, self._how, self._values = what, how, values

    def held(self) -> list[int]:
        """The numbers of the words that satisfy their comparison now."""
        if not len(self.conditions):
            return []
        found: list[int] = self.numbers[self.pe.fabric.test(self.conditions)].tolist()
        return found

    def turn(self, held: list[int]) -> int:
        """Of the words that hold the one behind the last returned for this set."""
        turns = self.pe.turns
        last = turns.pop(self._key, -1)
        chosen = next((number for number in held if number > last), held[0])
        turns[self._key] = chosen
        if len(turns) > TURNS_MAX:
            del turns[next(iter(turns))]
        return chosen

    def wait_any(self, timeout: float | None) -> list[int]:
        """Sleeps until a word holds; all that hold then, at least the one that ended the sleep."""
        woken_by = -1

        def step(seconds: float) -> Status:
            nonlocal woken_by
            status, woken_by = self.pe.fabric.wait(self.conditions, seconds)
            return status

        until(self.pe, step, self._awaited, self._seen, timeout)
        return self.held() or [int(self.numbers[woken_by])]

    def wait_all(self, timeout: float | None) -> None:
        """Sleeps until every word has held."""
        left = self.conditions

        def step(seconds: float) -> Status:
            nonlocal left
            end = time.monotonic() + seconds
            while len(left):
                status, _ = self.pe.fabric.wait(left[:1], end - time.monotonic())
                if status is not Status.OK:
                    return status
                left = left[1:][~self.pe.fabric.test(left[1:])]
            return Status.OK

        until(self.pe, step, self._awaited, self._seen, timeout)

    def _awaited(self) -> str:
        wanted = f"{self._what} {SYMBOL[self._how]} {_short(self._values)}"
        return f"{wanted} at heap offset {self._key:#x} of PE {self.pe.me} ({len(self.numbers)} words)"

    def _seen(self) -> str:
        return _short(self.words.reshape(-1)[self.numbers])


def _short(values: object) -> str:
    return np.array2string(np.asarray(values), threshold=16)


def _included(pe: PE, status: object, n: int) -> npt.NDArray[np.intp]:
    if status is None:
        return np.arange(n)
    mask = array_of(status, "status", pe.me)
    if mask.shape != (n,) or (n and mask.dtype.kind not in "iub"):
        given = f"{mask.dtype} {list(mask.shape)}"
        raise SizeMismatch(f"status must be {n} integers, nonzero = excluded, not {given}", pe=pe.me)
    return np.flatnonzero(mask == 0)


def _wait_any(ones: WaitSet, timeout: float | None) -> int | None:
    return ones.turn(ones.wait_any(timeout)) if len(ones.numbers) else None


def _wait_some(ones: WaitSet, timeout: float | None) -> list[int]:
    return ones.wait_any(timeout) if len(ones.numbers) else []


def _test_any(ones: WaitSet) -> int | None:
    held = ones.held()
    return ones.turn(held) if held else None


def wait_until_all(
    ivars: Array, cmp: object, value: object, status: npt.ArrayLike | None = None, *, timeout: float | None = None
) -> None:
    """Blocks until every own word has satisfied `word cmp value`.

    ivars: symmetric array of 32- or 64-bit integers on this PE (C-contiguous, 1-D with any step, or row block). cmp:
    CMP, or '==' '!=' '>' '<=' '<' '>='. status: None, or one integer a word: nonzero excludes it; not changed. With no
    word left it returns at once. On return: as `wait_until`, for every word. timeout: seconds, default
    SHMEMU_TIMEOUT_S. Raises NotSymmetric, DtypeError, SizeMismatch, LayoutError, ArgumentError (comparison),
    ShmemTimeout, PeerDied. OpenSHMEM 1.6, 9.11 (shmem_wait_until_all).
    """
    WaitSet(ivars, cmp, value, status, "all words", False).wait_all(timeout)


def wait_until_any(
    ivars: Array, cmp: object, value: object, status: npt.ArrayLike | None = None, *, timeout: float | None = None
) -> int | None:
    """Blocks until some own word satisfies `word cmp value`; returns its number, None if all are excluded.

    Of several that hold, repeated calls return each in turn. Arguments, completion and errors as `wait_until_all`, for
    the word returned. OpenSHMEM 1.6, 9.11 (shmem_wait_until_any, which returns SIZE_MAX for None).
    """
    return _wait_any(WaitSet(ivars, cmp, value, status, "any word", False), timeout)


def wait_until_some(
    ivars: Array, cmp: object, value: object, status: npt.ArrayLike | None = None, *, timeout: float | None = None
) -> list[int]:
    """Blocks until some own word satisfies `word cmp value`; returns the numbers of all that do ([]: all excluded).

    Arguments, completion and errors as `wait_until_all`, for the words returned.
    OpenSHMEM 1.6, 9.11 (shmem_wait_until_some).
    """
    return _wait_some(WaitSet(ivars, cmp, value, status, "some words", False), timeout)


def wait_until_all_vector(
    ivars: Array, cmp: object, values: npt.ArrayLike, status: npt.ArrayLike | None = None, *,
    timeout: float | None = None,
) -> None:  # fmt: skip
    """As `wait_until_all`, each word compared with its own value: values has one integer a word.

    OpenSHMEM 1.6, 9.11 (shmem_wait_until_all_vector).
    """
    WaitSet(ivars, cmp, values, status, "all words", True).wait_all(timeout)


def wait_until_any_vector(
    ivars: Array, cmp: object, values: npt.ArrayLike, status: npt.ArrayLike | None = None, *,
    timeout: float | None = None,
) -> int | None:  # fmt: skip
    """As `wait_until_any`, each word compared with its own value. OpenSHMEM 1.6, 9.11 (shmem_wait_until_any_vector)."""
    return _wait_any(WaitSet(ivars, cmp, values, status, "any word", True), timeout)


def wait_until_some_vector(
    ivars: Array, cmp: object, values: npt.ArrayLike, status: npt.ArrayLike | None = None, *,
    timeout: float | None = None,
) -> list[int]:  # fmt: skip
    """As `wait_until_some`, each word compared with its own value.

    OpenSHMEM 1.6, 9.11 (shmem_wait_until_some_vector).
    """
    return _wait_some(WaitSet(ivars, cmp, values, status, "some words", True), timeout)


def test_all(ivars: Array, cmp: object, value: object, status: npt.ArrayLike | None = None) -> bool:
    """Whether every own word satisfies `word cmp value` now; True if all are excluded. Never blocks.

    Arguments and errors as `wait_until_all`; when True it acquires as that does. OpenSHMEM 1.6, 9.11 (shmem_test_all).
    """
    ones = WaitSet(ivars, cmp, value, status, "all words", False)
    return len(ones.held()) == len(ones.numbers)


def test_any(ivars: Array, cmp: object, value: object, status: npt.ArrayLike | None = None) -> int | None:
    """The number of an own word that satisfies `word cmp value` now, None if none does. Never blocks.

    Of several that hold, repeated calls return each in turn. Arguments and errors as `wait_until_all`; acquires for the
    word returned. OpenSHMEM 1.6, 9.11 (shmem_test_any, which returns SIZE_MAX for None).
    """
    return _test_any(WaitSet(ivars, cmp, value, status, "any word", False))


def test_some(ivars: Array, cmp: object, value: object, status: npt.ArrayLike | None = None) -> list[int]:
    """The numbers of the own words that satisfy `word cmp value` now. Never blocks.

    Arguments and errors as `wait_until_all`; acquires for the words returned. OpenSHMEM 1.6, 9.11 (shmem_test_some).
    """
    return WaitSet(ivars, cmp, value, status, "some words", False).held()


def test_all_vector(
    ivars: Array, cmp: object, values: npt.ArrayLike, status: npt.ArrayLike | None = None
) -> bool:  # fmt: skip
    """As `test_all`, each word compared with its own value. OpenSHMEM 1.6, 9.11 (shmem_test_all_vector)."""
    ones = WaitSet(ivars, cmp, values, status, "all words", True)
    return len(ones.held()) == len(ones.numbers)


def test_any_vector(
    ivars: Array, cmp: object, values: npt.ArrayLike, status: npt.ArrayLike | None = None
) -> int | None:  # fmt: skip
    """As `test_any`, each word compared with its own value. OpenSHMEM 1.6, 9.11 (shmem_test_any_vector)."""
    return _test_any(WaitSet(ivars, cmp, values, status, "any word", True))


def test_some_vector(
    ivars: Array, cmp: object, values: npt.ArrayLike, status: npt.ArrayLike | None = None
) -> list[int]:  # fmt: skip
    """As `test_some`, each word compared with its own value. OpenSHMEM 1.6, 9.11 (shmem_test_some_vector)."""
    return WaitSet(ivars, cmp, values, status, "some words", True).held()
