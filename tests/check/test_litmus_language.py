"""Reading litmus files: what is accepted, and errors that point at the place."""

from __future__ import annotations

import pytest

from shmem.check.litmus.language import parse
from shmem.check.litmus.syntax import Remote, Word
from shmem.check.litmus.verdict import judge
from shmem.errors import LitmusSyntaxError

GOOD = """
# a comment
test A1 "a title"   # and one here
init x = 0, v[4] = 0x10 with placement=16, units=ascending
local b[2] = 3
P0: put x@1 = 1; b[0] = 2  # the line goes on

    # between
    put_nbi[c1] v[1:3]@2 <- b ; write x@1 = 1 {unsignaled, qp=2} -> e
P1: wait x == 1
    r = x + v[1] + 5
outcome 1:r == 6 or not (x@1 != 1 and 0:blocked)
verdict udma allowed
verdict tso  forbidden
"""


def test_a_file_with_everything() -> None:
    [test] = parse(GOOD)
    assert (test.name, test.title, test.line, test.pes) == ("A1", "a title", 3, 3)
    assert test.symmetric == {"x": (1, 0), "v": (4, 16)}
    assert test.private == {"b": (2, 3)}
    assert test.settings == {"placement": 16, "units": "ascending"}
    assert test.verdicts == {"udma": "allowed", "tso": "forbidden"}
    verbs = [[each.verb for each in test.programs[pe]] for pe in (0, 1)]
    assert verbs == [["put", "assign", "put_nbi", "write"], ["wait", "assign"]]
    nbi, write = test.programs[0][2:]
    assert (nbi.context, nbi.remote, nbi.source.buffer) == ("c1", Remote(Word("v", 1, 3, False), 2), Word("b"))
    assert (write.flags, write.into) == ({"unsignaled": 1, "qp": 2}, "e")
    assert test.asks_blocked


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "says"),
    [
        ("put x@1 = 1; b", "put x@1 == 1; b", 6, 14, "unexpected '='"),
        ("put x@1 = 1; b", "put q@1 = 1; b", 6, 5, "q is no symmetric word"),
        ("v[1:3]@2", "v[2:6]@2", 9, 5, "v[2:6] is outside v[4]"),
        ("v[1:3]@2", "v[2:2]@2", 9, 17, "v[2:2] is empty"),
        ("0x10", "0x10000000000000000", 4, 20, "does not fit into 64 bits"),
        ("unsignaled", "unsigned", 9, 48, "there is no flag unsigned"),
        ("units=ascending", "unit=ascending", 4, 44, "there is no setting unit"),
        ("x = 0, v", "x = 0, x", 4, 13, "x is declared twice"),
        ("tso  forbidden", "tso  never", 14, 14, "never is no verdict"),
        ("x@1 != 1", "x != 1", 12, 26, "x is neither PE:register nor a status"),
        ("wait x", "wait b", 10, 5, "b is no symmetric word"),
        ("verdict tso  forbidden\n", "verdict tso", 14, 12, "unexpected"),
        ("verdict tso  forbidden", "verdict udma forbidden", 14, 9, "udma has a verdict already"),
        ("verdict tso  forbidden", "verdict nfs forbidden", 14, 9, "there is no profile 'nfs'"),
        ("outcome 1:r == 6 or not (x@1 != 1 and 0:blocked)\n", "", 12, 14, "allowed is said of an outcome"),
        ("r = x + v[1] + 5", "unlock x", 11, 5, "unlock x: P1 does not hold it"),
        ("r = x + v[1] + 5", "lock x; unlock x; unlock x", 11, 23, "P1 does not hold it"),
        ("r = x + v[1] + 5", "lock v; unlock x", 11, 13, "P1 does not hold it"),
        ("local b[2] = 3", "local x = 3", 5, 7, "x is declared twice"),
        ("placement=16", "placement=3", 4, 40, "placement=3: a power of two"),
        ("placement=16", "placement=big", 4, 40, "placement=big: a power of two"),
        ("placement=16", "depth=0", 4, 36, "depth=0: a number from 1"),
        ("placement=16", "recvs=many", 4, 36, "recvs=many: a number from 0"),
        ("units=ascending", "units=some", 4, 50, "units=some: use any or ascending"),
        ("x@1 != 1", "q@1 != 1", 12, 26, "q is no symmetric word"),
        ("x@1 != 1", "v[4]@1 != 1", 12, 26, "v[4:5] is outside v[4]"),
        ("x@1 != 1", "v@1 != 1", 12, 26, "v are several words"),
        ("x@1 != 1", "v[1:3]@1 != 1", 12, 26, "v are several words"),
        ("v[1:3]@2 <- b", "v[1:3]@2 <- v[3]", 9, 5, "v[3:5] is outside v[4]"),
        ("v[1:3]@2", "v[0:3]@2", 9, 5, "b[0:3] is outside b[2]"),
        ("r = x + v[1] + 5", "poll_cq 0 n=0", 11, 5, "at least"),
        ("x@1 != 1", "x@64 != 1", 3, 1, "at most 64 PEs"),
        ("v[4] = 0x10", "v[65536] = 0", 3, 1, "65536 symmetric words"),
        *[
            ("r = x + v[1] + 5", statement, 11, 5, says)
            for says, statements in {
                "v are several words: say which": (
                    "r = v[0:2]",
                    "r = 1 + v",
                    "v[0:2] = 1",
                    "r = atomic_fetch v@1",
                    "r = fetch_add v[0:2]@1 1",
                    "atomic_set v[0:4]@1 = 1",
                    "atomic_add x@1 += v",
                    "signal v[0:2]@1 set 1",
                    "signal x@1 set v",
                    "put_signal x@1 = 1, v[0:2]@1 set 1",
                    "put v@1 = 1",
                    "put x@1 = v",
                    "get r <- v[0:2]@1",
                    "get_nbi b[0] <- v[0:2]@1",
                    "read b[0] <- v@1",
                    "faa v@1 += 1",
                    "cas v[1:3]@1 0 1",
                    "signal_wait v == 1",
                    "poll v[0:2] == 1",
                ),
                "b are several words: say which": ("get_nbi b <- x@1", "r = b"),
                "a read fills as many words": ("read b <- v[0:2]@1", "read b[0:2] <- x@1"),
                "r is a register": ("put x@1 <- r", "write x@1 <- r"),
                "r takes a late result": ("get_nbi r <- x@1", "read r <- x@1", "fetch_add_nbi r <- x@1 1"),
                "x takes a late result": ("get_nbi x <- x@1",),
                "goes to a register": ("write x@1 = 1 -> x", "poll_cq 0 -> v"),
                "the data goes to PE 0": ("put_signal x@0 = 1, x@2 set 1", "write_notify x@0 = 1, x@2 set 1"),
                "a notification sets": ("write_notify x@0 = 1, x@0 add 1",),
                "not both": ("write x@0 = 1 {relax strong}", "send 1@0 {signaled, unsignaled}"),
                "name each of its PEs once": ("barrier(0,2)", "sync(1,1)"),
            }.items()
            for statement in statements
        ],
    ],
)
def test_an_error_points_at_its_place(old: str, new: str, line: int, column: int, says: str) -> None:
    assert old in GOOD
    with pytest.raises(LitmusSyntaxError) as caught:
        parse(GOOD.replace(old, new, 1), "some.litmus")
    assert (caught.value.line, caught.value.column) == (line, column)
    text = str(caught.value)
    assert text.startswith(f"some.litmus:{line}:{column}: ")
    assert says in text
    assert text.splitlines()[-1] == "  " + " " * (column - 1) + "^"


