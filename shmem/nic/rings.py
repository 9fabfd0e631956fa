"""How rings look in memory: entries of 64 bytes, to be printed.

The owner bit tells the laps apart: 1 in even laps of a send queue, and 1 in the first lap of a completion queue, whose
fresh memory (zero) so reads as "nothing new".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .engine import Told, Wqe
from .work import ORDERS, Opcode

STATUSES: Final = (
    "ok", "loc_len", "loc_op", "loc_access", "flush", "bad_resp", "rem_inv_req", "rem_access", "rem_op", "retry",
    "rnr_retry", "unsupported", "poison", "suspend_done", "flush_done", "unhandled",
)  # fmt: skip

WQE: Final = np.dtype(
    {
        "names": ["owner", "opcode", "block", "blocks", "signaled", "inline", "fence", "order", "wr_id", "nbytes",
                  "key", "offset", "immediate"],
        "formats": ["u1", "u1", "u1", "u1", "?", "?", "?", "u1", "<u8", "<u4", "<u4", "<i8", "<u8"],
        "itemsize": 64,
    }
)  # fmt: skip
# The first block of a request as an adapter has it: what of a WQE is not shown, too. And a piece of its local memory.
HEAD: Final = np.dtype(
    {
        "names": ["opcode", "blocks", "signaled", "fence", "order", "nbytes", "key", "offset", "pieces", "bad",
                  "remote"],
        "formats": ["u1", "u1", "?", "?", "u1", "<u4", "<u4", "<i8", "<u2", "u1", "?"],
        "offsets": [1, 3, 4, 6, 7, 16, 20, 24, 40, 42, 43],
        "itemsize": 64,
    }
)  # fmt: skip
PIECES: Final = np.dtype([("address", "<u8"), ("nbytes", "<u4"), ("pad", "<u4")])
CQE: Final = np.dtype(
    {
        "names": ["owner", "received", "status", "opcode", "entry", "nbytes", "wr_id", "immediate"],
        "formats": ["u1", "?", "u1", "u1", "<u2", "<u4", "<u8", "<u8"],
        "offsets": [0, 1, 2, 3, 4, 16, 24, 32],
        "itemsize": 64,
    }
)


def write_wqe(ring: npt.NDArray[Any], position: int, wr_id: int, wqe: Wqe) -> None:
    """Writes a request into its blocks, from a position on, wrapping inside the ring."""
    depth = len(ring)
    for block in range(wqe.blocks):
        at = position + block
        row = ring[at % depth]
        row["owner"] = at & depth == 0
        row["opcode"], row["block"], row["blocks"], row["wr_id"] = wqe.opcode, block, wqe.blocks, wr_id
        row["signaled"], row["inline"], row["fence"] = wqe.signaled, wqe.data is not None, wqe.fence
        row["order"] = ORDERS.index(wqe.order)
        row["nbytes"], row["immediate"] = wqe.nbytes, wqe.immediate or 0
        if wqe.remote is not None:
            row["key"] = wqe.remote.key & 0xFFFFFFFF
            row["offset"] = (wqe.remote.offset + (1 << 63)) % (1 << 64) - (1 << 63)


def write_cqe(ring: npt.NDArray[Any], position: int, told: Told, opcode: Opcode, entry: int) -> None:
    """Writes a completion; position: how many were written before it."""
    row = ring[position % len(ring)]
    row["owner"] = position // len(ring) % 2 == 0
    row["received"], row["status"], row["opcode"] = told.received, STATUSES.index(told.status), opcode
    row["entry"], row["nbytes"], row["wr_id"] = entry & 0xFFFF, told.nbytes, told.number
    row["immediate"] = told.immediate or 0
