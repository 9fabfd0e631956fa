"""The model of the demo as its ranks run it: embedding, gate, top-k routing, SwiGLU experts.

Every function of rows is a function of one row: a fixed order of additions over the contracted
index, written as NumPy products and sums of whole columns. A BLAS product changes the last bits of
a row with the size of the batch and the place in it, and so would ``np.sum`` and ``einsum``.
``exp`` is built from operations that IEEE 754 rounds exactly, since a library's vector and scalar
versions may differ. So rows may be permuted, split and computed anywhere without changing a bit.

The layer, a written specification that ``moe_ep/reference.py`` states a second time in other code
(fp32 operations are rounded one by one, sums start from +0.0):

 1. A token is one byte ``b`` of the text; token ``t`` of ``T`` lies on the rank ``r`` of ``R`` with
    ``T*r//R <= t < T*(r+1)//R``. Its number on that rank counts from 0.
 2. ``N(k, shape) = default_rng([seed, *k]).standard_normal(shape, float32)``.
    ``x = bf16((B[b] + A[t % 256] / 8) + C[t // 256 % 256] / 8)``, with ``B = N([1], [256,H])``,
    ``A = N([2], [256,H])``, ``C = N([3], [256,H])``.
 3. Gate: ``G = N([4], [H,E]) * s(H)``, ``s(n) = fp32(1) / sqrt(fp32(n))``; logit ``e`` is the sum of
    ``x[h] * G[h,e]`` in increasing ``h``.
 4. Routing: the ``K`` largest logits in decreasing order, of equal ones the lower expert id first.
    In float64 ``p_k = EXP(l_k - l_0)``, ``S`` their sum in increasing ``k``, weight ``w_k = fp32(p_k / S)``.
 5. Expert ``e``: ``Wg, Wu: [H,I]`` scaled by ``s(H)``, then ``Wd: [I,H]`` scaled by ``s(I)``, drawn in this
    order from ``default_rng([seed, 5, e])``. ``g = sum x[h]*Wg[h]`` and ``u = sum x[h]*Wu[h]`` in increasing
    ``h``, ``v = fp32(g64 / (1 + EXP(-g64))) * u``, ``o = sum v[i]*Wd[i]`` in increasing ``i``.
 6. ``y_k = bf16(w_k * o)``. A rank supplies, for a token it received, ``bf16(sum y_k)`` over its own
    selections in increasing ``k``; combine adds these as docs/expert-parallel.md says.
 7. ``EXP(v)``, float64: ``v`` clipped to +-700, ``n = rint(v * 1.4426950408889634)``,
    ``r = (v - n*0x1.62e42fee00000p-1) - n*0x1.a39ef35793c76p-33``, ``q = 1/13!``, then ``q = q*r + 1/j!`` for
    ``j = 12 .. 0``, result ``q * 2^n``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Array = NDArray[np.generic]

_BLOCK_ELEMENTS = 1 << 16  # of one accumulator: it, its product and a table row stay in the L2 cache
_TERM_BYTES = 32 << 20  # of expert rows that wait for their sum at a time
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 21 zero bits at its end: n * _LN2_HIGH is exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


@dataclass(frozen=True)
class Shape:
    """What fixes the layer besides its text: sizes (``inner`` is the experts' own width) and the seed."""

    experts: int
    topk: int
    hidden: int
    inner: int
    seed: int = 0


def own_tokens(tokens: int, rank: int, ranks: int) -> slice:
    """The contiguous block of ``tokens`` that ``rank`` holds; blocks differ in length by at most one."""
    return slice(tokens * rank // ranks, tokens * (rank + 1) // ranks)


def embed(text: bytes, shape: Shape, first: int = 0) -> Array:
    """``[len(text), H]`` bf16 of bytes that stand at ``first, first + 1, ...`` of the whole text."""
    by_byte, low, high = (
        np.random.default_rng([shape.seed, k]).standard_normal((256, shape.hidden), np.float32) for k in (1, 2, 3)
    )
    # The place makes every row another one: two exchanged rows can't pass for each other.
    place = np.arange(first, first + len(text))
    x = by_byte[np.frombuffer(text, np.uint8)]
    x += low[place % 256] / np.float32(8)
    x += high[place // 256 % 256] / np.float32(8)
    return x.astype(BF16)


def contract(rows: F32, table: F32) -> F32:
    """``rows [n,c]`` times ``table [c,m]``: products and sums rounded one by one, ``c`` increasing.

    Row ``i`` of the result depends on row ``i`` of ``rows`` alone, to the last bit.
    """
    if len(rows) > table.shape[1]:  # products commute: NumPy's inner loop goes along the longer side
        return np.ascontiguousarray(contract(table.T, np.ascontiguousarray(rows.T)).T)
    out = np.zeros((len(rows), table.shape[1]), np.float32)
    step = max(16, _BLOCK_ELEMENTS // max(1, table.shape[1]))
    for start in range(0, len(rows), step):
        acc = out[start : start + step]
        columns = np.ascontiguousarray(rows[start : start + step].T)
        product = np.empty_like(acc)
        for column, weights in zip(columns, table, strict=True):
            np.multiply(column[:, None], weights, out=product)
            np.add(acc, product, out=acc)
    return out


def exp(values: F64) -> F64:
    """e to the power of each value, within 1e-15; the same bits wherever a value stands."""
    v = np.minimum(np.maximum(values, -700.0), 700.0)
    n = np.rint(v * 1.4426950408889634)
    v -= n * _LN2_HIGH
    v -= n * _LN2_LOW
    q = np.full_like(v, 1.0 / math.factorial(13))
    for j in range(12, -1, -1):
        q *= v
        q += 1.0 / math.factorial(j)
    result: F64 = np.ldexp(q, n.astype(np.intc))
    return result


def _scale(width: int) -> np.float32:
    scale: np.float32 = np.float32(1) / np.sqrt(np.float32(width))
    return scale


def gate_table(shape: Shape) -> F32:
    """``[H,E]`` fp32, the same on every rank."""
    stream = np.random.default_rng([shape.seed, 4])
    table: F32 = stream.standard_normal((shape.hidden, shape.experts), np.float32) * _scale(shape.hidden)
    return table


def gate(x: Array, table: F32) -> F32:
    """Logits ``[T,E]`` fp32 of the rows ``x [T,H]`` bf16."""
    return contract(x.astype(np.float32), table)


def route(logits: F32, topk: int) -> tuple[I64, F32]:
    """``(topk_idx [T,K] int64, topk_weights [T,K] fp32)``: the largest logits and their softmax."""
    idx = np.argsort(-logits, axis=1, kind="stable")[:, :topk].astype(np.int64)
    chosen = np.take_along_axis(logits, idx, axis=1).astype(np.float64)
    p = exp(chosen - chosen[:, :1])
    total = np.zeros(len(p))
    for k in range(topk):
        total += p[:, k]
    return np.ascontiguousarray(idx), (p / total[:, None]).astype(np.float32)


class Expert:
    """One SwiGLU expert: ``gate_up [H,2I]`` and ``down [I,H]``, fp32, drawn from the seed and the id."""

    def __init__(self, shape: Shape, expert: int) -> None:
        stream = np.random.default_rng([shape.seed, 5, expert])
        across = (shape.hidden, shape.inner)
        halves = [stream.standard_normal(across, np.float32) * _scale(shape.hidden) for _ in range(2)]
        self.gate_up: F32 = np.concatenate(halves, axis=1)
        self.down: F32 = stream.standard_normal(across[::-1], np.float32) * _scale(shape.inner)

    def __call__(self, x: Array) -> F32:
        """``[n,H]`` fp32 of the rows ``x [n,H]`` bf16; each row by itself."""
        both = contract(x.astype(np.float32), self.gate_up)
        inner = both.shape[1] // 2
        g = both[:, :inner].astype(np.float64)
        silu = (g / (1.0 + exp(-g))).astype(np.float32)
        return contract(silu * both[:, inner:], self.down)


def rank_rows(x: Array, topk_idx: I64, topk_weights: F32, experts: Sequence[Expert]) -> Array:
    """The one bf16 row that a rank supplies to combine for each row it received, ``[N,H]``.

    ``x [N,H]`` bf16, ``topk_idx [N,K]`` local ids or -1, ``topk_weights [N,K]``: what dispatch returned. The
    router weights are applied here, since combine adds plain rows.
    """
    out = np.zeros(x.shape, BF16)
    step = max(1, _TERM_BYTES // (topk_idx.shape[1] * x.shape[1] * BF16.itemsize))
    with np.errstate(over="ignore", invalid="ignore"):  # a recorded trace may hold any finite number
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            out[part] = _rank_rows_block(x[part], topk_idx[part], topk_weights[part], experts)
    return out


def _rank_rows_block(x: Array, topk_idx: I64, topk_weights: F32, experts: Sequence[Expert]) -> Array:
    terms = np.empty((*topk_idx.shape, x.shape[1]), BF16)
    for local, expert in enumerate(experts):
        rows, ks = np.nonzero(topk_idx == local)
        terms[rows, ks] = (topk_weights[rows, ks, None] * expert(x[rows])).astype(BF16)
    total = np.zeros(x.shape, np.float32)
    for k in range(topk_idx.shape[1]):
        mine = topk_idx[:, k] >= 0
        total[mine] += terms[mine, k].astype(np.float32)
    return total.astype(BF16)
