"""Contexts: each has its own order and completion, its own team, and an end; counters show what `direct` hides.

On `direct` everything sent has arrived, so no value can show that a quiet on one context says nothing of another: what
was sent since a context's last quiet is counted, and the counts are independent.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import shmem
from shmem import CTX, CTX_DEFAULT, CTX_INVALID, ContextError, Ctx

from .data import payload

pytestmark = pytest.mark.mpi


def live():
    return len(shmem.runtime.current().contexts)


@pytest.fixture(autouse=True)
def no_context_left():
    yield
    assert live() == 0


@pytest.fixture
def x():
    words = shmem.zeros((4, 8), np.int64)
    yield words
    shmem.free(words)


# Every routine that takes a context: how often it counts as pending, and what it makes of word 0, which was 3, on `pe`.
# fmt: off
SENDS = {
    "put": (1, lambda w, pe, ctx: shmem.put(w[0, :1], np.array([7]), pe, None, ctx), 7),
    "put ctx=": (1, lambda w, pe, ctx: shmem.put(w[0, :1], np.array([7]), pe, ctx=ctx), 7),
    "put strided": (1, lambda w, pe, ctx: shmem.put(w[0, ::2], np.arange(4) + 7, pe, ctx=ctx), 7),
    "put_nbi": (1, lambda w, pe, ctx: shmem.put_nbi(w[0, :1], np.array([7]), pe, ctx=ctx), 7),
    "get": (0, lambda w, pe, ctx: shmem.get(np.empty(8, np.int64), w[0], pe, ctx=ctx), 3),
    "get_nbi": (1, lambda w, pe, ctx: shmem.get_nbi(np.empty(8, np.int64), w[0], pe, ctx=ctx), 3),
    "p": (1, lambda w, pe, ctx: shmem.p(w[0, :1], 7, pe, ctx), 7),
    "g": (0, lambda w, pe, ctx: shmem.g(w[0, :1], pe, ctx), 3),
    "atomic_fetch": (0, lambda w, pe, ctx: shmem.atomic_fetch(w[0, :1], pe, ctx), 3),
    "atomic_set": (1, lambda w, pe, ctx: shmem.atomic_set(w[0, :1], 7, pe, ctx), 7),
    "atomic_add": (1, lambda w, pe, ctx: shmem.atomic_add(w[0, :1], 7, pe, ctx=ctx), 10),
    "atomic_inc": (1, lambda w, pe, ctx: shmem.atomic_inc(w[0, :1], pe, ctx), 4),
    "atomic_and": (1, lambda w, pe, ctx: shmem.atomic_and(w[0, :1], 1, pe, ctx), 1),
    "atomic_or": (1, lambda w, pe, ctx: shmem.atomic_or(w[0, :1], 4, pe, ctx), 7),
    "atomic_xor": (1, lambda w, pe, ctx: shmem.atomic_xor(w[0, :1], 1, pe, ctx), 2),
    "atomic_swap": (0, lambda w, pe, ctx: shmem.atomic_swap(w[0, :1], 7, pe, ctx), 7),
    "atomic_compare_swap": (0, lambda w, pe, ctx: shmem.atomic_compare_swap(w[0, :1], 3, 7, pe, ctx), 7),
    "atomic_fetch_add": (0, lambda w, pe, ctx: shmem.atomic_fetch_add(w[0, :1], 1, pe, ctx), 4),
    "atomic_fetch_inc": (0, lambda w, pe, ctx: shmem.atomic_fetch_inc(w[0, :1], pe, ctx), 4),
    "atomic_fetch_and": (0, lambda w, pe, ctx: shmem.atomic_fetch_and(w[0, :1], 2, pe, ctx), 2),
    "atomic_fetch_or": (0, lambda w, pe, ctx: shmem.atomic_fetch_or(w[0, :1], 4, pe, ctx), 7),
    "atomic_fetch_xor": (0, lambda w, pe, ctx: shmem.atomic_fetch_xor(w[0, :1], 2, pe, ctx), 1),
    "put_signal": (1, lambda w, pe, ctx: shmem.put_signal(
        w[0, :1], np.array([7]), pe, w[1, :1].view("u8"), 1, shmem.SIGNAL_SET, None, ctx), 7),
    "put_signal_nbi": (1, lambda w, pe, ctx: shmem.put_signal_nbi(
        w[0, :1], np.array([7]), pe, w[1, :1].view("u8"), 1, shmem.SIGNAL_ADD, ctx=ctx), 7),
    "signal_set": (1, lambda w, pe, ctx: shmem.signal_set(w[0, :1].view("u8"), 7, pe, ctx), 7),
    "signal_add": (1, lambda w, pe, ctx: shmem.signal_add(w[0, :1].view("u8"), 7, pe, ctx), 10),
    "put_lines": (1, lambda w, pe, ctx: shmem.put_lines(w[0, :1], np.array([7], "i4"), pe, shmem.LL, 0, ctx), 7),
}
# fmt: on


@pytest.mark.core
@pytest.mark.parametrize(("counts", "send", "result"), SENDS.values(), ids=SENDS)
def test_every_routine_goes_by_its_context_and_no_other(x, counts, send, result):
    """On the context of a backwards team: the PE is the team's, and one queue counts."""
    n, me = shmem.n_pes(), shmem.my_pe()
    team = shmem.TEAM_WORLD.split_strided(n - 1, -1)
    ctx, other, of_all = team.create_ctx(), team.create_ctx(), shmem.ctx_create()
    for pe in range(n):
        x[...] = 3
        x[1] = 0
        shmem.barrier_all()
        if me == 0:
            before = [CTX_DEFAULT.pending(), other.pending(), of_all.pending()]
            send(x, pe, ctx)
            assert ctx.pending() == counts
            assert [CTX_DEFAULT.pending(), other.pending(), of_all.pending()] == before
            ctx.quiet()
            assert ctx.pending() == 0
        shmem.barrier_all()
        assert x[0, 0] == (result if me == n - 1 - pe else 3)
    numbers = f"PEs 0 to {n - 1}" if n > 1 else "PE 0 only"
    with pytest.raises(shmem.InvalidPE, match=f"PE {n} does not exist: Team 2 of PEs {n - 1}.* has {numbers}$"):
        send(x, n, ctx)
    of_all.destroy()
    team.destroy()
    assert live() == 0
    for gone in (ctx, other, of_all, CTX_INVALID):
        with pytest.raises(ContextError):
            send(x, 0, gone)
    shmem.barrier_all()


