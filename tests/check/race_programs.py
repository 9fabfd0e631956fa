"""Programs for every rule of the race detector: a racy one, and the same with the edge that it lacks.

A program is what each PE does, line by line, without `shmem.`; a line that begins with `*` races with the first such
line. `text_of` makes a file of it, so that reports name its lines. The page docs/races.md is written from this table.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import shmem

Lines = dict[int, list[str]]  # by PE

BEFORE = {  # what a program uses, and how it is made before anything is shared
    "x": "x = shmem.zeros(1, np.uint64)", "y": "y = shmem.zeros(1, np.uint64)", "z": "z = shmem.zeros(1, np.uint64)",
    "s": "s = shmem.zeros(1, np.uint64)", "v": "v = shmem.zeros(4, np.uint64)", "l": "l = shmem.new_lock()",
    "w": "w = shmem.zeros(2, np.uint64)", "lines": "lines = shmem.zeros(16, np.uint8, align=64)",
    "b": "b = np.ones(1, np.uint64)", "a": "a = np.zeros(1, np.uint64)", "b4": "b4 = np.ones(4, np.uint64)",
    "c": "c = shmem.ctx_create()", "d": "d = shmem.ctx_create()", "n": "n = shmem.ctx_create(shmem.CTX_NOSTORE)",
    "shared": "shared = shmem.team_create_ctx(shmem.TEAM_SHARED)",
    "t": "t = shmem.zeros(600, np.uint64)", "u": "u = shmem.zeros(1200, np.uint64)",
    "part": "part = shmem.team_create_ctx(shmem.team_split_strided(shmem.TEAM_SHARED, 0, 1, n))",
    "some": "some = shmem.team_create_ctx(shmem.team_split_strided(shmem.TEAM_WORLD, 0, 1, n))",
    "row": "row = shmem.team_split_2d(shmem.team_split_strided(shmem.TEAM_SHARED, 0, 1, n), n)[0].create_ctx()",
    "cq": "cq = nic.CompletionQueue()", "qp": "qp = nic.QueuePair((me + 1) % n, cq, rnr_retry=7)",
    "qp2": "qp2 = nic.QueuePair((me + 1) % n, cq, index=2, rnr_retry=7)",
    "to2": "to2 = nic.QueuePair(2, cq, index=3)", "mine": "mine = np.ones(1, np.uint64); nic.register(mine, '')",
    **{name.upper(): f"{name.upper()} = nic.import_segment(nic.register({name}), (me + 1) % n)" for name in "xyzsv"},
    "X2": "X2 = nic.import_segment(nic.register(x), 2)",
    "pair": "pair = shmem.team_from_pes([0, 1])", "three": "three = shmem.team_from_pes([0, 1, 2])",
}  # fmt: skip
NEEDS = {"qp": "cq", "qp2": "cq", "to2": "cq", "X2": "x", **{name.upper(): name for name in "xyzsv"}}


@dataclass(frozen=True)
class Case:
    """A rule. `racy` is None where nothing about it races, `clean` where nothing helps. modes: in which `racy` is a
    race. always: it shows in every execution."""

    section: str
    rule: str
    racy: Lines | None
    clean: Lines | None
    why: str = ""
    modes: tuple[str, ...] = ("lenient", "strict")
    always: bool = True
    pes: int = 0
    clean_in: tuple[str, ...] = ("lenient", "strict")
    profile: str = "openshmem"
    unit: int = 8

    @property
    def name(self) -> str:
        """For ids of tests."""
        return re.sub(r"\W+", "-", f"{self.section}-{self.rule}").strip("-")


CASES: list[Case] = []


def parsed(text: str) -> Lines:
    """'0: a; b / 1: c' as lines by PE; a line that has a `;` of its own is none here."""
    found: Lines = {}
    for part in text.split(" / "):
        pes, _, rest = part.partition(": ")
        for pe in pes.split(","):
            found[int(pe)] = rest.split("; ")
    return found


def case(
    section: str, rule: str, racy: str | Lines | None, clean: str | Lines | None, why: str = "", *,
    modes: tuple[str, ...] = ("lenient", "strict"), always: bool = True, clean_in: tuple[str, ...] | None = None,
    profile: str = "openshmem", pes: int = 2, unit: int = 8,
) -> None:  # fmt: skip
    """Adds a rule. modes, always: see `Case`. pes: at least so many."""
    made = [parsed(one) if isinstance(one, str) else one for one in (racy, clean)]
    pes = max(pes, *(1 + pe for each in made if each for pe in each))
    if any(", 2" in line for each in made if each for lines in each.values() for line in lines):
        pes = max(pes, 3)
    CASES.append(Case(section, rule, *made, why, modes, always, pes, clean_in or ("lenient", "strict"), profile, unit))


def spelled(line: str) -> str:
    """A line with the names of `shmem` as a program writes them."""
    calls = {name for name in re.findall(r"(?<![\w.])\w+(?=\()", line) if hasattr(shmem, name)}
    line = re.sub(r"\bWR\((\w+)", r"nic.WorkRequest(nic.\1", line)
    line = re.sub(r"(?<![\w.])(\w+)(?=\()", lambda at: f"shmem.{at[1]}" if at[1] in calls else at[1], line)
    return re.sub(r"\b(SIGNAL_SET|SIGNAL_ADD|LL)\b", r"shmem.\1", re.sub(r"\b(SET|ADD)\b", r"SIGNAL_\1", line))


def text_of(lines: Lines, pes: int) -> tuple[str, list[int]]:
    """The text of a program, `program()`, and the numbers of its lines that are marked."""
    words = set(re.findall(r"\b\w+\b", " ".join(line for each in lines.values() for line in each)))
    words |= {NEEDS[name] for name in words if name in NEEDS}
    made = ["import numpy as np", "import shmem", "from shmem import nic", "", "", "def program():"]
    made += ["    me, n = shmem.my_pe(), shmem.n_pes()"]
    made += [f"    {how}" for name, how in BEFORE.items() if name in words]
    marked = []
    for pe, each in lines.items():
        made.append(f"    if me == {pe}:")
        for line in each:
            if line.lstrip().startswith("*"):
                marked.append(len(made) + 1)
                line = line.replace("*", "", 1)
            made.append(f"        {spelled(line)}")
    return "\n".join([*made, ""]), marked


# ---- two accesses to one word of PE 2, by PE 0 and PE 1 or by PE 2 itself ----

TARGET = "A word of another PE"
_REMOTE = {
    "get": "get(a, x, 2)", "put": "put(x, b, 2)", "AMO fetch": "atomic_fetch(x, 2)",
    "AMO set": "atomic_set(x, 1, 2)",
}  # fmt: skip
_ROWS = tuple(_REMOTE)
_COLUMNS = ("load", "store", *_ROWS)
_TABLE = {  # "ok", "race", or "strict" where only that says so: written out once more, from the contract
    "get": ("ok", "race", "ok", "race", "strict", "race"),
    "put": ("race", "race", "race", "race", "race", "race"),
    "AMO fetch": ("strict", "race", "strict", "race", "ok", "ok"),
    "AMO set": ("race", "race", "race", "race", "ok", "ok"),
}
_OWN = {"load": "int(x[0])", "store": "x[0] = 2"}


def _cells() -> None:
    for row, column in itertools.product(_ROWS, _COLUMNS):
        verdict = _TABLE[row][_COLUMNS.index(column)]
        own = column in _OWN
        other, second = (2, _OWN[column]) if own else (1, _REMOTE[column])
        meet = f" / {1 if own else 2}: barrier_all()"
        clean = f"0: {_REMOTE[row]}; barrier_all() / {other}: barrier_all(); {second}{meet}"
        racy = f"0: *{_REMOTE[row]} / {other}: *{second}"
        modes = {"race": ("lenient", "strict"), "strict": ("strict",), "ok": ()}[verdict]
        case(TARGET, f"{row} and {column}", racy, clean, "no synchronization between", modes=modes)


_cells()

for _one, _two in (
    ("g(x, 2)", "store"), ("iget(a, x, 2)", "store"), ("p(x, 1, 2)", "load"),
    ("iput(x, b, 2)", "load"), ("put_signal(x, b, 2, s, 1, SET)", "load"),
    ("atomic_add(x, 1, 2)", "store"), ("atomic_inc(x, 2)", "load"),
    ("atomic_compare_swap(x, 0, 1, 2)", "store"), ("signal_add(x, 1, 2)", "load"),
):  # fmt: skip
    case(
        TARGET, f"{_one.split('(')[0]} and {_two}", f"0: *{_one} / 2: *{_OWN[_two]}",
        f"0: {_one}; barrier_all() / 1: barrier_all() / 2: barrier_all(); {_OWN[_two]}",
        "no synchronization between PE 0 and PE 2",
    )  # fmt: skip

case(
    TARGET, "two puts that share one element", "0: *put(v[0:2], b4[:2], 2) / 1: *put(v[1:3], b4[:2], 2)",
    "0: put(v[0:2], b4[:2], 2) / 1: put(v[2:4], b4[:2], 2)", "no synchronization",
)  # fmt: skip
case(
    TARGET, "a store through ptr and the owner's load", "0: *ptr(x, 1)[0] = 3 / 1: *int(x[0])",
    "0: ptr(x, 1)[0] = 3; barrier_all() / 1: barrier_all(); int(x[0])", "no synchronization",
)  # fmt: skip

# ---- buffers of the own PE ----

ORIGIN = "A buffer of the own PE, before the first is complete"
_FIRST = {
    "put_nbi": "put_nbi(x, y, 1)", "put_signal_nbi": "put_signal_nbi(x, y, 1, s, 1, SET)",
    "get_nbi": "get_nbi(y, x, 1)", "AMO nbi": "atomic_fetch_add_nbi(y, x, 1, 1)",
}  # fmt: skip
_SECOND = {
    "load": "int(y[0])", "store": "y[0] = 2", "put_nbi from it": "put_nbi(z, y, 1)",
    "get_nbi into it": "get_nbi(y, z, 1)",
}  # fmt: skip
for _one, _two in itertools.product(_FIRST, _SECOND):
    _reads = _one.startswith("put") and _two in ("load", "put_nbi from it")
    case(
        ORIGIN, f"{_one}, then {_two}", f"0: *{_FIRST[_one]}; *{_SECOND[_two]}",
        f"0: {_FIRST[_one]}; quiet(); {_SECOND[_two]}", "no quiet between",
        modes=() if _reads else ("lenient", "strict"),
    )  # fmt: skip
case(
    ORIGIN, "a private source is changed", "0: *put_nbi(x, b, 1); b[0] = 2; *quiet()",
    "0: put_nbi(x, b, 1); quiet(); b[0] = 2; quiet()", "no quiet between",
)  # fmt: skip
case(
    ORIGIN, "a private result is written", "0: *get_nbi(a, x, 1); a[0] = 2; *quiet()",
    "0: get_nbi(a, x, 1); quiet(); a[0] = 2; quiet()", "no quiet between",
)  # fmt: skip
case(
    ORIGIN, "a private result is sent", "0: *get_nbi(a, x, 1); *put(y, a, 1)",
    "0: get_nbi(a, x, 1); quiet(); put(y, a, 1)", "no quiet between",
)  # fmt: skip
case(
    ORIGIN, "a blocking put has read its source", "0: *put_nbi(x, y, 1); *y[0] = 2",
    "0: put(x, y, 1); y[0] = 2", "no quiet between",
)  # fmt: skip
case(
    ORIGIN, "a blocking get has its result", "0: *get_nbi(y, x, 1); *int(y[0])", "0: get(y, x, 1); int(y[0])",
    "no quiet between",
)  # fmt: skip
case(
    ORIGIN, "a fence frees no source", "0: *put_nbi(x, y, 1); fence(); *y[0] = 2",
    "0: put_nbi(x, y, 1); quiet(); y[0] = 2", "fence does not free sources",
)  # fmt: skip
case(
    ORIGIN, "a fence brings no result", "0: *get_nbi(y, x, 1); fence(); *int(y[0])",
    "0: get_nbi(y, x, 1); quiet(); int(y[0])", "fence does not bring results",
)  # fmt: skip
case(
    ORIGIN, "flush_local frees sources, and brings no results", "0: *get_nbi(y, x, 1); flush_local(); *int(y[0])",
    "0: put_nbi(x, y, 1); flush_local(); y[0] = 2", "no quiet between",
)  # fmt: skip
case(
    ORIGIN, "the quiet of another context frees nothing", "0: *put_nbi(x, y, 1, ctx=c); quiet(); *y[0] = 2",
    "0: put_nbi(x, y, 1, ctx=c); quiet(c); y[0] = 2", "different context",
)  # fmt: skip
case(
    ORIGIN, "another PE's put into a source", "0: *put_nbi(x, y, 1) / 1: *put(y, b, 0)",
    "0: put_nbi(x, y, 1); barrier_all() / 1: barrier_all(); put(y, b, 0)", "no synchronization",
)  # fmt: skip
