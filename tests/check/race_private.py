"""Programs that touch private buffers of pending operations, by lines that tell of it: see `race_programs`.

Each is what PE 0 does; `*` marks the lines that race with the first. Nothing calls shmem behind them but a quiet, so
that without the instrumented import a store is found at that line, and a load not at all.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from .race_programs import Lines

FIRST = {  # in b are the bytes that are read, or written
    "put_nbi": "put_nbi(x, b, 1)", "put_signal_nbi": "put_signal_nbi(x, b, 1, s, 1, SET)",
    "get_nbi": "get_nbi(b, x, 1)", "AMO nbi": "atomic_fetch_add_nbi(b, x, 1, 1)",
}  # fmt: skip
SECOND = {
    "load": "int(b[0])", "store": "b[0] = 2", "put_nbi from it": "put_nbi(z, b, 1)",
    "get_nbi into it": "get_nbi(b, z, 1)",
}  # fmt: skip
TABLE = {  # which of them race, from the contract
    "put_nbi": ("store", "get_nbi into it"), "put_signal_nbi": ("store", "get_nbi into it"),
    "get_nbi": tuple(SECOND), "AMO nbi": tuple(SECOND),
}  # fmt: skip


class Private(NamedTuple):
    """A program with a race, where `race` is true; the same with a quiet has none."""

    name: str
    first: str
    second: list[str]  # with marks
    race: bool
    call: bool = False  # the second is one of shmem, that is judged without instrumentation
    before: tuple[str, ...] = ()
    reads: bool = False  # so that nothing changes by it

    def lines(self, quiet: bool) -> Lines:
        """The program. quiet: between the two."""
        made = [*self.before, f"*{self.first}", *(["quiet()"] if quiet else []), *self.second, "quiet()"]
        return {0: made if self.race and not quiet else [line.removeprefix("*") for line in made]}


def _last(text: str) -> list[str]:
    """Lines, the last of them marked."""
    *before, last = text.split("; ")
    return [*before, f"*{last}"]


def _together(first: str, *programs: str, race: bool) -> Private:
    """All the lines, one after the other."""
    lines = [line for text in programs for line in _last(text.replace(" | ", "; "))]
    return Private(f"{first}, then {len(programs)} programs", FIRST[first], lines, race, reads=True)


def _table() -> list[Private]:
    return [
        Private(
            f"{one}, then {other}", FIRST[one], _last(SECOND[other]), other in TABLE[one], "_nbi" in other, (),
            other == "load",
        )
        for one, other in itertools.product(FIRST, SECOND)
    ]  # fmt: skip


def _made(first: str, *programs: str, race: bool) -> list[Private]:
    """Lines before the first are in front of a bar."""
    made = []
    for text in programs:
        before, _, second = text.rpartition(" | ")
        made.append(Private(
            f"{first}, then {text}", FIRST[first], _last(second), race, False,
            tuple(before.split("; ")) if before else (),
        ))  # fmt: skip
    return made


STORES = (  # the last of these lines stores to b
    "b += 1", "b[0] += 1", "b[:] = 3", "b[...] = 3", "b[[0]] = 3", "b[b < 9] = 3", "c = b[:] | c[0] = 2", "b.fill(2)",
    "c = b.view(np.uint8) | c[5] = 7", "b.sort()", "np.add(b, 1, out=b)", "np.copyto(b, 5)", "b[0], q = 1, 2",
    "o = np.ones; o.b = b | o.b += 1", "o = [b] | o[0] += 1", "o = [b] | o[0][0] += 1", "b *= 2",
    "c = b[::-1] | c[-1:] //= 2", "q = slice(0, 1) | b[q] = np.ones(1, np.uint64)", "b[int(0)] = 4", "b <<= 1",
)  # fmt: skip
LOADS = (  # the last of these lines reads b
    "b[0]", "b[-1]", "q = b[0] + 1", "b + 1", "1 - b", "b == 1", "q = not (b < 3).all()", "-b", "~b", "b.sum()",
    "b.copy()", "np.sum(b)", "np.add(b, 1)", "np.maximum.outer(b, 1) if b.max() else 0", "sum(b)", "list(b)",
    "str(b)", "b.tolist()", "c = b[:] | c[0]", "c = b.view(np.uint8) | c[7]",
    "c = b.view(np.uint8); q = np.zeros(256) | q[c]", "z[:] = b", "z[0] = b[0]", "q = np.zeros(1) | q[:] = b",
    "q = np.zeros(1) | q += b", "f'{b[0]}'", "[b[i] for i in range(1)]", "(lambda: b[0])()", "b[b < 9]", "b[[0]]",
    "np.concatenate([b, b])", "max(1, b[0])", "b.item()", "q = {'b': b} | q['b'][0]", "b.astype(int)",
    "assert b[0] != 99", "for q in b: pass", "q = [0] | q[0] += b[0]", "abs(b[0])", "b.dot(np.ones(1))", "b @ b",
    "(b := b)[0]", "q = 0.0 | q += b", "c = b.reshape(()) | int(c)", "next(b[i] for i in [0])", "print(b)",
    "np.array(b)", "q = 1 if b == 1 else 2",
    "q = b[0] + z[0] * 0",
)  # fmt: skip
NEITHER = (  # what touches no byte of b, or tells too little to say that it does
    "c = b[:]", "c = b[0:1].reshape(1, 1)", "c = [b]", "q = [] | q.append(b)", "len(b)", "b.shape", "b.T",
    "np.shape(b)", "c = np.asarray(b)", "c = b.view(np.uint8)", "isinstance(b, list)", "id(b)", "q = {} | q['b'] = b",
    "c, q = b, b", "q = lambda: b[0]", "def q(v): return v; c = q(b)", "c = b[1:]", "c = b if b is not None else 0",
    "c = b[None]", "q = np.zeros(1, object) | q[0] = b", "c = memoryview(b)", "c = iter(b)", "b.flags.writeable",
    "c = np.ones_like(b)", "c = np.broadcast_to(b, (2, 1))",
    "q = type('Q', (), {'__getitem__': lambda s, i: i})() | q[b]", "c = zip(b, b)",
    "c = b.astype(b.dtype, copy=False)", "c = np.array(b, copy=None)",
    "import threading; t = threading.Thread(target=lambda: b[0]); t.start(); t.join()", "del b",
)  # fmt: skip
APART = (  # of other bytes than those that are pending
    "w4 = np.ones(4, np.uint64); b = w4[1:2] | w4[0] = 5; w4[2:] += 1; w4[[0, 3]] = 7; w4[w4[0]:] = 2",
    "w4 = np.ones(4, np.uint64); b = w4[1:2] | w4[0]; w4[2:].sum(); w4[[0, 2]]; w4[::2] + 1; w4[::2].sum()",
    "w4 = np.ones((4, 4), np.uint64); b = w4[1, 1:2] | w4[:, 0] += 1; w4[0, 1]; w4[1, 2]; w4[2] *= 2; w4[1, 2:] = 1",
)  # fmt: skip
LATE = (  # what is evaluated first comes first
    "q = lambda: shmem.quiet() or 1; b[0] += q()", "q = lambda: shmem.quiet() or 1; b[0] = q()",
    "q = lambda: shmem.quiet() or 1; np.multiply(b, q(), out=b)", "q = lambda: shmem.quiet() or 0; b[q()] = 3",
    "q = lambda: shmem.quiet() or 1; b += q()", "o = np.ones; o.b = b; q = lambda: shmem.quiet() or 1; o.b += q()",
    "q = lambda: shmem.quiet() or 1; np.copyto(b, q())",
)  # fmt: skip
LATE_LOADS = (
    "q = lambda: shmem.quiet() or 0; b[q()]", "q = lambda: shmem.quiet() or 0; b + q()",
    "q = lambda: shmem.quiet() or 0; max(b, key=q() or None)", "q = lambda: shmem.quiet() or 0; q() == b",
    "q = lambda: shmem.quiet(); print(b, q())",
)  # fmt: skip
CASES = [
    *_table(),
    *_made("put_nbi", *STORES, race=True),
    *_made("get_nbi", *STORES[:6], race=True),
    Private(
        "a source of another context",
        "put_nbi(x, b, 1, ctx=c)",
        ["*get_nbi(b, z, 1)", "quiet()", "quiet(c)"],
        True,
        True,
    ),
    _together("get_nbi", *LOADS, race=True),
    _together("put_nbi", *LOADS, race=False),
    _together("put_nbi", *NEITHER, race=False),
    _together("get_nbi", *NEITHER, race=False),
    *_made("get_nbi", *APART, race=False),
    *_made("put_nbi", APART[0], *LATE, race=False),
    *_made("get_nbi", *LATE_LOADS, race=False),
]
