"""The C fronts against the Python functions that they stand for: the same results, memory and errors for any argument.

Each argument in turn is replaced by everything that may be given for it, right or wrong, by position and by keyword;
the PEs of a job share these calls out. What is common must not reach Python at all: a profiler sees whether it does.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
import sys
import warnings

import numpy as np
import pytest

import shmem

from .data import FLOAT_WORDS, WORDS

pytestmark = [pytest.mark.mpi, pytest.mark.needs("direct", "its fronts are bound there, and calls act at once")]

MOVES = ("put", "put_nbi", "get", "get_nbi", "iput", "iget", "put_signal", "put_signal_nbi")
WAITS = ("wait_until", "signal_wait_until")
FRONTS = (
    *MOVES, *WAITS, "p", "g", "test", "signal_set", "signal_add", "signal_fetch",
    "atomic_set", "atomic_add", "atomic_inc", "atomic_and", "atomic_or", "atomic_xor",
    *(f"atomic_{name}{nbi}" for nbi in ("", "_nbi") for name in (
        "fetch", "swap", "compare_swap", "fetch_add", "fetch_inc", "fetch_and", "fetch_or", "fetch_xor")),
)  # fmt: skip

INTEGERS = [np.dtype(f"{sign}{width}") for sign in "iu" for width in (1, 2, 4, 8)] + [np.dtype("q"), np.dtype("Q")]
LIMITS = [kind.type(edge) for kind in INTEGERS for edge in (np.iinfo(kind).min, 3, np.iinfo(kind).max)]
NUMBERS = [
    3, 0, -1, True, np.True_, 2**24 + 1, 2**31, 2**32, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**64 - 1,
    2**64, -(2**63), -(2**63) - 1, 10**400, *LIMITS, 0.1, -0.0, math.inf, math.nan, 1e300, 5e-324, np.float32(0.1),
    np.float32("nan"), np.float64(0.1), np.float64(1e300), np.float64("nan"), np.float16(0.5), np.longdouble(0.1),
    np.array(4), np.array([4]), np.array([4, 5]), np.timedelta64(3), "3", None, 1j, object,
]  # fmt: skip
SIZES = [1, None, 0, 2, 3, 4, 5, -1, True, np.int64(2), np.uint8(2), np.uint64(2**64 - 1), 1.0, "1", 2**70]
STEPS = [1, 2, 4, 5, np.int64(2), 0, -1, True, 1.0, None, 2**31, 2**70]
NAMES = ["==", "!=", ">", "<=", "<", ">=", "eq", "ne", "gt", "le", "lt", "ge", "set", "add"]
CONSTANTS = [*NAMES, "GE", "SET", "=>", "", "==\0", "é", np.str_("=="), 0, 1, *shmem.CMP, *shmem.SIGNAL, None]
NAMED = 4  # so many values of an argument are given by keyword, too
TIMEOUTS = [5.0, None, 0, 0.0, 5, 1e-6, math.inf, math.nan, -1, -0.5, True, np.float64(5), np.int64(5), "5", 2**70]


def python(front):
    """The function that a front stands for."""
    return inspect.unwrap(front).__self__.function  # what counts the calls of the tests wraps it


def frozen(array):
    array = array[...]
    array.flags.writeable = False
    return array


class Stage:
    """Memory of one dtype in which this PE acts alone: its row of the arrays of all PEs, and private arrays."""

    def __init__(self, dtype):
        self.n, self.me = shmem.n_pes(), shmem.my_pe()
        self.there = (self.me + 1) % self.n
        self.rows, self.signals = shmem.zeros((self.n, 6), dtype), shmem.zeros((self.n, 2), np.uint64)
        self.private, self.foreign = np.zeros(6, dtype), np.zeros(2, dtype)
        seen = [shmem.ptr(rows[self.me], pe) for rows in (self.rows, self.signals) for pe in range(self.n)]
        self.memory = [*seen, self.private, self.foreign]

    def reset(self):
        for array in self.memory:
            array[...] = np.arange(1, array.size + 1)
        shmem.quiet()

    def free(self):
        shmem.barrier_all()
        shmem.free(self.signals)
        shmem.free(self.rows)

    def pool(self, front, parameter):
        """What may be given for a parameter, right or wrong; the first is right."""
        mine, signal = self.rows[self.me], self.signals[self.me]
        wrong = [frozen(mine), mine.astype(np.int16), None, 3, [1], mine[::2], mine[:0], np.array(mine, ">i4")]
        word = [mine[2:3], mine[2:3].reshape(1, 1), mine, self.foreign[:1], frozen(mine[2:3]), *wrong]
        symmetric = [mine[:4], mine, mine[:4].reshape(2, 2), mine[:2], self.foreign, *wrong]
        private = [self.private[:4], self.private[1:3], mine[:4], mine[2:], frozen(self.private[:4]), *wrong]
        target, source = (private, symmetric) if "get" in front else (symmetric, private)
        there = self.there
        return {
            "target": target if front in MOVES else word,
            "source": source if front in MOVES else word,
            "ivar": word,
            "fetch": [self.private[3:4], mine[3:4], self.private, frozen(self.private[3:4]), *wrong],
            "signal": [signal[:1], signal[1:], signal, mine[:1], np.zeros(1, np.uint64), frozen(signal[:1]), None],
            "pe": [there, *(kind.type(there) for kind in INTEGERS), True, np.True_, -1, self.n, 2**70, 0.0, None, "0",
                   np.array(there), np.float64(there), np.int64(-1), np.uint64(2**63)],
            "value": NUMBERS, "cond": NUMBERS, "sigop": [shmem.SIGNAL_SET, *CONSTANTS], "size": SIZES,
            "cmp": [shmem.CMP_LE, *CONSTANTS], "tst": STEPS, "sst": STEPS, "timeout": TIMEOUTS,
            "ctx": [None, shmem.CTX_DEFAULT, 7],
        }[parameter]  # fmt: skip

    def right(self, front):
        """A right argument for each parameter without a default."""
        parameters = inspect.signature(getattr(shmem, front)).parameters.values()
        return {one.name: self.pool(front, one.name)[0] for one in parameters if one.default is one.empty}

    def outcome(self, call, first, named):
        """What a call does: its result or error, what it warns of, all memory and what is pending afterwards."""
        self.reset()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = call(*first, **named)
                ended = type(result), np.asarray(result).tobytes()
            except Exception as error:
                ended = type(error), re.sub(r"waited [0-9.]+ s", "", str(error))
        pending = shmem.CTX_DEFAULT.pending()
        return ended, [str(one.message) for one in warned], [array.tobytes() for array in self.memory], pending


def by_position(front, arguments):
    """Which of the arguments, the first ones, can be given without their names."""
    parameters = inspect.signature(front).parameters.values()
    taken = itertools.takewhile(lambda one: one.name in arguments and one.kind is not one.KEYWORD_ONLY, parameters)
    return [one.name for one in taken]


def variants(stage, name):
    """Calls of a front in which one argument is any of its pool: (positional arguments, keywords)."""
    front, right = getattr(shmem, name), stage.right(name)
    for parameter in inspect.signature(front).parameters:
        for i, value in enumerate(stage.pool(name, parameter)):
            arguments = {**right, parameter: value}
            if name in WAITS:
                arguments.setdefault("timeout", 0)  # not every comparison holds
            if i < NAMED:
                yield [], arguments
            places = by_position(front, arguments)
            named = {one: given for one, given in arguments.items() if one not in places}
            yield [arguments[one] for one in places], named


@pytest.mark.mpi(min_size=2, max_size=3)  # every call is made once in each job: that is long, and the same in all
@pytest.mark.parametrize("name", FRONTS)
def test_every_argument_does_what_it_does_in_python(name):
    front = getattr(shmem, name)
    for dtype in map(np.dtype, ("i4", "u8", "f4", "f8", *(["u4", "i8", "i2"] if name in ("p", "g", "test") else []))):
        stage = Stage(dtype)
        for first, named in share(variants(stage, name)):
            wanted = stage.outcome(python(front), first, named)
            assert stage.outcome(front, first, named) == wanted, (dtype, first, named)
        stage.free()


def share(calls):
    """Every n-th one, from this PE's on: in a job of n PEs each is made by one of them."""
    return itertools.islice(calls, shmem.my_pe(), None, shmem.n_pes())