@pytest.mark.core
def test_a_quiet_completes_its_own_context_only(x):
    me = shmem.my_pe()
    contexts = [shmem.ctx_create() for _ in range(3)]
    every = [CTX_DEFAULT, *contexts]
    shmem.quiet()
    quiets = {
        0: lambda: shmem.quiet(),
        1: lambda: shmem.quiet(contexts[0]),
        2: lambda: contexts[1].quiet(),
        3: lambda: shmem.pe_quiet(range(shmem.n_pes()), contexts[2]),
    }
    for which, quiet in quiets.items():
        for i, ctx in enumerate(every):
            ctx.quiet()
            for k in range(i + 1):
                shmem.p(x[i, k : k + 1], k, me, ctx)
        assert [ctx.pending() for ctx in every] == [1, 2, 3, 4]
        for ctx in every:
            ctx.fence()
            shmem.fence(ctx)
            shmem.pe_quiet([], ctx)
        assert [ctx.pending() for ctx in every] == [1, 2, 3, 4]
        quiet()
        left = [ctx.pending() for ctx in every]
        # pe_quiet of some PEs says nothing of others, and a counter is one for all of them
        assert left == [0 if i == which < 3 else i + 1 for i in range(4)]
    shmem.barrier_all()
    assert [ctx.pending() for ctx in every] == [0, 2, 3, 4]
    for ctx in contexts:
        shmem.ctx_destroy(ctx)


def test_a_batch_runs_on_a_context(x):
    n, me = shmem.n_pes(), shmem.my_pe()
    right = (me + 1) % n
    ctx = shmem.team_create_ctx(shmem.TEAM_WORLD)
    batch = shmem.Batch()
    batch.put(x[0], payload(np.dtype("i8"), 8, me), right)
    batch.atomic_add(x, 8, me + 1, right)
    shmem.quiet()
    batch.run(ctx)
    assert (ctx.pending(), CTX_DEFAULT.pending()) == (2, 0)
    with shmem.Stream() as stream:
        batch.launch(stream, ctx).wait()
    assert (ctx.pending(), CTX_DEFAULT.pending()) == (4, 0)
    ctx.quiet()
    shmem.barrier_all()
    left = (me - 1) % n
    assert x[0].tolist() == payload(np.dtype("i8"), 8, left).tolist()
    assert x[1, 0] == 2 * (left + 1)
    ctx.destroy()
    for run in (batch.run, lambda ctx: batch.launch(shmem.Stream(), ctx)):
        with pytest.raises(ContextError):
            run(ctx)
    for stream in list(shmem.runtime.current().streams):
        stream.close()


