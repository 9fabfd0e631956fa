"""Sessions: hints about the transfers to come, which change nothing of what a context gives."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem import CTX_DEFAULT, CTX_INVALID, CTX_SESSION, CTX_SESSION_BATCH, Session

pytestmark = pytest.mark.mpi


@pytest.fixture(params=["default", "none", "own", "team"])
def ctx(request):
    if request.param in ("default", "none"):
        yield CTX_DEFAULT if request.param == "default" else None
        return
    with shmem.ctx_create() if request.param == "own" else shmem.TEAM_SHARED.create_ctx() as made:
        yield made


def session_of(ctx):
    return (CTX_DEFAULT if ctx is None else ctx).session


@pytest.mark.core
def test_starts_add_up_and_a_second_stop_is_nothing(ctx):
    assert session_of(ctx) is None
    shmem.ctx_session_stop(ctx)
    shmem.ctx_session_start(ctx)
    assert session_of(ctx) == Session(CTX_SESSION(0), None)
    shmem.ctx_session_start(ctx, 0, 100)
    shmem.ctx_session_start(ctx, CTX_SESSION_BATCH)
    assert session_of(ctx) == Session(CTX_SESSION_BATCH, 100)
    shmem.ctx_session_start(ctx, total_ops=np.int64(7))
    assert session_of(ctx) == Session(CTX_SESSION_BATCH, 7)
    shmem.ctx_session_stop(ctx)
    shmem.ctx_session_stop(ctx)
    assert session_of(ctx) is None
    shmem.ctx_session_start(ctx, 1)
    assert session_of(ctx) == Session(CTX_SESSION_BATCH, None)
    shmem.ctx_session_stop(ctx)


def test_sessions_of_contexts_are_their_own():
    with shmem.ctx_create() as one, shmem.ctx_create() as two:
        shmem.ctx_session_start(one, total_ops=1)
        shmem.ctx_session_start(two, total_ops=2)
        assert [ctx.session and ctx.session.total_ops for ctx in (CTX_DEFAULT, one, two)] == [None, 1, 2]
        shmem.ctx_session_stop(one)
        assert [ctx.session and ctx.session.total_ops for ctx in (CTX_DEFAULT, one, two)] == [None, None, 2]


@pytest.mark.core
def test_transfers_are_what_they_are_without(ctx):
    """More of them than were announced, and of other kinds; a stop completes nothing."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, count = shmem.zeros((n, 4), np.int64), shmem.zeros(1, np.int64)
    shmem.quiet(ctx)
    shmem.ctx_session_start(ctx, CTX_SESSION_BATCH, 1)
    for pe in range(n):
        shmem.put(x[me], np.arange(4) + 10 * me + pe, pe, ctx=ctx)
        shmem.atomic_add(count, me + 1, pe, ctx)
    waiting = (ctx or CTX_DEFAULT).pending()
    shmem.ctx_session_stop(ctx)
    assert (ctx or CTX_DEFAULT).pending() == waiting == 2 * n
    shmem.quiet(ctx)
    shmem.barrier_all()
    assert x.tolist() == [[10 * sender + me + i for i in range(4)] for sender in range(n)]
    assert count[0] == sum(range(1, n + 1))
    shmem.barrier_all()
    shmem.free(count)
    shmem.free(x)


def test_the_invalid_context_has_no_sessions():
    shmem.ctx_session_start(CTX_INVALID, CTX_SESSION_BATCH, 3)
    shmem.ctx_session_stop(CTX_INVALID)
    assert CTX_DEFAULT.session is None


@pytest.mark.parametrize("options", [2, -1, "1", shmem.CTX_PRIVATE, shmem.SIGNAL_ADD, None])
def test_other_options_are_refused(options):
    with pytest.raises(shmem.ContextError, match="must be made of CTX_SESSION_BATCH"):
        shmem.ctx_session_start(CTX_DEFAULT, options)
    assert CTX_DEFAULT.session is None


@pytest.mark.parametrize("total", [-1, 1.5, "4"])
def test_other_totals_are_refused(total):
    with pytest.raises(shmem.ArgumentError, match="total_ops"):
        shmem.ctx_session_start(CTX_DEFAULT, 0, total)
    assert CTX_DEFAULT.session is None


def test_a_session_ends_with_its_job(fresh_heap):
    shmem.ctx_session_start(CTX_DEFAULT, CTX_SESSION_BATCH)
    shmem.finalize()
    shmem.init()
    assert CTX_DEFAULT.session is None
