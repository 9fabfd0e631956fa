"""Constants of OpenSHMEM as enumerations, with flat aliases (`CMP_EQ`) as in C and in shmem4py.

The numbers of CMP and SIGNAL are shared with the C core. Members of both are small integers, and
`SIGNAL.ADD == CMP.NE` holds: `comparison` and `signal_op`, through which every argument of a call passes,
therefore look at the type, so that a swapped argument raises instead of waiting for the wrong thing.
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag

from .errors import ArgumentError

MAJOR_VERSION = 1
MINOR_VERSION = 6
VENDOR_STRING = "shmemu"
MAX_NAME_LEN = 256  # room for the name of any implementation, with C's final zero; ours is shorter


class CMP(IntEnum):
    """Comparisons of the wait and test routines: `word CMP value` (OpenSHMEM 1.6, 9.11)."""

    EQ = 0
    NE = 1
    GT = 2
    LE = 3
    LT = 4
    GE = 5


class SIGNAL(IntEnum):
    """What `put_signal` does to the signal word: store the value, or add it (OpenSHMEM 1.6, 9.8)."""

    SET = 0
    ADD = 1


class MALLOC(IntFlag):
    """Hints of an allocation: what the block is for (OpenSHMEM 1.6, 9.3)."""

    ATOMICS_REMOTE = 1
    SIGNAL_REMOTE = 2


class THREAD(IntEnum):
    """Levels of thread support, weakest first (OpenSHMEM 1.6, 9.2)."""

    SINGLE = 0
    FUNNELED = 1
    SERIALIZED = 2
    MULTIPLE = 3


class CTX(IntFlag):
    """What a program promises when it makes a context (OpenSHMEM 1.6, 9.5): it is used by the thread that made it
    only, by one thread at a time, its fence and quiet need not cover stores."""

    PRIVATE = 1
    SERIALIZED = 2
    NOSTORE = 4


class CTX_SESSION(IntFlag):  # noqa: N801
    """Hints about the transfers of a session: they may be sent together (OpenSHMEM 1.6, 9.9)."""

    BATCH = 1


class AMO(str, Enum):
    """Atomic operations by name, for `atomic_op` and `atomic_fetch_op`."""

    SET = "set"
    INC = "inc"
    ADD = "add"
    AND = "and"
    OR = "or"
    XOR = "xor"


class OP(str, Enum):
    """Reductions by name, for `reduce`."""

    AND = "and"
    OR = "or"
    XOR = "xor"
    MAX = "max"
    MIN = "min"
    SUM = "sum"
    PROD = "prod"


CMP_EQ, CMP_NE, CMP_GT, CMP_LE, CMP_LT, CMP_GE = CMP
SIGNAL_SET, SIGNAL_ADD = SIGNAL
MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE = MALLOC
THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = THREAD
CTX_PRIVATE, CTX_SERIALIZED, CTX_NOSTORE = CTX
CTX_SESSION_BATCH = CTX_SESSION.BATCH
AMO_SET, AMO_INC, AMO_ADD, AMO_AND, AMO_OR, AMO_XOR = AMO
OP_AND, OP_OR, OP_XOR, OP_MAX, OP_MIN, OP_SUM, OP_PROD = OP

__all__ = [
    "AMO", "AMO_ADD", "AMO_AND", "AMO_INC", "AMO_OR", "AMO_SET", "AMO_XOR", "CMP", "CMP_EQ", "CMP_GE", "CMP_GT",
    "CMP_LE", "CMP_LT", "CMP_NE", "CTX", "CTX_NOSTORE", "CTX_PRIVATE", "CTX_SERIALIZED", "CTX_SESSION",
    "CTX_SESSION_BATCH", "MAJOR_VERSION", "MALLOC", "MALLOC_ATOMICS_REMOTE", "MALLOC_SIGNAL_REMOTE", "MAX_NAME_LEN",
    "MINOR_VERSION", "OP", "OP_AND", "OP_MAX", "OP_MIN", "OP_OR", "OP_PROD", "OP_SUM", "OP_XOR", "SIGNAL",
    "SIGNAL_ADD", "SIGNAL_SET", "THREAD", "THREAD_FUNNELED", "THREAD_MULTIPLE", "THREAD_SERIALIZED",
    "THREAD_SINGLE", "VENDOR_STRING",
]  # fmt: skip

_SYMBOLS = {"==": CMP.EQ, "!=": CMP.NE, ">": CMP.GT, "<=": CMP.LE, "<": CMP.LT, ">=": CMP.GE}
_COMPARISONS = {**_SYMBOLS, **{member.name.lower(): member for member in CMP}}
_REDUCTIONS = {member.value: member for member in OP}
_AMO_OPS = {member.value: member for member in AMO}
_SIGNAL_OPS = {member.name.lower(): member for member in SIGNAL}


def comparison(value: object) -> CMP:
    """The comparison meant by `value`: a CMP, '==' '!=' '>' '<=' '<' '>=', or 'eq' 'ne' 'gt' 'le' 'lt' 'ge'.

    Raises ArgumentError for anything else, plain integers and members of SIGNAL included.
    """
    if type(value) is CMP:
        return value
    if isinstance(value, str) and value.lower() in _COMPARISONS:
        return _COMPARISONS[value.lower()]
    names = " ".join(_COMPARISONS)
    raise ArgumentError(f"unknown comparison {value!r}: use a CMP_ constant, or one of {names}")


def amo_op(value: object) -> AMO:
    """The atomic operation meant by `value`: an AMO, or 'set', 'inc', 'add', 'and', 'or', 'xor'.

    Raises ArgumentError for anything else, members of OP included.
    """
    if type(value) is AMO:
        return value
    if type(value) is str and value.lower() in _AMO_OPS:
        return _AMO_OPS[value.lower()]
    names = " ".join(_AMO_OPS)
    raise ArgumentError(f"unknown atomic operation {value!r}: use an AMO_ constant, or one of {names}")


def signal_op(value: object) -> SIGNAL:
    """The signal operation meant by `value`: a SIGNAL, or 'set' or 'add'.

    Raises ArgumentError for anything else, plain integers and members of CMP included.
    """
    if type(value) is SIGNAL:
        return value
    if isinstance(value, str) and value.lower() in _SIGNAL_OPS:
        return _SIGNAL_OPS[value.lower()]
    raise ArgumentError(f"unknown signal operation {value!r}: use SIGNAL_SET, SIGNAL_ADD, 'set' or 'add'")


def reduction(value: object) -> OP:
    """The reduction meant by `value`: an OP, or 'and' 'or' 'xor' 'max' 'min' 'sum' 'prod'.

    Raises ArgumentError for anything else, members of AMO included.
    """
    if type(value) is OP:
        return value
    if type(value) is str and value.lower() in _REDUCTIONS:
        return _REDUCTIONS[value.lower()]
    raise ArgumentError(f"unknown reduction {value!r}: use an OP_ constant, or one of {' '.join(_REDUCTIONS)}")