def reaches_python(front, first, named):
    """Whether a call of a front enters the function behind it."""
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None)
    try:
        front(*first, **named)
    finally:
        sys.setprofile(None)
    return python(front).__code__ in entered


def numpy_numbers(values, kind):
    return [kind(one) if type(one) is int else one for one in values]


def ways(front, right):
    """Common ways to write the same call: (positional arguments, keywords)."""
    values, names = [*right.values()], {"cmp": "<=", "sigop": "set"}
    options = {"size": [2, np.int32(1)], "tst": [2], "sst": [np.int64(2)], "timeout": [5.0, 5, 0], "ctx": [None]}
    optional = [one for one in inspect.signature(front).parameters if one not in right]
    yield [], right
    yield values[:1], dict([*right.items()][1:])
    yield values, dict.fromkeys([one for one in optional if one not in ("tst", "sst")])
    yield numpy_numbers(values, np.int64), {}
    yield numpy_numbers(values, np.uint8), {}
    yield [names.get(one, value) for one, value in right.items()], {}
    for name in optional:
        yield from ((values, {name: value}) for value in options[name])


@pytest.mark.parametrize("name", FRONTS)
def test_common_calls_stay_in_c(name):
    """All that the function takes: not what it refuses, such as an addition of floats."""
    front = getattr(shmem, name)
    for dtype in (*WORDS, *FLOAT_WORDS):
        stage = Stage(dtype)
        right = stage.right(name)
        (ended, _), *_ = stage.outcome(python(front), [], right)
        for first, named in share(ways(front, right)) if ended is not shmem.DtypeError else ():
            stage.reset()
            assert not reaches_python(front, first, named), (dtype, first, named)
        stage.free()


