"""The handle: what a dispatch learnt about its routing, for the calls that return its rows or repeat it.

A handle belongs to the buffer that made it, may be used any number of times, and refers to the caller's
`topk_idx` itself. Because ordinary writes to a NumPy array can't be noticed when they happen, a private copy
is compared at each use; the other arrays are read-only. All shapes are those of docs/expert-parallel.md,
direct mode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shmem.errors import HandleError

from .routing import Routing

if TYPE_CHECKING:
    from .buffer import EPBuffer

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class EPHandle:
    """What `EPBuffer.dispatch` returns for `combine` and for cached dispatches.

    topk_idx [T,K] int64                       the caller's array itself; it must not change
    num_recv_tokens                            rows received, N
    num_recv_tokens_per_expert_list            aligned counts of the own experts
    num_unaligned_recv_tokens_per_expert [El]  int32, real counts
    psum_num_recv_tokens_per_scaleup_rank [R]  int32, inclusive prefix of the rows by source
    psum_num_recv_tokens_per_expert [El]       int32, inclusive prefix of the aligned counts
    recv_src_metadata [N,K+2]                  int32: global id, source * K + master position, then -1
    dst_buffer_slot_idx [T,K]                  int32: own rank * Tm + slot at master positions, else -1
    """

    num_experts: int
    expert_alignment: int
    num_max_tokens_per_rank: int
    num_sms: int
    topk_idx: I64
    num_recv_tokens: int
    num_recv_tokens_per_expert_list: list[int]
    psum_num_recv_tokens_per_scaleup_rank: I32
    psum_num_recv_tokens_per_expert: I32
    num_unaligned_recv_tokens_per_expert: I32
    recv_src_metadata: I32
    dst_buffer_slot_idx: I32
    do_expand: bool = False
    num_expanded_tokens: int = 0
    token_metadata_at_forward: None = None  # hybrid mode only
    channel_linked_list: None = None  # hybrid mode only
    cached_recv_src_metadata_before_sort: None = None  # rows arrive sorted: a buffer that sorts has no other order
    _buffer: EPBuffer = field(kw_only=True)
    _serial: int = field(kw_only=True)  # the buffer's how-many-th dispatch made it: the same on every rank
    _routing: Routing = field(kw_only=True)
    _topk_copy: I64 = field(kw_only=True)

    def __post_init__(self) -> None:
        for array in (
            self.psum_num_recv_tokens_per_scaleup_rank,
            self.psum_num_recv_tokens_per_expert,
            self.num_unaligned_recv_tokens_per_expert,
            self.recv_src_metadata,
            self.dst_buffer_slot_idx,
        ):
            array.flags.writeable = False

    def __repr__(self) -> str:
        tokens, topk = self.topk_idx.shape
        return (
            f"EPHandle(tokens={tokens}, topk={topk}, num_experts={self.num_experts}, "
            f"num_recv_tokens={self.num_recv_tokens})"
        )

    @property
    def num_topk(self) -> int:
        return int(self._topk_copy.shape[1])

    def check_usable(self, buffer: EPBuffer) -> None:
        """Raises HandleError if the handle is another buffer's, or if its `topk_idx` was changed since."""
        if self._buffer is not buffer:
            raise HandleError("this handle was made by another buffer: a handle serves the buffer that made it")
        if not np.array_equal(self.topk_idx, self._topk_copy):
            token, k = np.argwhere(self.topk_idx != self._topk_copy)[0]
            raise HandleError(
                f"topk_idx[{token}, {k}] was {self._topk_copy[token, k]} when the handle was made and is "
                f"{self.topk_idx[token, k]} now: the routing of a handle must not change while it is used"
            )
