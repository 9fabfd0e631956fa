"""Arguments of dispatch and combine: checked, filled with defaults, and turned into one frozen call each.

Everything here happens before a byte moves. Each call also has a text that holds what all ranks must agree
on; it travels in the entry barrier, so that ranks which disagree raise SymmetryError instead of reading each
other's records wrongly. What concerns one rank alone (shapes, dtypes, ids) raises there, before that barrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shmem.errors import ArgumentError, BufferTooSmall, DtypeError, HandleError, LayoutError, RoutingError

from .handle import I32, I64, EPHandle
from .layout import (
    MAX_EXPERTS,
    MAX_LOCAL_EXPERTS,
    MAX_TOPK,
    CombineRecord,
    DispatchRecord,
    combine_bytes,
    dispatch_bytes,
)
from .routing import Routing, route

if TYPE_CHECKING:
    from .buffer import EPBuffer

BF16 = np.dtype(ml_dtypes.bfloat16)
Array = NDArray[Any]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class DispatchCall:
    """One dispatch with its defaults filled in; `topk_idx` is the caller's array, `topk_copy` ours.

    `keep_own`: records to the own rank do not pass through the receive area; the epilogue takes them from x.
    """

    x: Array
    topk_idx: I64
    topk_copy: I64
    topk_weights: F32 | None
    routing: Routing
    num_experts: int
    num_max_tokens: int
    alignment: int
    num_sms: int
    statistics: I32 | None
    handle: EPHandle | None
    record: DispatchRecord
    text: str
    keep_own: bool


@dataclass(frozen=True)
class CombineCall:
    """One combine with its defaults filled in; `biases` holds 0, 1 or 2 arrays [T,H]."""

    x: Array
    handle: EPHandle
    topk_weights: F32 | None
    biases: tuple[Array, ...]
    record: CombineRecord
    text: str


def check_array(name: str, value: object, shape: tuple[int | None, ...], dtype: np.dtype[Any]) -> Array:
    """`value` if it is a C-contiguous array of that shape (None = any) and dtype, else a named error."""
    if not isinstance(value, np.ndarray):
        raise DtypeError(f"{name} must be a NumPy array of {dtype}, not {type(value).__name__}")
    if value.dtype != dtype:
        raise DtypeError(f"{name} must hold {dtype}, not {value.dtype}")
    fits = value.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, value.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ArgumentError(f"{name} must have the shape [{wanted}], not {list(value.shape)}")
    if not value.flags.c_contiguous:
        raise LayoutError(f"{name} must lie C-contiguous in memory; np.ascontiguousarray({name}) makes such a copy")
    return value


def check_rows(x: object) -> Array:
    """`x` as a row matrix [any, H] of bf16 whose rows are a multiple of 32 bytes."""
    if isinstance(x, tuple):
        raise ArgumentError("x is one bf16 array: fp8 rows with scales are not supported by this version")
    rows = check_array("x", x, (None, None), BF16)
    if rows.shape[1] == 0 or rows.shape[1] * rows.itemsize % 32:
        raise ArgumentError(f"x has {rows.shape[1]} elements a row; a row is a multiple of 16 bf16 (32 bytes)")
    return rows


def prepare_dispatch(
    buffer: EPBuffer,
    x: object,
    topk_idx: object,
    topk_weights: object,
    statistics: object,
    num_experts: int | None,
    num_max_tokens: int | None,
    alignment: int | None,
    num_sms: int,
    handle: EPHandle | None,
) -> DispatchCall:
    """The call that these arguments of `EPBuffer.dispatch` mean; raises what is documented there."""
    rows = check_rows(x)
    if handle is not None:
        _check_handle(buffer, handle)
    chosen = _choose(buffer, num_experts, num_max_tokens, alignment, handle)
    experts, tokens, align_to = chosen
    if handle is None:
        idx = check_array("topk_idx", topk_idx, (len(rows), None), np.dtype(np.int64))
        if not 1 <= idx.shape[1] <= MAX_TOPK:
            raise ArgumentError(f"topk_idx has {idx.shape[1]} selections a token; 1 to {MAX_TOPK} are possible")
    else:
        if topk_idx is not None:
            raise ArgumentError("topk_idx and handle exclude each other: a cached dispatch repeats the handle's")
        if statistics is not None:
            raise ArgumentError("cumulative_local_expert_recv_stats counts anew, which a cached dispatch does not do")
        idx = handle.topk_idx
        check_array("x", rows, (len(idx), None), BF16)
    if len(rows) > tokens:
        raise BufferTooSmall(f"x has {len(rows)} tokens, num_max_tokens_per_rank is {tokens}")
    topk = idx.shape[1]
    weights = _optional("topk_weights", topk_weights, (len(rows), topk), np.float32)
    counted = _optional("cumulative_local_expert_recv_stats", statistics, (experts // buffer.num_ranks,), np.int32)
    if counted is not None and not counted.flags.writeable:
        raise ArgumentError("cumulative_local_expert_recv_stats is read-only")
    record = DispatchRecord(rows.shape[1] * rows.itemsize, 0, topk)
    check_room(buffer, "dispatch", dispatch_bytes(record, buffer.num_ranks, tokens), rows.shape[1], topk, tokens)
    copy = idx.copy() if handle is None else handle._topk_copy
    routing = route(copy, experts, buffer.num_ranks, buffer.rank_idx, tokens) if handle is None else handle._routing
    text = (
        f"{buffer.name}.dispatch(x={rows.dtype}[T,{rows.shape[1]}], topk={topk}, "
        f"num_experts={experts}, num_max_tokens_per_rank={tokens}, expert_alignment={align_to}, "
        f"weights={weights is not None}, handle={None if handle is None else handle._serial})"
    )
    return DispatchCall(
        x=rows,
        topk_idx=idx,
        topk_copy=copy,
        topk_weights=weights,
        routing=routing,
        num_experts=experts,
        num_max_tokens=tokens,
        alignment=align_to,
        num_sms=num_sms,
        statistics=counted,
        handle=handle,
        record=record,
        text=text,
        keep_own=buffer.keep_own,
    )


def prepare_combine(buffer: EPBuffer, x: object, handle: EPHandle, topk_weights: object, bias: object) -> CombineCall:
    """The call that these arguments of `EPBuffer.combine` mean; raises what is documented there."""
    _check_handle(buffer, handle)
    rows = check_rows(x)
    hidden, topk, tokens = rows.shape[1], handle.num_topk, handle.num_max_tokens_per_rank
    check_array("x", rows, (handle.num_recv_tokens, None), BF16)
    weights = _optional("topk_weights", topk_weights, (handle.num_recv_tokens, topk), np.float32)
    if isinstance(bias, tuple) and len(bias) != 2:
        raise ArgumentError(f"bias is None, one array, or a tuple of exactly two arrays, not of {len(bias)}")
    biases = bias if isinstance(bias, tuple) else () if bias is None else (bias,)
    shape = (len(handle.topk_idx), hidden)
    checked = tuple(check_array(f"bias[{i}]", b, shape, BF16) for i, b in enumerate(biases))
    record = CombineRecord(2 * hidden, topk)
    needed = combine_bytes(record, buffer.num_ranks, tokens, buffer.allow_multiple_reduction)
    check_room(buffer, "combine", needed, hidden, topk, tokens)
    text = f"{buffer.name}.combine(x={rows.dtype}[N,{hidden}], weights={weights is not None}, handle={handle._serial})"
    return CombineCall(rows, handle, weights, checked, record, text)


def check_room(buffer: EPBuffer, operation: str, needed: int, hidden: int, topk: int, tokens: int) -> None:
    """Raises BufferTooSmall unless the receive area holds `needed` bytes."""
    if needed > buffer.num_bytes:
        raise BufferTooSmall(
            f"{operation} of {hidden} elements a row, top-{topk}, {tokens} tokens a rank needs {needed} "
            f"bytes of receive area, the buffer has {buffer.num_bytes}: see EPBuffer.get_buffer_size_hint"
        )


def _check_handle(buffer: EPBuffer, handle: object) -> None:
    if not isinstance(handle, EPHandle):
        raise HandleError(f"handle is what dispatch returned, not {type(handle).__name__}")
    handle.check_usable(buffer)


def _optional(name: str, value: object, shape: tuple[int, ...], dtype: type[np.generic]) -> Array | None:
    return None if value is None else check_array(name, value, shape, np.dtype(dtype))


def _choose(
    buffer: EPBuffer, experts: int | None, tokens: int | None, alignment: int | None, handle: EPHandle | None
) -> tuple[int, int, int]:
    """num_experts, num_max_tokens_per_rank and expert_alignment: given, or of the handle, or the default."""
    if handle is not None:
        own = (handle.num_experts, handle.num_max_tokens_per_rank, handle.expert_alignment)
        names = ("num_experts", "num_max_tokens_per_rank", "expert_alignment")
        for name, given, kept in zip(names, (experts, tokens, alignment), own, strict=True):
            if given is not None and given != kept:
                raise HandleError(f"{name}={given}, but the handle was made with {kept}")
        return own
    if experts is None:
        raise ArgumentError("num_experts is needed where no handle is given")
    if not 0 < experts <= MAX_EXPERTS or experts % buffer.num_ranks:
        raise RoutingError(
            f"num_experts={experts}: a multiple of the {buffer.num_ranks} ranks, from 1 to {MAX_EXPERTS}"
        )
    if experts // buffer.num_ranks > MAX_LOCAL_EXPERTS:
        raise RoutingError(f"num_experts={experts}: a rank holds at most {MAX_LOCAL_EXPERTS} experts")
    limit = buffer.num_max_tokens_per_rank if tokens is None else tokens
    for name, given in (
        ("num_max_tokens_per_rank", limit),
        ("expert_alignment", 1 if alignment is None else alignment),
    ):
        if not isinstance(given, (int, np.integer)) or isinstance(given, bool):
            raise ArgumentError(f"{name}={given!r}: must be a whole number")
    if limit <= 0 or limit * buffer.num_ranks >= 1 << 31:
        raise ArgumentError(f"num_max_tokens_per_rank={limit}: > 0, and less than 2**31 tokens in all ranks")
    most = limit * buffer.num_ranks + (experts // buffer.num_ranks) * ((alignment or 1) + limit * buffer.num_ranks)
    if alignment is not None and (alignment <= 0 or most >= 1 << 31):
        raise ArgumentError(f"expert_alignment={alignment}: must be > 0, and aligned counts must fit int32")
    return experts, limit, 1 if alignment is None else alignment
