"""Which bytes of a tracked array an access loads and stores, in which steps; and that no others change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shmem.tracked import unseen
from shmem.views import address_of
from tests.tracked.model import VALUES, pair
from tests.tracked.twins import run

# program on int64 [8] or float64 [2, 3] or records: the steps
STEPS = [
    ("ints", "x[2]", [("load", [(16, 8)])]),
    ("ints", "x[-1] = 3", [("store", [(56, 8)])]),
    ("ints", "x[2:5].copy()", [("load", [(16, 24)])]),
    ("ints", "x[5:2:-1].copy()", [("load", [(24, 24)])]),
    ("ints", "x[::3] = 1", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "x[[1, 2, 5, 1]]", [("load", [(8, 16), (40, 8)])]),
    ("ints", "x[[5, 1, 2]] = [7, 8, 9]", [("store", [(8, 16), (40, 8)])]),
    ("ints", "x[m]", [("load", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "x[x > 4]", [("load", [(0, 64)]), ("load", [(0, 8), (48, 16)])]),
    ("ints", "p[x]; p[x[2:4]] = 1", [("load", [(0, 64)]), ("load", [(16, 16)])]),
    ("ints", "x[1:3].reshape(1, 2)[0, 1]", [("load", [(16, 8)])]),
    ("ints", "x += 1", [("load", [(0, 64)]), ("store", [(0, 64)])]),
    ("ints", "x[2:5] *= 3", [("load", [(16, 24)]), ("store", [(16, 24)])]),
    ("ints", "x[3] += 1", [("load", [(24, 8)]), ("store", [(24, 8)])]),
    ("ints", "x[m] += 1", [("load", [(0, 8), (24, 8), (48, 8)]), ("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "x[1:3] = x[1:3]", [("load", [(8, 16)]), ("store", [(8, 16)])]),
    ("ints", "x += 1; x[...] = x[...]", [(what, [(0, 64)]) for what in ("load", "store", "load", "store")]),
    ("ints", "x += 1; x.sum(); x[...] = x", [(how, [(0, 64)]) for how in ("load", "store", "load", "load", "store")]),
    ("ints", "x.flat[x[:2]] = 1", [("load", [(0, 16)]), ("store", [(24, 8), (40, 8)])]),
    ("ints", "x[:] = x[::-1]", [("load", [(0, 64)]), ("store", [(0, 64)])]),
    ("ints", "for v in x[:3]: pass", [("load", [(0, 8)]), ("load", [(8, 8)]), ("load", [(16, 8)])]),
    ("ints", "for v in x[:4].reshape(2, 2).flat: pass", [("load", [(at, 8)]) for at in (0, 8, 16, 24)]),
    ("ints", "x.item(3)", [("load", [(24, 8)])]),
    ("ints", "x.flat[2:4]", [("load", [(16, 16)])]),
    ("ints", "x.flat[2:4] = 3", [("store", [(16, 16)])]),
    ("ints", "np.add(p, 1, out=x)", [("store", [(0, 64)])]),
    ("ints", "np.add(p, 1, out=x, where=m)", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "np.add(p, 1, out=z, where=x > 3)", [("load", [(0, 64)])]),
    ("ints", "np.add.at(x, [2, 2, 3], 1)", [("load", [(16, 16)]), ("store", [(16, 16)])]),
    ("ints", "np.copyto(x, 1, where=m)", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "np.put(x, [1, 2], 1)", [("store", [(8, 16)])]),
    ("ints", "np.place(x, m, 1)", [("store", [(0, 8), (24, 8), (48, 8)])]),
    ("ints", "np.put(x, [1], [])", []),
    ("ints", "np.concatenate([x[:2], x[4:5]])", [("load", [(0, 16)]), ("load", [(32, 8)])]),
    ("ints", "x.sort()", [("load", [(0, 64)]), ("store", [(0, 64)])]),
    ("ints", "x.fill(3)", [("store", [(0, 64)])]),
    ("ints", "x.setfield(1, 'u1', 7)", [("store", [(at, 1) for at in range(7, 64, 8)])]),
    ("ints", "np.broadcast_to(x[2:3], (4, 1)).copy()", [("load", [(16, 8)])]),
    ("ints", "np.lib.stride_tricks.sliding_window_view(x[:3], 2).copy()", [("load", [(0, 16), (8, 16)])]),
    ("ints", "x[3:3].copy(); x[[]]; x[3:3] = 1; x[[]] = 1; x[m & False] = 1; x[:0] += 1", []),
    ("ints", "z[:] = x", [("load", [(0, 64)])]),
    ("ints", "x[...].view('i4')[1::2] = 0", [("store", [(at, 4) for at in range(4, 64, 8)])]),
    ("floats", "x.T.copy()", [("load", [(0, 48)])]),
    ("floats", "x[:, 1].sum()", [("load", [(8, 8), (32, 8)])]),
    ("floats", "x[:, 1:] = 3", [("store", [(8, 16), (32, 16)])]),
    ("floats", "x[::-1, ::-1].copy()", [("load", [(0, 48)])]),
    ("floats", "x.T[::-1, 1] = 1", [("store", [(24, 24)])]),
    ("floats", "x.T[[0, 1]]", [("load", [(0, 16), (24, 16)])]),
    ("floats", "x[[0, 1], [2, 0]]", [("load", [(16, 16)])]),
    ("floats", "x[1].sum()", [("load", [(24, 24)])]),
    ("floats", "np.fill_diagonal(x, 1)", [("store", [(0, 8), (32, 8)])]),
    ("floats", "x[0] += x[1]", [("load", [(0, 24)]), ("load", [(24, 24)]), ("store", [(0, 24)])]),
    ("complexes", "x.imag += 1", [(what, [(8, 8), (24, 8), (40, 8)]) for what in ("load", "store")]),
    ("records", "x['a'] += 1", [(what, [(0, 4), (24, 4), (48, 4), (72, 4)]) for what in ("load", "store")]),
    ("records", "x[1]", [("load", [(24, 4), (32, 14)])]),
    ("records", "x[2:] = (1, 2, 3)", [("store", [(48, 4), (56, 14), (72, 4), (80, 14)])]),
    ("records", "x[['b', 'c']][1:2].copy()", [("load", [(32, 14)])]),
    ("records", "x[['a']][0]", [("load", [(0, 4)])]),
    ("records", "x['c'][1, 1:] = 5", [("store", [(42, 4)])]),
    ("empty", "x[...] = 1; x.copy(); x += 1; x.fill(2); x.tolist()", []),
    ("scalar", "x[()]", [("load", [(0, 8)])]),
    ("scalar", "x += 1", [("load", [(0, 8)]), ("store", [(0, 8)])]),
]


@pytest.mark.parametrize(("kind", "program", "steps"), [pytest.param(*row, id=": ".join(row[:2])) for row in STEPS])
def test_exactly_these_bytes_in_these_steps(kind: str, program: str, steps: Any, tmp_path: Path) -> None:
    x, model, _ = pair(VALUES[kind])
    run(program, x, tmp_path)
    assert model.steps == steps


@pytest.mark.parametrize(
    "program",
    ["np.add(x, 1, out=x)", "x += 1", "np.put(x, 0, p[0])", "np.copyto(x, p)", "x.clip(1, 2, x)", "np.add.at(x, 0, 1)",
     "np.place(x, m, p)", "np.concatenate([x[:4], x[4:]], out=x)", "x.sort()", "x[0] = 1", "x[m] = 1", "x.fill(1)"],
)  # fmt: skip
def test_a_read_only_array_is_refused_before_anything_is_loaded(program: str, tmp_path: Path) -> None:
    x, model, _ = pair(VALUES["ints"])
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        run(program, x, tmp_path)
    assert not model.steps


def test_padding_is_never_stored() -> None:
    x, model, _ = pair(VALUES["records"])
    marked = bytearray(b"\xee" * len(model.bytes))
    model.bytes[:] = marked
    x[...] = VALUES["records"]
    x[1:] = x[0]
    x[[2, 0]] = x[[0, 2]]
    x.sort(order="a")
    padding = [at + 24 * i for i in range(4) for at in (4, 5, 6, 7, 22, 23)]
    assert [model.bytes[at] for at in padding] == [marked[at] for at in padding]


def test_unseen_tells_of_a_write_past_the_watch() -> None:
    x, model, _ = pair(VALUES["floats"])
    x[...] = 1
    address = address_of(model.buffer)
    assert unseen(x)
    assert unseen([(address, 48)])
    model.buffer[9] ^= 1
    assert not unseen(x)
    assert not unseen(model.buffer)
    assert not unseen(x[0, 1:2])
    assert not unseen([(address, 8), (address + 8, 8)])
    assert unseen(x[1])
    assert unseen(x[:, ::2])
    assert unseen([(address, 9), (address + 10, 38)])
    assert unseen([])
