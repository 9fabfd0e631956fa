"""The constants of OpenSHMEM, and that a swapped constant raises although the numbers are the same."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from shmem import enums
from shmem.enums import AMO, CMP, MALLOC, OP, SIGNAL, THREAD, amo_op, comparison, reduction, signal_op
from shmem.errors import ArgumentError

SYMBOLS = {"==": CMP.EQ, "!=": CMP.NE, ">": CMP.GT, "<=": CMP.LE, "<": CMP.LT, ">=": CMP.GE}


def test_the_numbers_are_those_of_the_native_core():
    assert {member.name: int(member) for member in CMP} == {
        "EQ": 0,
        "NE": 1,
        "GT": 2,
        "LE": 3,
        "LT": 4,
        "GE": 5,
    }
    assert {member.name: int(member) for member in SIGNAL} == {"SET": 0, "ADD": 1}
    assert [member.name for member in sorted(THREAD)] == ["SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"]


@pytest.mark.parametrize("enum", [CMP, SIGNAL, THREAD, AMO, OP, MALLOC])
def test_each_member_has_a_flat_alias(enum):
    for member in enum:
        assert getattr(enums, f"{enum.__name__}_{member.name}") is member
        assert pickle.loads(pickle.dumps(member)) is member


@pytest.mark.parametrize("enum", [AMO, OP])
def test_operations_are_their_names(enum):
    for member in enum:
        assert member == member.name.lower()
        assert enum(member.name.lower()) is member


@pytest.mark.parametrize("member", AMO)
def test_amo_op_takes_members_and_their_names(member):
    for spelled in (member, member.value, member.value.upper()):
        assert amo_op(spelled) is member


@pytest.mark.parametrize("wrong", [OP.AND, OP.SUM, "swap", "", 1, None, SIGNAL.ADD, b"add"], ids=repr)
def test_amo_op_takes_nothing_else(wrong):
    with pytest.raises(ArgumentError, match="set inc add and or xor"):
        amo_op(wrong)


def test_version():
    assert (enums.MAJOR_VERSION, enums.MINOR_VERSION) == (1, 6)
    assert enums.VENDOR_STRING == "shmemu"
    assert len(enums.VENDOR_STRING) < enums.MAX_NAME_LEN == 256


@pytest.mark.parametrize("member", CMP)
def test_comparison_takes_members_names_and_symbols(member):
    symbol = next(symbol for symbol, meant in SYMBOLS.items() if meant is member)
    for spelling in (member, member.name, member.name.lower(), symbol):
        assert comparison(spelling) is member


@pytest.mark.parametrize("member", SIGNAL)
def test_signal_op_takes_members_and_names(member):
    for spelling in (member, member.name, member.name.lower()):
        assert signal_op(spelling) is member


@pytest.mark.parametrize("wrong", [*SIGNAL, *THREAD, 0, 1, True, None, "=", "=<", "equal", "", b"==", np.int64(0), []])
def test_comparison_refuses_anything_else(wrong):
    with pytest.raises(ArgumentError, match="unknown comparison"):
        comparison(wrong)


@pytest.mark.parametrize("wrong", [*CMP, AMO.INC, *THREAD, 0, 1, True, None, "or", "", b"set", np.int64(1), []])
def test_signal_op_refuses_anything_else(wrong):
    with pytest.raises(ArgumentError, match="unknown signal operation"):
        signal_op(wrong)


@pytest.mark.parametrize("member", OP)
def test_reduction_takes_members_and_names(member):
    for spelling in (member, member.name, member.value):
        assert reduction(spelling) is member


@pytest.mark.parametrize("wrong", [*AMO, *CMP, 0, True, None, "mean", "", b"sum", np.str_("sum"), []])
def test_reduction_refuses_anything_else(wrong):
    with pytest.raises(ArgumentError, match="unknown reduction"):
        reduction(wrong)


def test_everything_in_capitals_is_exported() -> None:
    assert set(enums.__all__) == {name for name in vars(enums) if name.isupper() and not name.startswith("_")}
