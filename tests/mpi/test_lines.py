"""put_lines and poll_lines: every byte of every format against packing by hand, and what a reader accepts.

The oracle packs with `struct`, format by format, and knows nothing of layouts. Formats made up here are compared with
the plain Python statement (`shmem.framing`), which tests/test_framing.py judges.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import shmem
from shmem.framing import pack_lines, unpack_lines
from shmem.runtime import current
from shmem.views import address_of

from .data import DTYPES, Array, dtype_id, payload, peers, same

pytestmark = pytest.mark.mpi

U8 = np.dtype(np.uint8)
ROOM = 20480
SIZES = (0, 1, 3, 4, 5, 7, 8, 9, 64, 119, 120, 121, 479, 480, 481, 1000, 1920, 1921, 4079, 4080, 4081, 8161, 10_000)


@pytest.fixture
def memory() -> Iterator[Callable[..., Array]]:
    """Gives symmetric bytes, aligned to a page, that are zero, and frees them."""
    taken = []

    def take(nbytes: int = ROOM) -> Array:
        taken.append(shmem.zeros(nbytes + 4096, U8))
        start = -(address_of(taken[-1]) - current().heap.base) % 4096
        return taken[-1][start : start + nbytes]

    yield take
    shmem.barrier_all()
    for block in reversed(taken):
        shmem.free(block)


# -- formats by hand -------------------------------------------------------------------------------------


def chunks(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size].ljust(size, b"\0") for i in range(0, len(data), size)]


def tiles(data: bytes, flag: int) -> bytes:
    """The last tile ends behind its data, which are a multiple of 16."""
    out = b""
    for i in range(0, len(data), 4080):
        part = data[i : i + 4080]
        out += part + bytes(-len(part) % 16) + struct.pack("<I12x", flag)
    return out


BY_HAND: dict[str, Callable[[bytes, int], bytes]] = {
    "LL": lambda data, flag: b"".join(struct.pack("<4sI", part, flag) for part in chunks(data, 4)),
    "LL16": lambda data, flag: b"".join(struct.pack("<4sI4sI", p[:4], flag, p[4:], flag) for p in chunks(data, 8)),
    "LLA2A": lambda data, flag: b"".join(struct.pack("<4sI4sI", p[:4], flag, p[4:], flag) for p in chunks(data, 8)),
    "LL128": lambda data, flag: b"".join(struct.pack("<120sQ", part, flag) for part in chunks(data, 120)),
    "LL64": lambda data, flag: b"".join(struct.pack("<56sQ", part, flag) for part in chunks(data, 56)),
    "BLOCK512": lambda data, flag: b"".join(struct.pack("<480sI28x", part, flag) for part in chunks(data, 480)),
    "EAGER_TILE": tiles,
    "EAGER_TILE_FIXED": lambda data, flag: b"".join(struct.pack("<4080sI12x", p, flag) for p in chunks(data, 4080)),
}
LAYOUTS = {name: getattr(shmem, name) for name in BY_HAND}


@pytest.mark.core
@pytest.mark.parametrize("name", BY_HAND)
def test_every_format_at_every_size(name, memory):
    """From every PE to every PE; before each message the memory is full of something else, which stays around it."""
    n, me, layout = shmem.n_pes(), shmem.my_pe(), LAYOUTS[name]
    x = memory(n * ROOM).reshape(n, ROOM)
    for size in SIZES:
        x[...] = 0xA5
        shmem.barrier_all()
        for pe in peers():
            shmem.put_lines(x[me], payload(U8, size, me, pe), pe, layout, 1000 + me)
        shmem.barrier_all()
        for sender in range(n):
            wanted = payload(U8, size, sender, me)
            lines = BY_HAND[name](wanted.tobytes(), 1000 + sender)
            assert same(shmem.poll_lines(x[sender], layout, 1000 + sender, size), wanted)
            if size:
                assert layout.wire_bytes(size) == len(lines) == layout.span(size)
                assert x[sender].tobytes() == lines + b"\xa5" * (ROOM - len(lines))
                assert shmem.test_lines(x[sender], layout, 1001 + sender, size) is None
        shmem.barrier_all()


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_any_dtype_and_shape(dtype, memory):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = memory(n * 1024).reshape(n, 1024)
    strided = payload(dtype, 12, me)[::2]
    for flag, layout in enumerate((shmem.LL, shmem.LL16, shmem.LL128), 1):
        shmem.put_lines(x[me], payload(dtype, 6, me).reshape(2, 3), (me + 1) % n, layout, flag)
        shmem.barrier_all()
        left = (me - 1) % n
        got = shmem.poll_lines(x[left], layout, flag, (2, 3), dtype)
        assert same(got, payload(dtype, 6, left).reshape(2, 3))
        shmem.barrier_all()
        shmem.put_lines(x[me], strided, me, layout, flag + 10)
        out = np.empty(6, dtype)
        assert shmem.poll_lines(x[me], layout, flag + 10, out=out) is out
        assert same(out, strided.copy())
        shmem.barrier_all()


def test_a_payload_may_lie_in_its_own_target(memory):
    x = memory(1024)
    x[:100] = payload(U8, 100, 1)
    shmem.put_lines(x, x[:100], shmem.my_pe(), shmem.LL, 9)
    assert same(shmem.poll_lines(x, shmem.LL, 9, 100), payload(U8, 100, 1))


def test_lines_beyond_the_payload_carry_the_flag_and_zeros(memory):
    me, x = shmem.my_pe(), memory(1024)
    for size in (0, 3, 8, 20):
        x[...] = 0xFF
        shmem.put_lines(x, payload(U8, size, size), me, shmem.LL, 7, lines=16)
        assert x.tobytes() == BY_HAND["LL"](payload(U8, size, size).tobytes().ljust(64, b"\0"), 7).ljust(1024, b"\xff")
        shmem.put_lines(x, payload(U8, size, size), me, shmem.LL128, 8, lines=3)
        lines = BY_HAND["LL128"](payload(U8, size, size).tobytes().ljust(360, b"\0"), 8)
        assert x.tobytes() == lines.ljust(1024, b"\xff")


def test_parts_of_an_element_lie_apart(memory):
    """The slots of LLA2A: part u of element e at slot e + u * pitch, whatever lies between stays."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, slots = memory(16 * 40), 8
    layout = shmem.LLA2A.apart(16 * slots)
    x[...] = 0x11
    shmem.barrier_all()
    elements = payload(np.dtype("S20"), 5, me)
    for e in range(5):
        shmem.put_lines(x[16 * e :], elements[e : e + 1], (me + 1) % n, layout, 2)
    shmem.barrier_all()
    for e in range(5):
        shmem.poll_lines(x[16 * e :], layout, 2, 1, "S20")
    wanted = bytearray(b"\x11" * (16 * 40))
    for e, element in enumerate(payload(np.dtype("S20"), 5, (me - 1) % n)):
        for u, part in enumerate(chunks(element.tobytes().ljust(20, b"\0")[:20], 8)):
            at = 16 * (e + u * slots)
            wanted[at : at + 16] = BY_HAND["LL16"](part, 2)
    assert x.tobytes() == bytes(wanted)