def test_a_profiler_sees_a_call_that_reaches_python():
    stage = Stage(np.dtype("i8"))
    stage.reset()
    assert reaches_python(shmem.p, [*stage.right("p").values()], {"ctx": shmem.CTX_DEFAULT})
    stage.free()


@pytest.mark.parametrize("name", ["broadcast", "fcollect", "alltoall", "sum_reduce"])
def test_collectives_stay_in_c_once_their_records_are_known(name):
    n = shmem.n_pes()
    target, source = shmem.zeros(2 * n, np.int64), shmem.full(2 * n, shmem.my_pe() + 1, np.int64)
    front, root = getattr(shmem, name), [0] if name == "broadcast" else []
    front(target, source, *root, 2)
    for first, named in (
        ([target, source, *root], {"size": 2}),
        ([target, source, *root, np.int32(2)], {"team": None, "timeout": None}),
        ([], {"target": target, "source": source, "size": 2, **({"root": np.int64(0)} if root else {})}),
    ):
        assert not reaches_python(front, first, named), (first, named)
    wanted = {"broadcast": 1, "fcollect": 1, "alltoall": 1, "sum_reduce": n * (n + 1) // 2}[name]
    assert target[:2].tolist() == [wanted, wanted]
    shmem.barrier_all()
    shmem.free(source)
    shmem.free(target)


@pytest.mark.parametrize("name", ["fence", "quiet", "barrier_all", "sync_all"])
def test_calls_without_arguments_stay_in_c(name):
    front = getattr(shmem, name)
    option = next(iter(inspect.signature(front).parameters))
    assert not reaches_python(front, [], {})
    assert not reaches_python(front, [], {option: None})


def view_of(call, array, pe):
    try:
        view = call(array, pe)
    except Exception as error:
        return type(error), str(error)
    return type(view), view.__array_interface__, view.flags.writeable


def test_ptr_gives_the_view_that_python_gives():
    stage = Stage(np.dtype("f4"))
    mine = stage.rows[stage.me]
    for array in (mine, mine[1:3], mine.reshape(2, 3), frozen(mine), mine[::2], mine[:0], np.zeros(3), None):
        for pe in (stage.there, np.int64(stage.there), stage.n, True, None):
            assert view_of(shmem.ptr, array, pe) == view_of(python(shmem.ptr), array, pe), (array, pe)
    assert not reaches_python(shmem.ptr, [mine], {"pe": np.int64(stage.there)})
    stage.free()