def test_a_send_needs_memory_at_its_target() -> None:
    with pytest.raises(LitmusSyntaxError, match="a SEND needs memory"):
        parse('test A "a"\nP0: send 1@1\nP1: poll_recv\noutcome 0:r == 0\nverdict tso allowed\n')


@pytest.mark.parametrize(
    "statement", ["put v[0:2]@1 <- b", "write v[1:3]@1 <- v[0:2]", "put_nbi v[2]@1 <- b[1]", "read b[0:2] <- v[1:3]@0"]
)
def test_what_puts_several_words_may_name_them(statement: str) -> None:
    [test] = parse(GOOD.replace("r = x + v[1] + 5", statement))
    assert test.programs[1][1].remote is not None


def test_what_a_profile_cannot_do_is_a_problem_of_that_verdict() -> None:
    [test] = parse(
        'test A "a"\ninit x = 0\nP0: faa x@1 += 1\noutcome x@1 == 1\nverdict srd allowed\nverdict tso allowed\n'
    )
    assert "no atomics" in judge(test, "srd").problem
    assert not judge(test, "srd").right
    assert judge(test, "tso").right


def test_a_blocked_pe_is_a_failure_unless_it_is_asked_about() -> None:
    text = 'test A "a"\ninit x = 0\nP0: r = x\nP1: wait x == 1\noutcome 1:{}\nverdict tso allowed\n'
    [asked], [not_asked] = parse(text.format("blocked")), parse(text.format("r == 0"))
    assert judge(asked, "tso").right
    assert "PE 1 waits for ever" in judge(not_asked, "tso").problem


@pytest.mark.parametrize("name", ["tso", "srd"])
@pytest.mark.parametrize(("units", "last_first"), [("any", True), ("ascending", False)])
def test_the_order_of_units_is_what_the_test_says(name: str, units: str, last_first: bool) -> None:
    [test] = parse(
        f'test A "a"\ninit v[2] = 0 with units={units}\nP0: put v[0:2]@1 = 1\nP1: a = v[1]; b = v[0]\n'
        f"outcome 1:a == 1 and 1:b == 0\nverdict {name} allowed\n"
    )
    assert (judge(test, name).found == "allowed") == last_first