# -- layouts made up -------------------------------------------------------------------------------------

STATUS = shmem.Layout("status slot", 32, ((4, 28),), (0,), align=32)
LAP = shmem.Layout("7 + 1", 8, ((0, 7),), (7,), 1, order=shmem.Order.ANY, reader=shmem.Reader.SAME_LOAD)


def any_layout(rng: np.random.Generator) -> shmem.Layout:
    """Cells that are full, empty, or hold a flag with or without some payload beside it, in any order."""
    fb = int(rng.choice([1, 2, 4, 8]))
    pieces, flags, cells = [], [], int(rng.integers(1, 8))
    kinds = rng.choice(["full", "empty", "flag", "part"], cells).tolist()
    kinds[int(rng.integers(cells))] = "flag"
    for at, kind in zip(range(0, 8 * cells, 8), kinds, strict=True):
        low, high = at, at + 8
        if kind == "flag":
            flag = at + fb * int(rng.integers(8 // fb))
            flags.append(flag)
            low, high = (at, flag) if rng.integers(2) else (flag + fb, at + 8)
        elif kind == "part":
            low, high = at + int(rng.integers(4)), at + int(rng.integers(4, 8))
        if kind != "empty" and low < high:
            pieces.append((low, high - low))
    if not pieces:
        return any_layout(rng)
    reader = shmem.Reader(int(rng.integers(1, 3)))
    pitch = 8 * cells + 8 * int(rng.integers(3))
    return shmem.Layout("any", 8 * cells, tuple(pieces), tuple(flags), fb, reader=reader, group=3, pitch=pitch)


@pytest.mark.core
def test_made_up_layouts_equal_the_plain_statement(memory):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, left = memory(), (me - 1) % n
    rng = np.random.default_rng(4)  # the same layouts on all PEs
    for layout in (STATUS, LAP, *(any_layout(rng) for _ in range(60))):
        size = int(rng.integers(1, 6 * layout.data))
        flag = int(rng.integers(1, 1 << 8 * layout.flag_bytes - 1))
        x[...] = 0xC3
        shmem.barrier_all()
        shmem.put_lines(x, payload(U8, size, me), (me + 1) % n, layout, flag)
        shmem.barrier_all()
        got = shmem.poll_lines(x, layout, flag, size)
        wanted = np.full(ROOM, 0xC3, U8)
        pack_lines(wanted, payload(U8, size, left), layout, flag)
        assert same(x, wanted), layout
        assert same(got, payload(U8, size, left)), layout
        again = unpack_lines(x, layout, flag, size)
        assert again is not None
        assert same(again, got), layout
        shmem.barrier_all()


# -- what a reader accepts -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_HAND)
def test_one_stale_line_is_enough_to_wait(name, memory):
    """All lines have come but one, and of that one flags: the message isn't there, and the error names the line."""
    layout, me, x = LAYOUTS[name], shmem.my_pe(), memory()
    size = 4 * layout.data
    for line in range(4):
        for flag in layout.flags:
            shmem.put_lines(x, payload(U8, size, 5), me, layout, 77)
            x[line * layout.line + flag] += 1
            assert shmem.test_lines(x, layout, 77, size) is None
            with pytest.raises(shmem.ShmemTimeout, match=f"PE {me} waited .* lines of {name} with flag 77") as caught:
                shmem.poll_lines(x, layout, 77, size, timeout=0)
            assert caught.value.seen == f"flag 78 in line {line} of 4"
            if line:
                assert same(
                    shmem.poll_lines(x, layout, 77, line * layout.data), payload(U8, size, 5)[: size * line // 4]
                )


WORDS = pytest.mark.needs("words", "a reader of such lines tells by each word of 8 bytes whether it has come")
ORDER = pytest.mark.needs("tso", "a reader of such lines relies on the order in which their words come")
READ_EARLY = [pytest.param(name, marks=WORDS if name in ("LL", "LL16", "LLA2A") else ORDER) for name in BY_HAND]


@pytest.mark.core
@pytest.mark.parametrize("name", READ_EARLY)
def test_no_message_of_a_stream_is_torn(name, memory):
    """A ring of two slots with credits, as fast as it goes; every message differs from the two before in all bytes."""
    n, me, layout = shmem.n_pes(), shmem.my_pe(), LAYOUTS[name]
    right, left = (me + 1) % n, (me - 1) % n
    x, credit = memory(2 * ROOM).reshape(2, ROOM), memory(8).view(np.uint64)
    sizes = np.random.default_rng(6).integers(1, layout.capacity(ROOM) // 2, 120).tolist()
    for step, size in enumerate(sizes):
        shmem.wait_until(credit, ">=", max(0, step - 1))
        shmem.put_lines(x[step % 2], np.full(size, (step + me) % 251, U8), right, layout, step + 1)
        got = shmem.poll_lines(x[step % 2], layout, step + 1, size)
        assert (got == (step + left) % 251).all(), (step, size)
        shmem.atomic_inc(credit, left)
    shmem.barrier_all()


# -- records ---------------------------------------------------------------------------------------------


@pytest.mark.core
def test_records_in_a_batch(memory):
    """Sends to all, receives from all, and hands what came to the next record; runs again with new payloads."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x = memory(n * ROOM).reshape(n, ROOM)
    source, got, rows = np.zeros(3000, U8), np.zeros((n, 3000), U8), np.zeros((n, 3000), U8)
    batch = shmem.Batch()
    for pe in peers():
        batch.put_lines(x[me], source, pe, shmem.LL128, 5)
    batch.barrier()
    for pe in range(n):
        batch.poll_lines(x[pe], shmem.LL128, 5, got[pe])
    batch.copy_rows(rows, None, 3000, got, None, 3000, 3000, n)
    batch.barrier()
    for round_ in range(3):
        source[...] = payload(U8, 3000, me, round_)
        batch.run()
        assert same(rows, np.stack([payload(U8, 3000, pe, round_) for pe in range(n)]))
        x[...] = 0
        shmem.barrier_all()


def test_more_lines_in_a_batch(memory):
    x = memory(256)
    batch = shmem.Batch()
    batch.put_lines(x, payload(U8, 5, 5), shmem.my_pe(), shmem.LL, 3, lines=4)
    batch.run()
    assert x.tobytes() == BY_HAND["LL"](payload(U8, 5, 5).tobytes().ljust(16, b"\0"), 3).ljust(256, b"\0")


def test_a_deadline_in_a_batch_names_the_line(memory):
    x, me = memory(), shmem.my_pe()
    batch = shmem.Batch()
    batch.put_lines(x, payload(U8, 200, 1), me, shmem.LL128, 6)
    batch.poll_lines(x, shmem.LL128, 6, np.empty(300, U8))
    with pytest.raises(shmem.ShmemTimeout) as caught:
        batch.run(timeout=0.05)
    offset = address_of(x) - current().heap.base
    assert caught.value.awaited == f"300 bytes as 3 lines of LL128 with flag 6 at heap offset {offset:#x}"
    assert caught.value.seen == "flag 0 in line 2 of 3"
    shmem.put_lines(x, payload(U8, 300, 1), me, shmem.LL128, 6)
    batch.run()


@WORDS
def test_a_stream_waits_for_lines_while_the_program_goes_on(memory):
    """The program sends what its own stream waits for, so a stream that held it up would never end."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, got = memory(), np.zeros(3000, U8)
    with shmem.Stream() as stream:
        batch = shmem.Batch()
        batch.poll_lines(x, shmem.LL, 1, got)
        event = batch.launch(stream)
        assert not event.done()
        shmem.barrier_all()
        shmem.put_lines(x, payload(U8, 3000, me), (me + 1) % n, shmem.LL, 1)
        event.wait()
        assert same(got, payload(U8, 3000, (me - 1) % n))
        late = shmem.Batch()
        late.poll_lines(x, shmem.LL, 2, got)
        with pytest.raises(shmem.ShmemTimeout) as caught:
            late.launch(stream, timeout=0.05).wait()
        assert caught.value.seen == "flag 1 in line 0 of 750"


def test_lines_count_until_quiet(memory):
    fabric, x = current().fabric, memory()
    shmem.quiet()
    shmem.put_lines(x, P, shmem.my_pe(), shmem.LL, 1)
    shmem.poll_lines(x, shmem.LL, 1, 64)
    assert fabric.pending(0) == 1
    shmem.quiet()
    assert fabric.pending(0) == 0


# -- wrong arguments -------------------------------------------------------------------------------------

P = np.arange(64, dtype=U8)
FIXED = P.view()
FIXED.flags.writeable = False
WRONG = {
    "private target": (shmem.NotSymmetric, lambda x, n: shmem.put_lines(P, P[:8], 0, shmem.LL, 1)),
    "private view": (shmem.NotSymmetric, lambda x, n: shmem.poll_lines(P, shmem.LL, 1, 8)),
    "PE n": (shmem.InvalidPE, lambda x, n: shmem.put_lines(x, P, n, shmem.LL, 1)),
    "context": (shmem.ContextError, lambda x, n: shmem.put_lines(x, P, 0, shmem.LL, 1, ctx=3)),
    "target too small": (shmem.SizeMismatch, lambda x, n: shmem.put_lines(x[:127], P, 0, shmem.LL, 1)),
    "view too small": (shmem.SizeMismatch, lambda x, n: shmem.poll_lines(x[:127], shmem.LL, 1, 64)),
    "view too small for out": (shmem.SizeMismatch, lambda x, n: shmem.poll_lines(x[:127], shmem.LL, 1, out=P.copy())),
    "target strided": (shmem.LayoutError, lambda x, n: shmem.put_lines(x[::2], P, 0, shmem.LL, 1)),
    "view strided": (shmem.LayoutError, lambda x, n: shmem.poll_lines(x[::2], shmem.LL, 1, 8)),
    "out strided": (shmem.LayoutError, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, out=np.zeros(8, U8)[::2])),
    "out read-only": (shmem.ArgumentError, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, out=FIXED)),
    "out in view": (shmem.ArgumentError, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, out=x[:8])),
    "target not aligned": (shmem.LayoutError, lambda x, n: shmem.put_lines(x[4:], P, 0, shmem.LL, 1)),
    "view not aligned": (shmem.LayoutError, lambda x, n: shmem.poll_lines(x[8:], shmem.LL16, 1, 8)),
    "128 not aligned": (shmem.LayoutError, lambda x, n: shmem.put_lines(x[64:], P, 0, shmem.LL128, 1)),
    "flag too large": (OverflowError, lambda x, n: shmem.put_lines(x, P, 0, shmem.LL, 1 << 32)),
    "flag negative": (OverflowError, lambda x, n: shmem.poll_lines(x, shmem.LL128, -1, 8)),
    "flag no integer": (shmem.ArgumentError, lambda x, n: shmem.put_lines(x, P, 0, shmem.LL, 1.5)),
    "no layout": (shmem.ArgumentError, lambda x, n: shmem.put_lines(x, P, 0, 128, 1)),
    "lists": (shmem.DtypeError, lambda x, n: shmem.put_lines(x, [1, 2], 0, shmem.LL, 1)),
    "objects": (shmem.DtypeError, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, 1, object)),
    "shape": (shmem.ArgumentError, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, -1)),
    "huge shape": (shmem.SizeMismatch, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, 1 << 60)),
    "fewer lines": (shmem.SizeMismatch, lambda x, n: shmem.put_lines(x, P, 0, shmem.LL, 1, lines=15)),
    "lines out of room": (shmem.SizeMismatch, lambda x, n: shmem.put_lines(x, P, 0, shmem.LL, 1, lines=65)),
    "lines after a short one": (
        shmem.ArgumentError,
        lambda x, n: shmem.put_lines(x, P, 0, shmem.EAGER_TILE, 1, lines=2),
    ),
    "timeout": (shmem.ArgumentError, lambda x, n: shmem.poll_lines(x, shmem.LL, 1, 8, timeout=-1)),
    "batch: strided payload": (shmem.LayoutError, lambda x, n: shmem.Batch().put_lines(x, P[::2], 0, shmem.LL, 1)),
    "batch: payload in target": (shmem.ArgumentError, lambda x, n: shmem.Batch().put_lines(x, x[:8], 0, shmem.LL, 1)),
    "batch: target too small": (shmem.SizeMismatch, lambda x, n: shmem.Batch().put_lines(x[:8], P, 0, shmem.LL, 1)),
    "batch: view": (shmem.NotSymmetric, lambda x, n: shmem.Batch().poll_lines(P, shmem.LL, 1, P.copy())),
    "batch: out": (shmem.ArgumentError, lambda x, n: shmem.Batch().poll_lines(x, shmem.LL, 1, FIXED)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_store_nothing(case, memory):
    error, call = WRONG[case]
    x = memory(512)
    x[...] = 7
    shmem.barrier_all()
    with pytest.raises(error):
        call(x, shmem.n_pes())
    shmem.barrier_all()
    assert (x == 7).all()


def test_freed_memory_is_refused():
    x = shmem.zeros(64, U8)
    shmem.free(x)
    with pytest.raises(shmem.FreedBlock):
        shmem.put_lines(x, P[:8], 0, shmem.LL, 1)
    with pytest.raises(shmem.FreedBlock):
        shmem.poll_lines(x, shmem.LL, 1, 8)
