"""Messages whose data carry their flags: one call that stores them, one that waits for them, in any `Layout`.

Nothing else tells the receiver that a line has come, so no fence stands between payload and flag, and no wake-up
follows: a reader spins briefly, then naps. What makes a line safe to overwrite (credits, halves, rounds) is the
protocol's. `framing.py` says in plain Python what these do; `Batch` has both as records.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .arrays import Shape, sides_of
from .errors import ArgumentError, LayoutError, SizeMismatch
from .fabric.interface import Status
from .framing import as_bytes, missing_flag
from .layout import Layout
from .ordering import check_context
from .plain import dtype_of
from .records import Op, Records, record
from .rma import gathered, reach
from .runtime import PE, current
from .views import Array, address_of, blocks, check_array, check_target, symmetric
from .waiting import until


def contiguous(array: object, name: str, me: int) -> Array:
    """`array` if it is C-contiguous; raises LayoutError, DtypeError."""
    checked = check_array(array, name, me)
    if not checked.flags.c_contiguous:
        raise LayoutError(f"{name} must be C-contiguous for lines", pe=me)
    return checked


def put_record(
    pe: PE, to: Array, offset: int, payload: Array, there: int, layout: object, flag: object, lines: object
) -> Records:
    """The PUT_LINES record of a contiguous payload for a target at a heap offset; raises as `put_lines`."""
    known = _layout(layout, pe)
    needed = known.lines(payload.nbytes)
    count = needed if lines is None else lines
    if not isinstance(count, (int, np.integer)) or count < needed:
        raise SizeMismatch(f"{lines!r} lines for a payload that takes {needed} of {known.name}", pe=pe.me)
    if count > needed and known.short:
        raise ArgumentError(f"{known.name} ends with a short line: no lines can follow", pe=pe.me)
    _check_place(pe, to, offset, known.span(payload.nbytes, int(count)), known, "target")
    return record(
        Op.PUT_LINES, pe=there, dst=offset, src=address_of(payload), n=payload.nbytes, value=known.check_flag(flag),
        cond=int(count), aux=known.address,
    )  # fmt: skip


def poll_record(pe: PE, view: Array, offset: int, out: Array, layout: object, flag: object) -> Records:
    """The POLL_LINES record that fills a contiguous `out` from a view at a heap offset; raises as `poll_lines`."""
    known = _layout(layout, pe)
    _check_place(pe, view, offset, known.span(out.nbytes), known, "view")
    if np.may_share_memory(view, out):
        raise ArgumentError("out overlaps the lines that it is filled from", pe=pe.me)
    return record(
        Op.POLL_LINES, pe=pe.me, dst=address_of(out), src=offset, n=out.nbytes, value=known.check_flag(flag),
        aux=known.address,
    )  # fmt: skip


def awaited_lines(offset: int, nbytes: int, layout: Layout, flag: object) -> str:
    """What a wait for lines says it waits for."""
    lines = f"{layout.lines(nbytes)} lines of {layout.name} with flag {flag}"
    return f"{nbytes} bytes as {lines} at heap offset {offset:#x}"


def seen_lines(view: Array, nbytes: int, layout: Layout, flag: object) -> str:
    """The first flag that is not there yet, and what stands in its place."""
    return missing_flag(as_bytes(view), layout, layout.check_flag(flag), nbytes)


def _layout(layout: object, pe: PE) -> Layout:
    if not isinstance(layout, Layout):
        raise ArgumentError(f"{layout!r} is no Layout", pe=pe.me)
    return layout


def _check_place(pe: PE, array: Array, offset: int, span: int, layout: Layout, name: str) -> None:
    if span > array.nbytes:
        raise SizeMismatch(f"lines of {span} bytes ({layout.name}) in a {name} of {array.nbytes}", pe=pe.me)
    if span and offset % layout.align:
        raise LayoutError(
            f"{name} at heap offset {offset:#x}: lines of {layout.name} are aligned to {layout.align} bytes", pe=pe.me
        )


def put_lines(
    target: Array, payload: Array, pe: int, layout: Layout, flag: int, ctx: object = None, *, lines: int | None = None
) -> None:
    """Stores `payload` as lines that carry `flag` into `target` on PE `pe`.

    target: contiguous symmetric array (uint8 or any other), aligned as the layout wants, at least
    `layout.span(payload.nbytes)` bytes. payload: any fixed dtype and size, also none (then nothing is stored and
    nothing tells of it); what it does not fill of its last line is zero. flag: an integer that fits the layout's
    flag. lines: how many to write, default those of the payload; more carry the flag and zeros.
    On return: payload may be reused. At the target: who sees the flag in a line may read that line, nothing else.
    Each aligned 8-byte cell is stored in one step, unless the profile places fewer bytes whole; wakes no waiter of
    wait_until.
    Raises as `put`, and ArgumentError (layout), OverflowError (flag), LayoutError (alignment), SizeMismatch (room).
    """
    here = current()
    me = here.me
    q, there = check_context(ctx), reach(here, pe, ctx)
    to = check_target(contiguous(target, "target", me), "target", me)
    what = check_array(payload, "payload", me)
    if not what.flags.c_contiguous:
        blocks(what, what.size, "payload", me)  # refuses the layouts that are not promised
    packed = gathered(what, what.size)
    if there == me and np.may_share_memory(packed, to):
        packed = packed.copy()
    offset = symmetric(here, to, to.size, "target").offset
    here.fabric.submit(q, put_record(here, to, offset, packed, there, layout, flag, lines))


def poll_lines(
    view: Array, layout: Layout, flag: int, shape: Shape | None = None, dtype: npt.DTypeLike = np.uint8,
    *, out: Array | None = None, timeout: float | None = None,
) -> Array:  # fmt: skip
    """Waits until lines that carry `flag` have come into the own `view`, and returns their payload.

    view: contiguous symmetric array on this PE, aligned as the layout wants. shape, dtype: of the payload, by default
    uint8 and all that view has room for. out: a contiguous array to fill instead of a new one, outside view; shape and
    dtype are then its own. A payload of no bytes is there at once. timeout: seconds, default SHMEMU_TIMEOUT_S.
    On return: the payload, loaded by the layout's reader rule into private memory; nothing else is acquired, and
    nobody is told that the lines were read. After an error `out` holds anything.
    Raises NotSymmetric, FreedBlock, LayoutError, SizeMismatch, ArgumentError (layout, out), OverflowError (flag),
    ShmemTimeout naming the line and the flag seen, PeerDied.
    """
    here = current()
    to, offset, filled, op = _poll(here, view, layout, flag, shape, dtype, out)
    until(
        here,
        lambda seconds: here.fabric.submit(0, op, 0, seconds)[0],
        lambda: f"{awaited_lines(offset, filled.nbytes, layout, flag)} of PE {here.me}",
        lambda: seen_lines(to, filled.nbytes, layout, flag),
        timeout,
    )
    return filled


def test_lines(
    view: Array, layout: Layout, flag: int, shape: Shape | None = None, dtype: npt.DTypeLike = np.uint8,
    *, out: Array | None = None,
) -> Array | None:  # fmt: skip
    """The payload of lines that carry `flag`, None if one has not come yet. Never blocks; else as `poll_lines`."""
    here = current()
    _, _, filled, op = _poll(here, view, layout, flag, shape, dtype, out)
    status, _ = here.fabric.submit(0, op, 0, 0.0)
    return filled if status is Status.OK else None


def _poll(
    here: PE, view: object, layout: object, flag: object, shape: Shape | None, dtype: npt.DTypeLike, out: object
) -> tuple[Array, int, Array, Records]:
    """The checked view, its offset, the array to fill, and the record that does it."""
    to = contiguous(view, "view", here.me)
    known = _layout(layout, here)
    offset = symmetric(here, to, to.size, "view").offset
    if out is None:
        filled = _payload(here, known.capacity(to.nbytes), shape, dtype)
    else:
        filled = check_target(contiguous(out, "out", here.me), "out", here.me)
    return to, offset, filled, poll_record(here, to, offset, filled, known, flag)


def _payload(here: PE, room: int, shape: Shape | None, dtype: npt.DTypeLike) -> Array:
    kind = dtype_of(dtype, here.me)
    sides = (room // kind.itemsize,) if shape is None else sides_of(shape)
    if math.prod(sides) * kind.itemsize > room:
        raise SizeMismatch(f"view has no room for the lines of {sides} elements of {kind}", pe=here.me)
    return np.empty(sides, kind)