@pytest.mark.core
def test_contexts_of_all_pes_and_of_teams():
    n, me = shmem.n_pes(), shmem.my_pe()
    one = shmem.team_from_pes([n - 1])
    assert CTX_DEFAULT.get_team() == shmem.ctx_get_team(CTX_DEFAULT) == shmem.TEAM_WORLD
    for make in (shmem.ctx_create, Ctx.create, CTX_DEFAULT.create, shmem.TEAM_WORLD.create_ctx):
        with make() as ctx:
            assert shmem.ctx_get_team(ctx) == ctx.get_team() == shmem.TEAM_WORLD
    for make in (lambda team: Ctx.create(0, team), lambda team: Ctx.create(team=team), shmem.team_create_ctx):
        if me == n - 1:
            with make(one) as ctx:
                assert ctx.get_team() == shmem.ctx_get_team(ctx) == one
                assert repr(ctx) == f"Ctx {ctx._made.q} of Team 2 of PEs {n - 1}"
        else:  # no member
            with pytest.raises(shmem.TeamError, match="TEAM_INVALID"):
                make(one)
    one.destroy()
    with shmem.TEAM_SHARED.create_ctx() as ctx:
        assert ctx.get_team() == shmem.TEAM_SHARED


@pytest.mark.parametrize("options", range(8))
def test_options(options):
    with shmem.ctx_create(options) as ctx:
        assert ctx._made.options == CTX(options)
    with Ctx.create(CTX(options), shmem.TEAM_WORLD) as ctx:
        ctx.quiet()
    assert CTX(7) == shmem.CTX_PRIVATE | shmem.CTX_SERIALIZED | shmem.CTX_NOSTORE


@pytest.mark.parametrize("wrong", [8, -1, "1", None, 1.0, shmem.SIGNAL_ADD, shmem.CTX_SESSION_BATCH])
def test_options_that_are_none(wrong):
    with pytest.raises(ContextError, match="must be made of CTX_PRIVATE, CTX_SERIALIZED, CTX_NOSTORE"):
        shmem.ctx_create(wrong)


def refusal(call, ctx):
    try:
        call(ctx)
    except ContextError as error:
        return str(error)
    return None


def test_a_private_context_is_its_threads_alone(x):
    me = shmem.my_pe()
    private, shared = shmem.ctx_create(shmem.CTX_PRIVATE), shmem.ctx_create(shmem.CTX_SERIALIZED)
    told = []

    def use():
        calls = (lambda c: shmem.p(x[0, :1], 1, me, c), shmem.quiet, lambda c: c.fence(), shmem.ctx_destroy)
        told.extend(refusal(call, ctx) for ctx in (private, shared) for call in calls)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert told == [f"{private} is private to the thread that made it"] * 4 + [None] * 4
    private.quiet()
    private.destroy()


def test_threads_with_contexts_of_their_own():
    """Each worker counts on every PE with its own context, and its quiet covers what it sent."""
    n, workers = shmem.n_pes(), 4
    words, done = shmem.zeros(workers, np.int64), shmem.zeros(1, np.uint64)

    def work(i):
        with shmem.ctx_create(shmem.CTX_PRIVATE) as ctx:
            for _ in range(50):
                for pe in range(n):
                    shmem.atomic_add(words[i : i + 1], i + 1, pe, ctx)
            assert ctx.pending() == 50 * n
            ctx.quiet()
            for pe in range(n):
                shmem.signal_add(done, 1, pe, ctx)

    shmem.workers(workers, work)
    shmem.signal_wait_until(done, "==", n * workers)
    assert words.tolist() == [50 * n * (i + 1) for i in range(workers)]
    shmem.free(done)
    shmem.free(words)


def test_handles():
    assert Ctx() == Ctx(None) == CTX_INVALID
    for wrong in (123, "ctx", shmem.TEAM_WORLD):
        with pytest.raises(TypeError, match="is not a context"):
            Ctx(wrong)
    ctx, other = shmem.ctx_create(), shmem.ctx_create()
    handle = Ctx(ctx)
    assert handle is not ctx
    assert handle == ctx
    assert hash(handle) == hash(ctx)
    assert len({ctx, handle, other, CTX_DEFAULT, CTX_INVALID}) == 4
    assert ctx not in (other, CTX_DEFAULT, CTX_INVALID, 1)
    assert [bool(one) for one in (ctx, handle, CTX_DEFAULT, CTX_INVALID)] == [True, True, True, False]
    assert [repr(CTX_DEFAULT), repr(CTX_INVALID)] == ["CTX_DEFAULT", "CTX_INVALID"]
    assert [repr(ctx), repr(other)] == [f"Ctx {one._made.q} of TEAM_WORLD" for one in (ctx, other)]
    ctx.destroy()
    assert not handle
    assert ctx == handle == CTX_INVALID
    other.destroy()


