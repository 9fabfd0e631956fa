"""Every tool in a litmus test is needed: without it the outcome that was forbidden is allowed.

So a verdict `forbidden` is not one that holds because nothing can happen.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shmem.check.litmus.language import parse, read
from shmem.check.litmus.syntax import Test
from shmem.check.litmus.verdict import judge
from shmem.check.litmus.weaken import WAITS, weaker

FOLDER = Path(__file__).parents[1] / "litmus"
WEAKEST_FIRST = ["openshmem", "srd", "udma_engine_scoped", "udma", "rc_relaxed", "rc_strict", "tso"]
FORBIDDEN = {
    test.name: (test, min(names, key=WEAKEST_FIRST.index))
    for path in sorted(FOLDER.glob("*/*.litmus"))
    for test in read(path)
    if (names := [name for name, verdict in test.verdicts.items() if verdict == "forbidden"])
}
LOAD = "one copy, and a load, blocking get or fetch has its value before the next statement"
MACHINE = "the profile's own order forbids it: no tool is in it"
ATOMIC = "atomics exclude each other: no tool is in it"
FENCE = "the profile orders by itself what the fence would: the test shows what the fence does not add elsewhere"
# Why a test stays forbidden whatever is taken from it.
STAYS = {
    "CoRR": LOAD, "CoRR_get": LOAD, "CoRR_fetch": LOAD, "IRIW": LOAD, "IRIW_get": LOAD, "LB": LOAD, "LB_get": LOAD,
    "LB_fetch": LOAD,
    "W22": MACHINE, "W22_apart": MACHINE, "W22_atomic": MACHINE, "R": MACHINE, "R_atomic": MACHINE, "SB": MACHINE,
    "SB_atomic": MACHINE, "SB_get_same": MACHINE, "T_readback": MACHINE,
    "W22_apart_fence": FENCE, "R_fence": FENCE, "ISA2_fence": FENCE,
    "ISA2_pe_quiet": "the tool is of the wrong PE, and only an ordered machine forbids the outcome, by itself",
    "ISA2_signal_middle": "the tool is for other data, and only an ordered machine forbids the outcome, by itself",
    "T_count_one": "an ordered machine keeps data and signals in order, joined or not",
    "T_signal_other": "an ordered machine keeps data and signals in order, joined or not",
    "R_quiet_one": "without the quiet a reliable connection executes the READ behind the WRITE all the same",
    "S54": ATOMIC, "V37": ATOMIC, "V38": ATOMIC,
    "S15": "the blocking put itself is the tool: put_nbi is S16",
    "D01": "the word is placed at once, waited for or not", "D11": "each word is placed at once, waited for or not",
    "D_word": "the word is placed at once, waited for or not",
    "D09b": "each token has a slot of its own: without the waits nobody is blocked either",
    "V16": "about room in a queue", "V23": "nothing was posted to the network",
}  # fmt: skip


def attempts(test: Test, name: str) -> dict[str, bool]:
    """What happens without each tool: whether the outcome is allowed. Waits count where there is nothing else."""
    found = list(weaker(test))
    tools = [each for each in found if each.without.split()[0] not in WAITS] or found
    judged = {each.without: judge(each.test, name, 3_000) for each in tools}
    assert any(each.hits for each in judged.values()) or all(each.complete for each in judged.values())
    return {without: each.hits > 0 for without, each in judged.items()}


@pytest.mark.parametrize("which", sorted(FORBIDDEN))
def test_what_is_forbidden_is_allowed_without_its_tool(which: str) -> None:
    test, name = FORBIDDEN[which]
    assert any(attempts(test, name).values()) != (which in STAYS), attempts(test, name)


def test_the_table_names_tests_that_exist() -> None:
    assert set(STAYS) <= set(FORBIDDEN)


@pytest.mark.parametrize(
    ("program", "without", "left"),
    [
        ("put x@1 = 1; fence; put y@1 = 1", "fence", ["put", "put"]),
        ("put x@1 = 1; quiet; pe_quiet 1", "quiet", ["put", "pe_quiet"]),
        ("put_signal_nbi x@1 = 1, y@1 add 1", "put_signal", ["put_nbi", "signal"]),
        ("put x@1 = 1; barrier_all", "barrier_all", ["put", "sync_all"]),
        ("wait x == 1; r = x", "wait", ["assign"]),
        ("r = swap x@1 2", "swap", ["atomic_set"]),
        ("lock x; unlock x", "lock", []),
    ],
)
def test_what_is_left_without_a_tool(program: str, without: str, left: list[str]) -> None:
    [test] = parse(f'test A "a"\ninit x = 0, y = 0\nP0: {program}\nverdict tso clean\n')
    found = {each.without: each.test for each in weaker(test)}
    assert [each.verb for each in found[without].programs[0]] == left
    assert found[without].programs.keys() == test.programs.keys()


def test_a_signal_of_its_own_keeps_its_word_and_value() -> None:
    [test] = parse('test A "a"\ninit x = 0, s = 0\nP0: put_signal x@1 = 1, s@1 add 3\nverdict tso clean\n')
    [put, signal] = next(weaker(test)).test.programs[0]
    assert (put.remote, put.source) == (test.programs[0][0].remote, test.programs[0][0].source)
    assert (signal.remote, signal.update) == (test.programs[0][0].signal, test.programs[0][0].update)


def test_a_tool_is_taken_from_all_and_from_each() -> None:
    [test] = parse('test A "a"\ninit x = 0\nP0: quiet\nP1: quiet\nverdict tso clean\n')
    assert [each.without for each in weaker(test)] == ["quiet", "quiet of PE 0", "quiet of PE 1"]
