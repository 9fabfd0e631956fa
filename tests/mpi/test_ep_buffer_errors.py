"""EPBuffer fails loudly: wrong arguments, ranks that disagree, handles out of place; and is usable afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from moe_ep import EPBuffer, reference

from .ep_cases import BF16, CASES, TM, Case, arguments, buffer_for, same, uniform


def changed_id(idx: np.ndarray, value: int) -> np.ndarray:
    idx = idx.copy()
    idx[-1, 0] = value
    return idx


def twice(idx: np.ndarray) -> np.ndarray:
    idx = idx.copy()
    idx[-1, 1] = idx[-1, 0]
    return idx


WRONG = {
    "id too large": (shmem.RoutingError, lambda a: {"topk_idx": changed_id(a["topk_idx"], a["num_experts"])}),
    "id too small": (shmem.RoutingError, lambda a: {"topk_idx": changed_id(a["topk_idx"], -2)}),
    "expert twice": (shmem.RoutingError, lambda a: {"topk_idx": twice(a["topk_idx"])}),
    "no experts": (shmem.RoutingError, lambda a: {"num_experts": 0}),
    "too many experts": (shmem.RoutingError, lambda a: {"num_experts": 1 << 20}),
    "experts not given": (shmem.ArgumentError, lambda a: {"num_experts": None}),
    "T beyond Tm": (shmem.BufferTooSmall, lambda a: {"num_max_tokens_per_rank": 3}),
    "Tm beyond the buffer": (shmem.BufferTooSmall, lambda a: {"num_max_tokens_per_rank": 1 << 20}),
    "x of fp32": (shmem.DtypeError, lambda a: {"x": a["x"].astype(np.float32)}),
    "x is a list": (shmem.DtypeError, lambda a: {"x": [[1.0]]}),
    "x in one dimension": (shmem.ArgumentError, lambda a: {"x": a["x"].reshape(-1)}),
    "x not contiguous": (shmem.LayoutError, lambda a: {"x": a["x"][:, ::2]}),
    "rows of 30 bytes": (shmem.ArgumentError, lambda a: {"x": np.zeros((len(a["x"]), 15), BF16)}),
    "fp8 with scales": (shmem.ArgumentError, lambda a: {"x": (a["x"], a["x"])}),
    "ids of int32": (shmem.DtypeError, lambda a: {"topk_idx": a["topk_idx"].astype(np.int32)}),
    "ids of fewer tokens": (shmem.ArgumentError, lambda a: {"topk_idx": a["topk_idx"][:-1]}),
    "33 selections": (shmem.ArgumentError, lambda a: {"topk_idx": np.full((len(a["x"]), 33), -1)}),
    "weights of fp64": (shmem.DtypeError, lambda a: {"topk_weights": a["topk_weights"].astype(np.float64)}),
    "weights of another K": (
        shmem.ArgumentError,
        lambda a: {"topk_weights": a["topk_weights"][:, 1:].copy()},
    ),
    "statistics of int64": (
        shmem.DtypeError,
        lambda a: {"cumulative_local_expert_recv_stats": np.zeros(8, np.int64)},
    ),
    "alignment 0": (shmem.ArgumentError, lambda a: {"expert_alignment": 0}),
    "a handle from elsewhere": (shmem.HandleError, lambda a: {"handle": "handle", "topk_idx": None}),
    "expanded": (shmem.ArgumentError, lambda a: {"do_expand": True}),
    "padding": (shmem.ArgumentError, lambda a: {"do_zero_padding": True}),
    "column-major scales": (shmem.ArgumentError, lambda a: {"use_tma_aligned_col_major_sf": True}),
    "copied handle": (shmem.ArgumentError, lambda a: {"do_handle_copy": True}),
    "no cpu sync": (shmem.ArgumentError, lambda a: {"do_cpu_sync": False}),
    "asynchronous": (shmem.ArgumentError, lambda a: {"async_with_compute_stream": True}),
    "deferred": (shmem.ArgumentError, lambda a: {"defer_epilogue": True}),
    "event": (shmem.ArgumentError, lambda a: {"previous_event": object()}),
    "queues": (shmem.ArgumentError, lambda a: {"num_qps": 1000}),
}


@pytest.mark.mpi
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_dispatch_raises_on_every_pe_and_the_buffer_stays_usable(what):
    """Wrong on all PEs, then on the last only: its own error there, SymmetryError with it on the others."""
    case = CASES[8]
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    error, change = WRONG[what]
    right = arguments(case)
    with buffer_for(case) as buffer:
        with pytest.raises(error):
            buffer.dispatch(**{**right, **change(right)})
        with pytest.raises(error if me == last else shmem.SymmetryError) as caught:
            buffer.dispatch(**(right if me != last else {**right, **change(right)}))
        if me != last:
            assert error.__name__ in caught.value.calls[last] or "refused" in caught.value.calls[last]
        recv_x, *_ = buffer.dispatch(**right)
    xs, idxs, weights = case.draw()
    same(reference.dispatch(xs, idxs, weights, right["num_experts"], TM)[me].rows, recv_x, "after the error")


DISAGREE = {
    "num_max_tokens_per_rank": lambda a, me: {"num_max_tokens_per_rank": TM - (me == 0)},
    "num_experts": lambda a, me: {"num_experts": a["num_experts"] * (2 if me == 0 else 1)},
    "topk": lambda a, me: {"topk_idx": a["topk_idx"][:, me == 0 :].copy(), "topk_weights": None},
    "hidden": lambda a, me: {"x": a["x"][:, : 128 if me == 0 else 256].copy()},
    "weights": lambda a, me: {"topk_weights": None if me == 0 else a["topk_weights"]},
    "alignment": lambda a, me: {"expert_alignment": 1 + (me == 0)},
}


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("what", DISAGREE)
def test_ranks_that_disagree_raise_on_every_pe(what):
    case = Case("disagree", lambda rank, ranks: 8, uniform, topk=8, per_rank=8)
    right = arguments(case)
    with buffer_for(case) as buffer:
        with pytest.raises(shmem.SymmetryError) as caught:
            buffer.dispatch(**{**right, **DISAGREE[what](right, shmem.my_pe())})
        assert set(caught.value.calls) == set(range(shmem.n_pes()))
        buffer.dispatch(**right)


@pytest.mark.mpi(min_size=2)
def test_different_operations_on_one_buffer_raise_on_every_pe():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
        operations = (lambda: buffer.combine(recv_x, handle), lambda: buffer.dispatch(**right))
        with pytest.raises(shmem.SymmetryError):
            operations[shmem.my_pe() % 2]()
        buffer.combine(recv_x, handle)


@pytest.mark.mpi
def test_a_changed_routing_makes_its_handle_unusable():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
        right["topk_idx"][0, 0], kept = -1, right["topk_idx"][0, 0]
        with pytest.raises(shmem.HandleError, match="topk_idx"):
            buffer.combine(recv_x, handle)
        with pytest.raises(shmem.HandleError, match="topk_idx"):
            buffer.dispatch(right["x"], handle=handle)
        right["topk_idx"][0, 0] = kept
        buffer.combine(recv_x, handle)


@pytest.mark.mpi
def test_a_handle_serves_the_buffer_that_made_it():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as one_buffer, buffer_for(case) as other:
        recv_x, *_, handle, _ = one_buffer.dispatch(**right)
        with pytest.raises(shmem.HandleError):
            other.combine(recv_x, handle)
        with pytest.raises(shmem.HandleError):
            other.dispatch(right["x"], handle=handle)
        with pytest.raises(shmem.HandleError):
            one_buffer.dispatch(right["x"], handle=handle, num_experts=right["num_experts"] * 2)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("error", "change"),
    [
        (shmem.DtypeError, lambda x, t: {"x": x.astype(np.float32)}),
        (shmem.ArgumentError, lambda x, t: {"x": np.concatenate([x, x[:1]])}),
        (shmem.ArgumentError, lambda x, t: {"topk_weights": np.zeros((len(x), 3), np.float32)}),
        (shmem.DtypeError, lambda x, t: {"topk_weights": np.zeros((len(x), 8))}),
        (shmem.ArgumentError, lambda x, t: {"bias": (np.zeros((t, x.shape[1]), BF16),)}),
        (shmem.ArgumentError, lambda x, t: {"bias": (np.zeros((t, x.shape[1]), BF16),) * 3}),
        (shmem.ArgumentError, lambda x, t: {"bias": np.zeros((t + 1, x.shape[1]), BF16)}),
        (shmem.DtypeError, lambda x, t: {"bias": np.zeros((t, x.shape[1]), np.float32)}),
        (shmem.BufferTooSmall, lambda x, t: {"x": np.zeros((len(x), 1 << 16), BF16)}),
        (shmem.HandleError, lambda x, t: {"handle": None}),
        (shmem.ArgumentError, lambda x, t: {"defer_epilogue": True}),
    ],
)
def test_a_wrong_combine_raises_on_every_pe(error, change):
    case = CASES[0]
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
        wrong = {"x": recv_x, "handle": handle, **change(recv_x, len(right["x"]))}
        with pytest.raises(error):
            buffer.combine(**wrong)
        with pytest.raises(error if me == last else shmem.SymmetryError):
            buffer.combine(**(wrong if me == last else {"x": recv_x, "handle": handle}))
        buffer.combine(recv_x, handle)


@pytest.mark.mpi
def test_a_synchronous_event_is_not_waited_for():
    right = arguments(CASES[0])
    with buffer_for(CASES[0]) as buffer:
        *_, event = buffer.dispatch(**right)
    assert event.event is None
    for wait in (event.wait, event.current_stream_wait, event):
        with pytest.raises(shmem.EventError) as caught:
            wait()
        assert isinstance(caught.value, AssertionError)
    with event:
        pass


@pytest.mark.mpi
def test_destroy_twice_is_once_and_use_after_it_raises():
    case = CASES[0]
    right = arguments(case)
    with buffer_for(case) as buffer:
        recv_x, *_, handle, _ = buffer.dispatch(**right)
    buffer.destroy()
    for use in (
        lambda: buffer.dispatch(**right),
        lambda: buffer.combine(recv_x, handle),
        buffer.barrier,
    ):
        with pytest.raises(shmem.StateError):
            use()


@pytest.mark.mpi
@pytest.mark.parametrize(
    "settings",
    [
        {"num_max_tokens_per_rank": 0, "hidden": 256},
        {"num_max_tokens_per_rank": 8, "hidden": 0},
        {"num_bytes": 1000},
        {"num_bytes": -(2 << 20)},
        {"num_bytes": 2 << 20, "lb_allocation_plan_or_num_bytes": 2 << 20},
        {"num_bytes": 2 << 20, "group": "world"},
    ],
)
def test_wrong_settings_raise_on_every_pe(settings):
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    with pytest.raises(shmem.ArgumentError):
        EPBuffer(**settings)
    with pytest.raises(shmem.ArgumentError if me == last else shmem.SymmetryError):
        EPBuffer(**(settings if me == last else {"num_bytes": 2 << 20}))


@pytest.mark.mpi(min_size=2)
def test_settings_that_differ_raise_on_every_pe():
    with pytest.raises(shmem.SymmetryError):
        EPBuffer(num_bytes=(2 + 2 * (shmem.my_pe() == 0)) << 20)


@pytest.mark.mpi
def test_a_buffer_has_the_size_of_its_hint():
    shape = {"num_max_tokens_per_rank": 64, "hidden": 512, "num_topk": 4}
    hint = EPBuffer.get_buffer_size_hint(None, **shape)
    buffer = EPBuffer(**shape, explicitly_destroy=True)
    assert buffer.num_bytes == hint
    assert buffer.get_logical_domain_size() == (1, shmem.n_pes())
    buffer.destroy()
    buffer = EPBuffer(num_bytes=4 << 20, **shape, explicitly_destroy=True)
    assert buffer.num_bytes == 4 << 20
    buffer.destroy()