def test_destroying():
    for ctx in (CTX_DEFAULT, CTX_INVALID):
        with ctx as same:
            assert same is ctx
        ctx.destroy()
        shmem.ctx_destroy(ctx)
    assert CTX_DEFAULT
    handle = Ctx(CTX_DEFAULT)
    handle.destroy()  # the handle goes, the context stays
    assert not handle
    assert CTX_DEFAULT
    with shmem.ctx_create() as ctx:
        ctx.destroy()
        ctx.destroy()
    with pytest.raises(ContextError, match="destroyed Ctx"):
        shmem.ctx_destroy(ctx)


def test_a_destroy_that_is_interrupted_has_destroyed_nothing(x, monkeypatch):
    c, source = shmem.ctx_create(), np.arange(8)
    shmem.put_nbi(x[0], source, shmem.my_pe(), ctx=c)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shmem.runtime.current().fabric, "complete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            shmem.ctx_destroy(c)
    assert live() == 1
    assert c.pending() == 1
    c.quiet(timeout=20)
    assert c.pending() == 0
    shmem.ctx_destroy(c)
    with pytest.raises(ContextError):
        c.pending()


def test_a_destroyed_context_leaves_nothing_to_the_next(x):
    first = shmem.ctx_create()
    shmem.p(x[0, :1], 1, shmem.my_pe(), first)
    shmem.ctx_session_start(first, shmem.CTX_SESSION_BATCH)
    first.destroy()
    second = shmem.ctx_create()
    assert (second._made.q, second.pending(), second.session) == (first._made.q, 0, None)
    assert first != second
    assert not first
    second.destroy()


ASKS = {
    "quiet": shmem.quiet,
    "fence": shmem.fence,
    "pe_quiet": lambda ctx: shmem.pe_quiet([0], ctx),
    "pe_quiet of nobody": lambda ctx: shmem.pe_quiet([], ctx),
    "team": shmem.ctx_get_team,
    "session_start": shmem.ctx_session_start,
    "session_stop": shmem.ctx_session_stop,
    ".quiet": lambda ctx: ctx.quiet(),
    ".fence": lambda ctx: ctx.fence(),
    ".get_team": lambda ctx: ctx.get_team(),
    ".pending": lambda ctx: ctx.pending(),
    ".session": lambda ctx: ctx.session,
}


@pytest.mark.parametrize("name", ASKS)
def test_invalid_and_destroyed_contexts_refuse(name):
    gone = shmem.ctx_create()
    gone.destroy()
    for ctx, text in ((gone, "destroyed Ctx"), (CTX_INVALID, "CTX_INVALID"), (7, "7 is not a context")):
        if ctx is CTX_INVALID and name.startswith("session"):
            ASKS[name](ctx)
        elif not (ctx == 7 and name.startswith(".")):
            with pytest.raises(RuntimeError, match=text) as caught:
                ASKS[name](ctx)
            assert isinstance(caught.value, ContextError)
            assert caught.value.pe == shmem.my_pe()


def test_pe_quiet_takes_numbers_of_the_team():
    n, me = shmem.n_pes(), shmem.my_pe()
    with shmem.team_from_pes([0]) as team:
        if me == 0:
            with team.create_ctx() as ctx:
                shmem.pe_quiet([0, 0], ctx)
                for wrong in (1, -1):
                    with pytest.raises(shmem.InvalidPE, match="Team 2 of PEs 0 has PE 0 only"):
                        shmem.pe_quiet([wrong], ctx)
    shmem.pe_quiet(n - 1)


def test_sixty_four_contexts_and_no_more():
    contexts = [shmem.ctx_create() for _ in range(64)]
    for make in (shmem.ctx_create, shmem.TEAM_SHARED.create_ctx):
        with pytest.raises(ContextError, match="64 contexts exist already: destroy one first") as caught:
            make()
        assert caught.value.pe == shmem.my_pe()
    contexts.pop(20).destroy()
    contexts.append(shmem.ctx_create())
    assert len(set(contexts)) == len({ctx._made.q for ctx in contexts}) == 64
    for ctx in contexts:
        ctx.destroy()
    for _ in range(200):
        with shmem.ctx_create() as ctx:
            assert ctx.pending() == 0


def test_finalize_completes_and_ends_contexts(fresh_heap):
    ctx, fabric = shmem.ctx_create(), shmem.runtime.current().fabric
    shmem.get_nbi(np.zeros(1), shmem.full(1, 2.0), shmem.my_pe(), ctx=ctx)
    assert fabric.pending(ctx._made.q) == 1
    shmem.finalize()
    assert fabric.pending(ctx._made.q) == 0
    assert not ctx
    with pytest.raises(shmem.StateError):
        ctx.quiet()
    shmem.init()
    new = shmem.ctx_create()
    assert new != ctx
    with pytest.raises(ContextError):
        ctx.fence()
    new.destroy()
