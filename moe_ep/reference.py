"""The oracle: what dispatch, combine and the demo's layer must give, bit for bit.

One process holds the inputs of all ranks and walks them with explicit loops, one token and one
position after the other. It imports NumPy and ml_dtypes and nothing of this project, so that a
mistake in the implementation can't repeat itself here. Speed is no aim; being readable next to
the contract is. bf16 is rounded by its bits, not by a cast that the implementation uses as well.

The layer of the demo, a written specification that ``moe_ep/demo/model.py`` states a second time
in other code (fp32 operations are rounded one by one, sums start from +0.0):

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

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

bfloat16 = np.dtype(ml_dtypes.bfloat16)
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Array = NDArray[np.generic]
Rows = list[Array]


# ---------------------------------------------------------------------------------- numbers


def widen(rows: ArrayLike) -> F32:
    """The fp32 values of bf16 ``rows``; exact, NaN payloads and signs of zero included."""
    bits = np.ascontiguousarray(rows).view(np.uint16).astype(np.uint32) << np.uint32(16)
    wide: F32 = bits.view(np.float32)
    return wide


def round_bf16(values: ArrayLike) -> Array:
    """bf16 nearest to each fp32 value, ties to even, by arithmetic on the bits; NaN gives NaN."""
    bits = np.array(values, np.float32, ndmin=1, order="C").view(np.uint32)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    upper = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    upper[is_nan] = 0x7FC0
    rounded: Array = upper.view(bfloat16).reshape(np.shape(values))
    return rounded


def sum_in_order(terms: list[F32], width: int) -> F32:
    """fp32 additions one after the other in the order of the list, from +0.0 (section 4)."""
    acc: F32 = np.zeros(width, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for term in terms:
            acc += term
    return acc


def aligned(count: int, alignment: int) -> int:
    """``count`` rounded up to a multiple of ``alignment``."""
    return -(-count // alignment) * alignment


# ---------------------------------------------------------------------------------- dispatch


class Received:
    """What one rank receives, not expanded, in the order of global ids (sections 1, 2 and 12).

    ``global_id [N]``; ``rows [N,H]`` in the dtype sent; ``topk_idx [N,K]`` local ids or -1;
    ``topk_weights [N,K]`` or None, the whole row of the source; ``master [N]`` = column 1 of the
    metadata; ``counts [El]`` not aligned; ``aligned_counts`` a list; ``psum_ranks [R]`` and
    ``psum_experts [El]``, inclusive.
    """

    def __init__(self, global_id: I64, rows: Array, topk_idx: I64, topk_weights: F32 | None, master: I32) -> None:
        self.global_id = global_id
        self.rows = rows
        self.topk_idx = topk_idx
        self.topk_weights = topk_weights
        self.master = master
        self.counts: I32 = np.zeros(0, np.int32)
        self.aligned_counts: list[int] = []
        self.psum_ranks: I32 = np.zeros(0, np.int32)
        self.psum_experts: I32 = np.zeros(0, np.int32)


def owned_positions(experts: Array, rank: int, experts_per_rank: int) -> list[int]:
    """Positions of one token's selections that live on ``rank``, increasing; the last is the master."""
    return [k for k, e in enumerate(experts.tolist()) if e >= 0 and e // experts_per_rank == rank]


def dispatch(
    xs: Rows,
    topk_idxs: Rows,
    topk_weights: list[F32] | None,
    num_experts: int,
    num_max_tokens_per_rank: int | None = None,
    expert_alignment: int = 1,
) -> list[Received]:
    """What every rank receives when rank ``s`` sends ``xs[s] [T_s,H]`` by ``topk_idxs[s] [T_s,K]``.

    Global ids are ``s*Tm + t`` with ``Tm = num_max_tokens_per_rank``, by default the longest input.
    """
    ranks = len(xs)
    longest = max(len(x) for x in xs)
    tm = longest if num_max_tokens_per_rank is None else num_max_tokens_per_rank
    return [_receive(xs, topk_idxs, topk_weights, r, num_experts // ranks, tm, expert_alignment) for r in range(ranks)]


def _receive(
    xs: Rows,
    topk_idxs: Rows,
    topk_weights: list[F32] | None,
    rank: int,
    per_rank: int,
    tm: int,
    alignment: int,
) -> Received:
    ids, rows, local_ids, weights, masters = [], [], [], [], []
    counts, per_source = [0] * per_rank, []
    topk = topk_idxs[0].shape[1]
    for source, routing in enumerate(topk_idxs):
        for token in range(len(routing)):
            mine = owned_positions(routing[token], rank, per_rank)
            if not mine:
                continue
            local = [-1] * topk
            for k in mine:
                local[k] = int(routing[token, k]) - rank * per_rank
                counts[local[k]] += 1
            ids.append(source * tm + token)
            rows.append(xs[source][token])
            local_ids.append(local)
            masters.append(source * topk + mine[-1])
            if topk_weights is not None:
                weights.append(topk_weights[source][token])
        per_source.append(len(ids))
    received = Received(
        np.array(ids, np.int64),
        np.array(rows, xs[0].dtype).reshape(len(ids), xs[0].shape[1]),
        np.array(local_ids, np.int64).reshape(len(ids), topk),
        None if topk_weights is None else np.array(weights, np.float32).reshape(len(ids), topk),
        np.array(masters, np.int32),
    )
    received.counts = np.array(counts, np.int32)
    received.aligned_counts = [aligned(n, alignment) for n in counts]
    received.psum_ranks = np.array(per_source, np.int32)
    received.psum_experts = np.array([sum(received.aligned_counts[: i + 1]) for i in range(per_rank)], np.int32)
    return received


def slot_sets(topk_idxs: Rows, num_experts: int, num_max_tokens_per_rank: int) -> list[list[set[int]]]:
    """``[source][destination]``: the values that ``dst_buffer_slot_idx`` of the source holds for it.

    Slots are dense from 0 in any order within a pair of ranks, so only the set is prescribed.
    """
    ranks = len(topk_idxs)
    sets: list[list[set[int]]] = []
    for source, routing in enumerate(topk_idxs):
        used = [0] * ranks
        for experts in routing:
            for rank in range(ranks):
                used[rank] += bool(owned_positions(experts, rank, num_experts // ranks))
        sets.append([{source * num_max_tokens_per_rank + slot for slot in range(n)} for n in used])
    return sets


# ---------------------------------------------------------------------------------- combine


def combine(
    ys: Rows,
    topk_idxs: Rows,
    num_experts: int,
    topk_weights: list[F32] | None = None,
    biases: list[tuple[Array, ...]] | None = None,
) -> tuple[Rows, list[F32] | None]:
    """Section 4, direct, not expanded: ``([T_s,H] bf16, weights [T_s,K] fp32 or None)`` of every rank.

    ``ys[r] [N_r,H]`` bf16 are the rows rank ``r`` supplies and ``topk_weights[r] [N_r,K]`` the weights it
    carries back, both in the order of ``dispatch(...)[r]``; ``biases[s]`` holds 0, 1 or 2 arrays ``[T_s,H]``.
    """
    ranks, width = len(ys), ys[0].shape[1]
    per_rank = num_experts // ranks
    next_row = [0] * ranks  # the rows of an owner come back in the order of global ids
    combined: Rows = []
    carried: list[F32] = []
    for source, routing in enumerate(topk_idxs):
        out = np.zeros((len(routing), width), bfloat16)
        weights = np.zeros(routing.shape, np.float32)
        for token in range(len(routing)):
            terms: list[F32] = [widen(b[token]) for b in biases[source]] if biases is not None else []
            arrived: list[tuple[int, int]] = []  # (position = master, owner)
            for owner in range(ranks):
                mine = owned_positions(routing[token], owner, per_rank)
                if not mine:
                    continue
                arrived.append((mine[-1], owner))
                if topk_weights is not None:
                    for k in mine:
                        weights[token, k] = topk_weights[owner][next_row[owner], k]
            for _, owner in sorted(arrived):
                terms.append(widen(ys[owner][next_row[owner]]))
                next_row[owner] += 1
            out[token] = round_bf16(sum_in_order(terms, width))
        combined.append(out)
        carried.append(weights)
    return combined, (carried if topk_weights is not None else None)


def rank_sum(ys: Rows) -> Array:
    """Level 1, by the caller when not expanded: the bf16 of the fp32 sum of the rows, in the order given."""
    return round_bf16(sum_in_order([widen(y) for y in ys], ys[0].shape[0]))


# ---------------------------------------------------------------------------------- comparison


def difference(
    expected: ArrayLike, actual: ArrayLike, what: str, names: str = "row element", nan: str = "bits"
) -> str | None:
    """None if both arrays hold the same bits, else a sentence that names the first place where they differ.

    ``names`` names the axes. ``nan="position"`` lets NaN payloads differ, as section 4 does for sums.
    """
    want, got = np.asarray(expected), np.asarray(actual)
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{what}: {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    unsigned = np.dtype(f"u{want.dtype.itemsize}")
    want_bits = np.ascontiguousarray(want).view(unsigned).reshape(want.shape)
    got_bits = np.ascontiguousarray(got).view(unsigned).reshape(want.shape)
    differs = want_bits != got_bits
    if nan == "position":
        differs &= ~(np.isnan(want) & np.isnan(got))
    places = np.argwhere(differs)
    if not len(places):
        return None
    place = tuple(int(i) for i in places[0])
    where = ", ".join(f"{name} {i}" for name, i in zip(names.split(), place, strict=False))
    digits = 2 * want.dtype.itemsize
    seen = f"{got[place]} (0x{int(got_bits[place]):0{digits}x})"
    due = f"{want[place]} (0x{int(want_bits[place]):0{digits}x})"
    return f"{what}: {where}: {seen} instead of {due}; {len(places)} of {want.size} elements differ"


def received_difference(
    expected: Received,
    rows: Array,
    topk_idx: Array,
    topk_weights: Array | None,
    metadata: Array,
    counts: Array,
    what: str = "received",
) -> str | None:
    """First difference between the oracle and what a rank received in any order within a source, or None.

    ``rows [N,H]``, ``topk_idx [N,K]``, ``topk_weights [N,K]`` as dispatch returned them; ``metadata [N,2+]``
    and ``counts [El]`` as its handle holds them. Rows are brought into the order of ``metadata[:,0]`` first.
    """
    order = np.argsort(metadata[:, 0], kind="stable")
    if (topk_weights is None) != (expected.topk_weights is None):
        return f"{what}: weights are {'missing' if topk_weights is None else 'there but none were sent'}"
    checks: list[tuple[str, ArrayLike, ArrayLike]] = [
        ("global id", expected.global_id, metadata[order, 0].astype(np.int64)),
        ("row", expected.rows, rows[order]),
        ("local expert", expected.topk_idx, topk_idx[order].astype(np.int64)),
        ("master", expected.master, metadata[order, 1].astype(np.int32)),
        ("count", expected.counts, counts),
    ]
    if expected.topk_weights is not None and topk_weights is not None:
        checks.append(("weight", expected.topk_weights, topk_weights[order]))
    for name, want, got in checks:
        found = difference(want, got, f"{what}: {name}")
        if found is not None:
            return found
    return None


# ---------------------------------------------------------------------------------- the demo's layer


class LayerResult:
    """Every rank's inputs and outputs of the demo's layer, lists indexed by rank.

    ``xs [T,H]`` bf16, ``topk_idxs [T,K]`` int64, ``topk_weights [T,K]`` fp32, ``outputs [T,H]`` bf16;
    ``received``: what dispatch gives; ``carried [T,K]``: the weights that combine brings back;
    ``tokens_per_expert [E]``.
    """

    def __init__(
        self,
        xs: Rows,
        topk_idxs: Rows,
        topk_weights: list[F32],
        received: list[Received],
        outputs: Rows,
        carried: list[F32],
    ) -> None:
        self.xs = xs
        self.topk_idxs = topk_idxs
        self.topk_weights = topk_weights
        self.received = received
        self.outputs = outputs
        self.carried = carried
        self.tokens_per_expert: I32 = np.concatenate([r.counts for r in received])


def moe_layer(
    text: bytes,
    seed: int,
    ranks: int,
    experts: int,
    topk: int,
    hidden: int,
    inner: int,
    trace: tuple[Array, F32, Array | None] | None = None,
    progress: object = None,
) -> LayerResult:
    """The whole layer from the text and the seed, by the specification above.

    ``trace`` = ``(topk_idx [T,K], topk_weights [T,K], x [T,H] bf16 or None)`` as recorded replaces steps 3
    and 4, and step 2 if it has ``x``. ``progress(done, total)`` is called after each expert.
    """
    x = embed(text, seed, hidden)
    if trace is None:
        idx, weights = route(gate_logits(x, seed, experts), topk)
    else:
        idx, weights = trace[0].astype(np.int64), trace[1]
        x = x if trace[2] is None else trace[2]
    bounds = [len(x) * r // ranks for r in range(ranks + 1)]
    spans = [slice(bounds[r], bounds[r + 1]) for r in range(ranks)]
    xs: Rows = [x[s] for s in spans]
    idxs: Rows = [idx[s] for s in spans]
    received = dispatch(xs, idxs, [weights[s] for s in spans], experts)
    per_rank = experts // ranks
    ys = [_rank_rows(r, seed, rank * per_rank, inner, progress, experts) for rank, r in enumerate(received)]
    owned = [r.topk_weights for r in received if r.topk_weights is not None]
    outputs, carried = combine(ys, idxs, experts, owned)
    assert carried is not None, "weights were given"
    return LayerResult(xs, idxs, [weights[s] for s in spans], received, outputs, carried)


def normal(seed: int, stream: list[int], shape: tuple[int, ...]) -> F32:
    """Step 2: a table of seeded standard normal numbers."""
    return np.random.default_rng([seed, *stream]).standard_normal(shape, np.float32)


def inverse_root(n: int) -> np.float32:
    """``s(n)`` of step 3."""
    scale: np.float32 = np.float32(1) / np.sqrt(np.float32(n))
    return scale


def embed(text: bytes, seed: int, hidden: int) -> Array:
    """Step 2: ``[T,H]`` bf16."""
    by_byte, low, high = (normal(seed, [k], (256, hidden)) for k in (1, 2, 3))
    x = np.zeros((len(text), hidden), bfloat16)
    eighth = np.float32(0.125)
    for t, b in enumerate(text):
        x[t] = round_bf16((by_byte[b] + low[t % 256] * eighth) + high[t // 256 % 256] * eighth)
    return x


def gate_logits(x: Array, seed: int, experts: int) -> F32:
    """Step 3: ``[T,E]`` fp32."""
    hidden = x.shape[1]
    gate = normal(seed, [4], (hidden, experts)) * inverse_root(hidden)
    return _contract(widen(x), gate)


def _contract(rows: F32, table: F32) -> F32:
    """``rows [n,c]`` times ``table [c,m]``: one product and one addition per ``c``, in increasing order.

    An element is touched by its own row and column only; nothing else could change its bits.
    """
    acc = np.zeros((table.shape[1], rows.shape[0]), np.float32)
    product = np.zeros_like(acc)
    columns = np.ascontiguousarray(rows.T)
    with np.errstate(over="ignore", invalid="ignore"):
        for c in range(table.shape[0]):
            np.multiply(table[c][:, None], columns[c], out=product)
            acc += product
    return np.ascontiguousarray(acc.T)


def route(logits: F32, topk: int) -> tuple[I64, F32]:
    """Step 4: ``([T,K] int64, [T,K] fp32)``."""
    idx = np.zeros((len(logits), topk), np.int64)
    weights = np.zeros((len(logits), topk), np.float32)
    for t, row in enumerate(logits.tolist()):
        idx[t] = sorted(range(len(row)), key=lambda e: (-row[e], e))[:topk]
        p = exp(np.array([row[e] - row[idx[t, 0]] for e in idx[t]], np.float64))
        total = 0.0
        for k in range(topk):
            total = total + float(p[k])
        weights[t] = (p / total).astype(np.float32)
    return idx, weights


def exp(v: F64) -> F64:
    """Step 7: only operations that IEEE 754 rounds exactly, so no library or vector width shows."""
    v = np.clip(v, -700.0, 700.0)
    with np.errstate(invalid="ignore"):
        n = np.rint(v * 1.4426950408889634)
        r = (v - n * float.fromhex("0x1.62e42fee00000p-1")) - n * float.fromhex("0x1.a39ef35793c76p-33")
        factorials = [1.0]
        for j in range(1, 14):
            factorials.append(factorials[-1] * j)
        q = np.full(v.shape, 1.0 / factorials[13])
        for j in range(12, -1, -1):
            q = q * r
            q = q + 1.0 / factorials[j]
        result: F64 = np.ldexp(q, n.astype(np.int32))
    return result


def expert_rows(x: Array, seed: int, expert: int, inner: int) -> F32:
    """Step 5: ``o [n,H]`` fp32 of the rows ``x [n,H]`` bf16."""
    hidden = x.shape[1]
    stream = np.random.default_rng([seed, 5, expert])
    gate = stream.standard_normal((hidden, inner), np.float32) * inverse_root(hidden)
    up = stream.standard_normal((hidden, inner), np.float32) * inverse_root(hidden)
    down = stream.standard_normal((inner, hidden), np.float32) * inverse_root(inner)
    wide = widen(x)
    g, u = _contract(wide, gate), _contract(wide, up)
    with np.errstate(over="ignore", invalid="ignore"):
        g64 = g.astype(np.float64)
        v = (g64 / (1.0 + exp(-g64))).astype(np.float32) * u
    return _contract(v, down)


def _rank_rows(received: Received, seed: int, first: int, inner: int, progress: object, experts: int) -> Array:
    """Step 6: the one row a rank supplies for each token that it received."""
    weights = received.topk_weights
    assert weights is not None, "the layer always sends its router weights"
    n, topk = received.topk_idx.shape
    terms: list[list[Array | None]] = [[None] * topk for _ in range(n)]
    for local in range(len(received.counts)):
        rows, ks = np.nonzero(received.topk_idx == local)
        out = expert_rows(received.rows[rows], seed, first + local, inner)
        for i, (row, k) in enumerate(zip(rows.tolist(), ks.tolist(), strict=True)):
            with np.errstate(over="ignore", invalid="ignore"):
                terms[row][k] = round_bf16(weights[row, k] * out[i])
        if callable(progress):
            progress(first + local + 1, experts)
    ys = np.zeros(received.rows.shape, bfloat16)
    for row in range(n):
        ys[row] = rank_sum([y for y in terms[row] if y is not None])
    return ys
