"""EPBuffer: the expert-parallel buffer in the shape of DeepEP V2.5, on symmetric memory.

A buffer is one receive area in the symmetric heap, used by dispatch and combine in turn, and a few count
words. Every method that says so is collective: all PEs call it in the same order. A wrong argument raises its
named error on the PE that gave it and SymmetryError on the others, which learn of it in the call's entry
barrier, before any data moves. Supported are direct mode, the layout without expansion, bf16, synchronous
calls; the other options of DeepEP V2.5 are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import shmem
from shmem.errors import ArgumentError, HeapExhausted, StateError, SymmetryError
from shmem.views import address_of

from . import combine as combining
from . import dispatch as dispatching
from .arguments import F32, Array, CombineCall, DispatchCall, prepare_combine, prepare_dispatch
from .events import EventOverlap
from .handle import I32, I64, EPHandle
from .layout import MAX_EXPERTS, MAX_RANKS, SIZE_STEP, Domain, buffer_size_hint
from .options import check_cpu_sync, check_group, check_streams, count_workers, refuse
from .outputs import OutputPool
from .traffic import Traffic

T = TypeVar("T")
DEFAULT_TIMEOUT_S = 100


class EPBuffer:
    """A buffer for expert-parallel dispatch and combine among all PEs. Collective; ends in a barrier.

    group: None, `shmem.TEAM_WORLD`, or an mpi4py communicator of all PEs in the order of their numbers.
    num_bytes: size of the receive area, a multiple of 2 MiB; else it is sized by `get_buffer_size_hint` from
    num_max_tokens_per_rank (tokens), hidden (elements) and num_topk (0 = 32), the first two > 0.
    use_fp8_dispatch sizes for fp8 rows. allow_multiple_reduction=False gives each top-k position its own slot
    in combine. Rows always arrive sorted, so `deterministic` changes nothing. num_gpu_timeout_secs: deadline
    of each wait of an exchange; its default stands for SHMEMU_TIMEOUT_S. All PEs give the same settings.

    Attributes as upstream, and `last_traffic`, the bytes of the last exchange (`Traffic`).

    Raises ArgumentError (also for an option that is not supported yet), SymmetryError, HeapExhausted.
    DeepEP V2.5, `ElasticBuffer`.
    """

    def __init__(
        self,
        group: object = None,
        num_bytes: int | None = None,
        num_max_tokens_per_rank: int = 0,
        hidden: int = 0,
        num_topk: int = 0,
        use_fp8_dispatch: bool = False,
        lb_allocation_plan_or_num_bytes: object = 0,
        deterministic: bool = False,
        allow_hybrid_mode: bool = True,
        allow_multiple_reduction: bool = True,
        prefer_overlap_with_compute: bool = True,
        sl_idx: int | None = None,
        num_allocated_qps: int = 0,
        num_cpu_timeout_secs: float = 300,
        num_gpu_timeout_secs: float = DEFAULT_TIMEOUT_S,
        explicitly_destroy: bool = False,
    ) -> None:
        self._describe(group)
        self.deterministic = deterministic
        self.allow_hybrid_mode = allow_hybrid_mode
        self.allow_multiple_reduction = allow_multiple_reduction
        self.prefer_overlap_with_compute = prefer_overlap_with_compute
        self.num_max_tokens_per_rank = num_max_tokens_per_rank
        self.num_allocated_qps = num_allocated_qps or (65 if allow_hybrid_mode else 17)
        self.num_lb_bytes = 0
        self.explicitly_destroy = explicitly_destroy
        self.num_cpu_timeout_secs, self.num_gpu_timeout_secs = num_cpu_timeout_secs, num_gpu_timeout_secs

        def size() -> int:
            for limit in (num_cpu_timeout_secs, num_gpu_timeout_secs):
                if not isinstance(limit, (int, float)) or not limit > 0:
                    raise ArgumentError(f"a timeout of {limit!r} seconds: must be a number above 0")
            refuse(lb_allocation_plan_or_num_bytes=(lb_allocation_plan_or_num_bytes, 0))
            check_group(self.group, self.num_ranks, self.rank_idx)
            if num_bytes is None:
                shape = (num_max_tokens_per_rank, hidden, num_topk, use_fp8_dispatch)
                return buffer_size_hint(self._domain(self.num_ranks), *shape, allow_multiple_reduction)
            if num_bytes <= 0 or num_bytes % SIZE_STEP:
                raise ArgumentError(f"num_bytes={num_bytes}: a multiple of 2 MiB ({SIZE_STEP} bytes), > 0")
            return num_bytes

        self.num_bytes: int = self._agreed("__init__", size)
        self._barrier(
            f"EPBuffer(num_bytes={self.num_bytes}, num_max_tokens_per_rank="
            f"{num_max_tokens_per_rank}, allow_multiple_reduction={allow_multiple_reduction}, "
            f"allow_hybrid_mode={allow_hybrid_mode}, deterministic={deterministic}, "
            f"explicitly_destroy={explicitly_destroy})"
        )
        self.area = shmem.empty(self.num_bytes, np.uint8)
        try:
            self.words = shmem.zeros(MAX_RANKS + MAX_EXPERTS, np.int64)
        except HeapExhausted:  # on every rank
            shmem.free(self.area)
            raise
        heap = shmem.runtime.current().heap
        self.name = f"EPBuffer at {address_of(self.area) - heap.base:#x}"
        if not explicitly_destroy:
            for kept in (self.area, self.words):
                heap.keep(address_of(kept) - heap.base)
        self._destroyed = False

    def _describe(self, group: object) -> None:
        """Who takes part: one logical domain, in which every PE reaches every other by load and store."""
        self.num_ranks, self.rank_idx = shmem.n_pes(), shmem.my_pe()
        self.group = shmem.TEAM_WORLD if group is None else group
        self.num_scaleout_ranks, self.num_scaleup_ranks = 1, self.num_ranks
        self.scaleout_rank_idx, self.scaleup_rank_idx = 0, self.rank_idx
        self.num_rdma_ranks, self.num_nvlink_ranks = 1, self.num_ranks
        # A call that returns when all is done may read x until then: own rows go from x to the output at once.
        self.keep_own = True
        self.name = "EPBuffer"  # with the place in the heap, once it is there: the same on every PE
        self.dispatches = 0
        self.last_traffic: Traffic | None = None
        self.outputs = OutputPool()
        self._destroyed = True  # until its memory is there

    @staticmethod
    def get_buffer_size_hint(
        group: object,
        num_max_tokens_per_rank: int,
        hidden: int,
        num_topk: int = 0,
        use_fp8_dispatch: bool = False,
        allow_hybrid_mode: bool = True,
        allow_multiple_reduction: bool = True,
    ) -> int:
        """Bytes that `num_bytes` must have for this shape, a multiple of 2 MiB. Local.

        group: as of the constructor, or a plain number of ranks, to size for a job that does not run.
        Raises ArgumentError if a number is out of range.
        """
        domain = EPBuffer._domain(group if isinstance(group, int) else shmem.n_pes())
        shape = (num_max_tokens_per_rank, hidden, num_topk, use_fp8_dispatch)
        return buffer_size_hint(domain, *shape, allow_multiple_reduction)

    @staticmethod
    def _domain(ranks: int) -> Domain:
        return Domain(scaleout=1, scaleup=ranks)

    def get_physical_domain_size(self) -> tuple[int, int]:
        """(hosts, ranks of a host)."""
        return self.num_rdma_ranks, self.num_nvlink_ranks

    def get_logical_domain_size(self) -> tuple[int, int]:
        """(scale-out, scale-up) ranks as the exchange sees them: (1, R) in direct mode."""
        return self.num_scaleout_ranks, self.num_scaleup_ranks

    @property
    def wait_timeout(self) -> float | None:
        """Deadline of each wait of an exchange, seconds; None = that of `SHMEMU_TIMEOUT_S`."""
        return None if self.num_gpu_timeout_secs == DEFAULT_TIMEOUT_S else self.num_gpu_timeout_secs

    def dispatch(
        self,
        x: Any,
        topk_idx: I64 | None = None,
        topk_weights: F32 | None = None,
        cumulative_local_expert_recv_stats: I32 | None = None,
        num_experts: int | None = None,
        num_max_tokens_per_rank: int | None = None,
        expert_alignment: int | None = None,
        num_sms: int = 0,
        num_qps: int = 0,
        previous_event: object = None,
        async_with_compute_stream: bool = False,
        allocate_on_comm_stream: bool = False,
        handle: EPHandle | None = None,
        do_handle_copy: bool = False,
        do_cpu_sync: bool | None = None,
        do_expand: bool = False,
        do_zero_padding: bool = False,
        use_tma_aligned_col_major_sf: bool = False,
        defer_epilogue: bool = False,
    ) -> tuple[Array, I64, F32 | None, EPHandle, EventOverlap]:
        """Sends every token once to each rank that owns one of its experts. Collective.

        x [T,H] bf16, T <= Tm (0 is allowed), 2*H a multiple of 32; topk_idx [T,K] int64 global expert ids, -1
        for none; topk_weights [T,K] fp32. num_experts E, a multiple of R: expert e lives on rank e // (E/R).
        num_max_tokens_per_rank Tm defaults to the constructor's, expert_alignment to 1. The real counts are
        added to cumulative_local_expert_recv_stats [E/R] int32. With a handle its routing is used again.

        Returns (recv_x [N,H], recv_topk_idx [N,K] local ids or -1, recv_topk_weights [N,K] whole rows of the
        source or None, handle, event): N tokens in order of source rank and source token. All data are
        complete and the caller's own; x may be changed at once.

        Raises, before any data move: RoutingError (id outside -1..E-1, an expert twice, E not divisible),
        BufferTooSmall, HandleError, ArgumentError, DtypeError, LayoutError here and SymmetryError on the
        other PEs; SymmetryError everywhere if Tm, E, K, H, alignment, weights or handle differ. ShmemTimeout.
        DeepEP V2.5, `dispatch`.
        """
        self._check_alive()

        def prepare() -> DispatchCall:
            check_streams(previous_event, async_with_compute_stream, allocate_on_comm_stream, defer_epilogue)
            check_cpu_sync(do_cpu_sync, handle)
            refuse(do_handle_copy=(do_handle_copy, False), do_expand=(do_expand, False))
            refuse(do_zero_padding=(do_zero_padding, False))
            refuse(use_tma_aligned_col_major_sf=(use_tma_aligned_col_major_sf, False))
            workers = count_workers(num_sms, num_qps, self.num_allocated_qps)
            chosen = (num_experts, num_max_tokens_per_rank, expert_alignment, workers)
            stats = cumulative_local_expert_recv_stats
            return prepare_dispatch(self, x, topk_idx, topk_weights, stats, *chosen, handle)

        arrived = dispatching.exchange(self, self._agreed("dispatch", prepare))
        return *dispatching.epilogue(self, arrived), EventOverlap()

    def combine(
        self,
        x: Any,
        handle: EPHandle,
        topk_weights: F32 | None = None,
        bias: Any = None,
        num_sms: int = 0,
        num_qps: int = 0,
        previous_event: object = None,
        async_with_compute_stream: bool = False,
        allocate_on_comm_stream: bool = False,
        defer_epilogue: bool = False,
    ) -> tuple[Array, F32 | None, EventOverlap]:
        """Returns the rows of a dispatch to their sources and adds them there. Collective.

        x [N,H] bf16, a row for each row that the dispatch of `handle` delivered, in its order; topk_weights
        [N,K] fp32 are carried back, never multiplied; bias None, [T,H] bf16, or a tuple of exactly two.

        Returns (combined_x [T,H] bf16, combined_topk_weights [T,K] fp32 or None, event), complete on return.
        combined_x[t] is +0.0, plus the biases, plus the rows by increasing master position, added in fp32 and
        rounded once; combined_topk_weights[t,k] is what the owner of expert topk_idx[t,k] gave for it, 0
        where there is none.

        Raises, before any data move: HandleError (another buffer's, or its topk_idx was changed),
        BufferTooSmall, ArgumentError, DtypeError, LayoutError here and SymmetryError on the other PEs.
        ShmemTimeout. DeepEP V2.5, `combine`.
        """
        self._check_alive()

        def prepare() -> CombineCall:
            check_streams(previous_event, async_with_compute_stream, allocate_on_comm_stream, defer_epilogue)
            count_workers(num_sms, num_qps, self.num_allocated_qps)
            return prepare_combine(self, x, handle, topk_weights, bias)

        call = self._agreed("combine", prepare)
        combining.exchange(self, call)
        return *combining.epilogue(self, call), EventOverlap()

    def barrier(self, wait_comm_stream: bool = True, with_cpu_sync: bool = False, sequential: bool = True) -> None:
        """A barrier of all ranks. Collective; stores that any rank made before it are visible after it."""
        self._check_alive()
        self._barrier(f"{self.name}.barrier")

    def destroy(self) -> None:
        """Frees the buffer's memory. Collective. A second call does nothing; any other use raises StateError.

        Only for a buffer made with explicitly_destroy=True (else StateError): another one keeps its memory
        until `shmem.finalize`, since nothing collective may run from a finalizer. Outputs stay valid.
        """
        if not self.explicitly_destroy:
            raise StateError("destroy() needs a buffer made with explicitly_destroy=True")
        if self._destroyed:
            return
        self._destroyed = True
        self.outputs.clear()
        shmem.free(self.words)
        shmem.free(self.area)

    def _check_alive(self) -> None:
        if self._destroyed:
            raise StateError("this EPBuffer was destroyed")

    def _barrier(self, call: str) -> None:
        batch = shmem.Batch()
        batch.barrier(call=call)
        batch.run(timeout=self.wait_timeout)

    def _agreed(self, operation: str, prepare: Callable[[], T]) -> T:
        """What `prepare` returns. If it raises, this PE still enters the barrier with which the others begin,
        with a text that none of them has: they raise SymmetryError with that sentence, and wait for nobody.
        """
        try:
            return prepare()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            try:
                self._barrier(f"{self.name}.{operation} refused: {reason}"[:400])
            except SymmetryError:
                pass  # the others made the call, or refused it for another reason: ours is the one to report
            raise
