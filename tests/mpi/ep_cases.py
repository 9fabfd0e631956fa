"""Cases for the tests of EPBuffer: tokens of each rank, routing, sizes; and the comparison with the oracle.

Every PE draws the inputs of all ranks from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import shmem
from moe_ep import EPBuffer, reference

BF16 = np.dtype(ml_dtypes.bfloat16)
TM = 24


def ragged(rank: int, ranks: int) -> int:
    return max(1, TM - 5 * rank)


def odd_ranks_empty(rank: int, ranks: int) -> int:
    return 0 if rank % 2 else TM - 1


def none(rank: int, ranks: int) -> int:
    return 0


def full(rank: int, ranks: int) -> int:
    return TM


def one(rank: int, ranks: int) -> int:
    return 1


Routing = Callable[[np.random.Generator, int, int, int, int], np.ndarray]


def uniform(rng, tokens, topk, experts, ranks):
    """K different experts out of E in random order."""
    order = rng.permuted(np.tile(np.arange(experts), (tokens, 1)), axis=1)
    return order[:, :topk].astype(np.int64)


def masked(rng, tokens, topk, experts, ranks):
    """A third of the selections is -1, in any position."""
    idx = uniform(rng, tokens, topk, experts, ranks)
    idx[rng.random(idx.shape) < 1 / 3] = -1
    return idx


def nothing(rng, tokens, topk, experts, ranks):
    return np.full((tokens, topk), -1, np.int64)


def one_hot_expert(rng, tokens, topk, experts, ranks):
    """Every token of every rank selects the last expert, and only that."""
    idx = np.full((tokens, topk), -1, np.int64)
    idx[np.arange(tokens), rng.integers(topk, size=tokens)] = experts - 1
    return idx


def every_rank(rng, tokens, topk, experts, ranks):
    """A token goes to every rank: R*Tm rows arrive everywhere when T = Tm. Needs K >= R."""
    first = np.arange(topk) % ranks * (experts // ranks) + np.arange(topk) // ranks
    return rng.permuted(np.tile(first, (tokens, 1)), axis=1).astype(np.int64)


def not_to_rank_0(rng, tokens, topk, experts, ranks):
    idx = uniform(rng, tokens, topk, experts, ranks)
    idx[idx < experts // ranks] = -1
    return idx


@dataclass(frozen=True)
class Case:
    """`per_rank` experts on each rank; `tokens(rank, R)`; `routing` draws topk_idx."""

    name: str
    tokens: Callable[[int, int], int]
    routing: Routing
    topk: int
    per_rank: int
    hidden: int = 256
    alignment: int = 1
    multiple: bool = True

    def draw(self, seed: int = 0):
        """Inputs of all ranks: xs, topk_idxs, topk_weights."""
        ranks = shmem.n_pes()
        xs, idxs, weights = [], [], []
        for rank in range(ranks):
            rng = np.random.default_rng([seed, rank, len(self.name)])
            tokens = self.tokens(rank, ranks)
            xs.append(rows(rng, tokens, self.hidden))
            idxs.append(self.routing(rng, tokens, self.topk, self.per_rank * ranks, ranks))
            weights.append(rng.random((tokens, self.topk), np.float32))
        return xs, idxs, weights


CASES = [
    Case("ragged", ragged, uniform, topk=8, per_rank=8),
    Case("ragged, masked, aligned", ragged, masked, topk=6, per_rank=7, hidden=512, alignment=128),
    Case("no tokens on odd ranks", odd_ranks_empty, uniform, topk=4, per_rank=4),
    Case("no tokens at all", none, uniform, topk=4, per_rank=4, alignment=128),
    Case("one token a rank", one, uniform, topk=2, per_rank=2),
    Case("nothing selected", full, nothing, topk=5, per_rank=1),
    Case("one hot expert", full, one_hot_expert, topk=3, per_rank=16),
    Case("one selection", full, uniform, topk=1, per_rank=1),
    Case("an expert a rank, all ranks", full, every_rank, topk=8, per_rank=8),
    Case("32 selections", full, masked, topk=32, per_rank=32),
    Case("32 selections, no sums on ranks", ragged, uniform, topk=32, per_rank=40, multiple=False),
    Case("nobody routes to rank 0", full, not_to_rank_0, topk=6, per_rank=6),
    Case("more ranks than selections", ragged, uniform, topk=2, per_rank=5, hidden=512),
]


def rows(rng: np.random.Generator, count: int, hidden: int) -> np.ndarray:
    """bf16 rows with what rounding and order can spoil: large and tiny values, both zeros."""
    values = rng.standard_normal((count, hidden), np.float32)
    values *= np.float32(2.0) ** rng.integers(-20, 20, (count, hidden)).astype(np.float32)
    values[rng.random((count, hidden)) < 0.05] = -0.0
    return values.astype(BF16)


@contextmanager
def buffer_for(case: Case, **options) -> Iterator[EPBuffer]:
    buffer = EPBuffer(
        num_max_tokens_per_rank=TM,
        hidden=case.hidden,
        num_topk=case.topk,
        allow_multiple_reduction=case.multiple,
        explicitly_destroy=True,
        **options,
    )
    yield buffer
    buffer.destroy()


def same(expected: object, actual: object, what: str, **options) -> None:
    found = reference.difference(expected, actual, what, **options)
    assert found is None, found


def check_received(expected, got, handle, what: str) -> None:
    recv_x, recv_idx, recv_weights = got
    found = reference.received_difference(
        expected,
        recv_x,
        recv_idx,
        recv_weights,
        handle.recv_src_metadata,
        handle.num_unaligned_recv_tokens_per_expert,
        what,
    )
    assert found is None, found
    # Ours is deterministic: by source, then by token, without the sorting that the comparison above does.
    same(expected.global_id, handle.recv_src_metadata[:, 0].astype(np.int64), f"{what}: order")


def arguments(case: Case):
    """The arguments of a right dispatch of this PE."""
    xs, idxs, weights = case.draw()
    me = shmem.my_pe()
    return {
        "x": xs[me],
        "topk_idx": idxs[me],
        "topk_weights": weights[me],
        "num_experts": case.per_rank * shmem.n_pes(),
    }
