"""Race programs, second part: one PE to one word, and what orders two PEs. See `race_programs`."""

from __future__ import annotations

from .race_programs import case

# ---- the same origin ----

SAME = "One PE to the same word"
case(SAME, "two puts: fence", "0: *put(x, b, 1); *put(x, b, 1)",
     "0: put(x, b, 1); fence(); put(x, b, 1)", "no fence or quiet between")  # fmt: skip
case(SAME, "two puts: quiet", "0: *put_nbi(x, b, 1); *put_nbi(x, b, 1)",
     "0: put_nbi(x, b, 1); quiet(); put_nbi(x, b, 1)", "no fence or quiet between")  # fmt: skip
case(SAME, "two puts on a context: its own quiet",
     "0: *put(x, b, 1, ctx=c); quiet(); *put(x, b, 1, ctx=c)",
     "0: put(x, b, 1, ctx=c); quiet(c); put(x, b, 1, ctx=c)", "different context: the quiet")  # fmt: skip
case(SAME, "two puts on a context: its own fence",
     "0: *put(x, b, 1, ctx=c); fence(); *put(x, b, 1, ctx=c)",
     "0: put(x, b, 1, ctx=c); fence(c); put(x, b, 1, ctx=c)", "different context: the fence")  # fmt: skip
case(SAME, "a fence orders within a context, a quiet between two",
     "0: *put(x, b, 1, ctx=c); fence(c); *put(x, b, 1, ctx=d)",
     "0: put(x, b, 1, ctx=c); quiet(c); put(x, b, 1, ctx=d)", "no quiet between")  # fmt: skip
case(SAME, "two atomics", None, "0: atomic_add(x, 1, 1); atomic_set(x, 1, 1)")
case(SAME, "put, then get", "0: *put(x, b, 1); *get(a, x, 1)",
     "0: put(x, b, 1); quiet(); get(a, x, 1)", "no quiet between")  # fmt: skip
case(SAME, "put, fence, get", "0: *put(x, b, 1); fence(); *get(a, x, 1)",
     "0: put(x, b, 1); quiet(); get(a, x, 1)", "a fence orders no gets")  # fmt: skip
case(SAME, "get_nbi, fence, put", "0: *get_nbi(a, x, 1); fence(); *put(x, b, 1)",
     "0: get_nbi(a, x, 1); quiet(); put(x, b, 1)", "fence does not cover gets")  # fmt: skip
case(SAME, "a blocking get is over", "0: *get_nbi(a, x, 1); *put(x, b, 1)",
     "0: get(a, x, 1); put(x, b, 1)", "no quiet between")  # fmt: skip
case(SAME, "put and atomic", "0: *put(x, b, 1); *atomic_add(x, 1, 1)",
     "0: put(x, b, 1); fence(); atomic_add(x, 1, 1)", "no fence or quiet between")  # fmt: skip
case(SAME, "the quiet of another PE", "0: *put(x, b, 1); pe_quiet(2); *put(x, b, 1)",
     "0: put(x, b, 1); pe_quiet(1); put(x, b, 1)", "of another PE", pes=3)  # fmt: skip
case(SAME, "ctx_destroy completes", "0: *put(x, b, 1, ctx=c); *put(x, b, 1)",
     "0: put(x, b, 1, ctx=c); c.destroy(); put(x, b, 1)", "no quiet between")  # fmt: skip
case(SAME, "a put to oneself, and a load", "0: *put(x, b, 0); *int(x[0])",
     "0: put(x, b, 0); quiet(); int(x[0])", "no quiet between")  # fmt: skip

# ---- atomics of different kinds ----

MIXED = "Atomics that do not exclude each other"
case(MIXED, "signed and unsigned, one origin", "0: *atomic_add(x, 1, 1); *atomic_add(x.view(np.int64), 1, 1)",
     "0: atomic_add(x, 1, 1); fence(); atomic_add(x.view(np.int64), 1, 1)", "different types (U64, I64)")  # fmt: skip
case(MIXED, "four and eight bytes", "0: *atomic_add(x, 1, 2) / 1: *atomic_add(x.view(np.uint32)[:1], 1, 2)",
     "0: atomic_add(x, 1, 2) / 1: atomic_add(x, 1, 2)", "different types")  # fmt: skip
case(MIXED, "a fetch of another type", "0: *atomic_add(x, 1, 2) / 1: *atomic_fetch(x.view(np.int64), 2)",
     "0: atomic_add(x, 1, 2) / 1: atomic_fetch(x, 2)", "different types")  # fmt: skip
case(MIXED, "a signal and an atomic of another type",
     "0: *signal_add(x, 1, 2) / 1: *atomic_add(x.view(np.int64), 1, 2)",
     "0: signal_add(x, 1, 2) / 1: atomic_add(x, 1, 2)", "different types")  # fmt: skip
case(MIXED, "domains of TEAM_WORLD and TEAM_SHARED",
     "0: *atomic_add(x, 1, 2) / 1: *atomic_add(x, 1, 2, ctx=shared)",
     "0: atomic_add(x, 1, 2) / 1: atomic_add(x, 1, 2, ctx=c)", "different domains")  # fmt: skip
case(MIXED, "a team split from TEAM_SHARED is of its domain",
     "0: *atomic_add(x, 1, 2) / 1: *atomic_add(x, 1, 2, ctx=part)",
     "0: atomic_add(x, 1, 2, ctx=shared) / 1: atomic_add(x, 1, 2, ctx=part)", "different domains")  # fmt: skip
case(MIXED, "a team split from that, too",
     "0: *atomic_add(x, 1, 2, ctx=some) / 1: *atomic_add(x, 1, 2, ctx=row)",
     "0: atomic_add(x, 1, 2, ctx=part) / 1: atomic_add(x, 1, 2, ctx=row)", "different domains")  # fmt: skip
case(MIXED, "a team split from TEAM_WORLD is of its domain",
     "0: *atomic_add(x, 1, 2, ctx=shared) / 1: *atomic_add(x, 1, 2, ctx=some)",
     "0: atomic_add(x, 1, 2) / 1: atomic_add(x, 1, 2, ctx=some)", "different domains")  # fmt: skip

# ---- edges ----

EDGE = "What orders two PEs"
case(EDGE, "quiet and sync", "0: *put(x, b, 1); sync_all() / 1: sync_all(); *int(x[0])",
     "0: put(x, b, 1); quiet(); sync_all() / 1: sync_all(); int(x[0])",
     "no fence or quiet between")  # fmt: skip
case(EDGE, "barrier", "0: *put(x, b, 1) / 1: *int(x[0])",
     "0: put(x, b, 1); barrier_all() / 1: barrier_all(); int(x[0])", "no synchronization")  # fmt: skip
case(EDGE, "barrier completes the default context only",
     "0: *put(x, b, 1, ctx=c); barrier_all() / 1: barrier_all(); *int(x[0])",
     "0: put(x, b, 1, ctx=c); quiet(c); barrier_all() / 1: barrier_all(); int(x[0])",
     "different context")  # fmt: skip
case(EDGE, "sync of a team with both",
     "0: *put(x, b, 2); quiet(); sync(pair) / 1: sync(pair) / 2: *int(x[0])",
     "0: put(x, b, 2); quiet(); sync(three) / 1: sync(three) / 2: sync(three); int(x[0])",
     "no synchronization between PE 0 and PE 2")  # fmt: skip
case(EDGE, "put, fence, atomic_set, wait_until",
     "0: *put(x, b, 1); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); *int(x[0])",
     "0: put(x, b, 1); fence(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); int(x[0])",
     "no fence or quiet between")  # fmt: skip
case(EDGE, "a fence is of one context",
     "0: *put(x, b, 1, ctx=c); fence(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); *int(x[0])",
     "0: put(x, b, 1, ctx=c); fence(c); atomic_set(y, 1, 1, ctx=c) / 1: wait_until(y, '==', 1); int(x[0])",
     "different context")  # fmt: skip
case(EDGE, "a fence orders what goes to one PE",
     "0: *put(x, b, 2); fence(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); *get(a, x, 2)",
     "0: put(x, b, 2); quiet(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); get(a, x, 2)",
     "a fence orders only what goes to the same PE")  # fmt: skip
_SIGNAL = "0: put_signal(x, b, 1, s, 1, SET) / 1: "
case(EDGE, "put_signal and signal_wait_until: its payload", "0: *put(x, b, 1); signal_set(s, 1, 1) / "
     "1: signal_wait_until(s, '==', 1); *int(x[0])", _SIGNAL + "signal_wait_until(s, '==', 1); int(x[0])",
     "no fence or quiet between")  # fmt: skip
case(EDGE, "put_signal and wait_until", None, _SIGNAL + "wait_until(s, '==', 1); int(x[0])")
case(EDGE, "put_signal and signal_fetch", _SIGNAL.replace("put", "*put", 1) + "signal_fetch(s); *int(x[0])",
     {0: ["put_signal(x, b, 1, s, 1, SET)"],
      1: ["while not signal_fetch(s):", "    spin()", "int(x[0])"]}, "", always=False)  # fmt: skip
case(EDGE, "test that is true", _SIGNAL.replace("put", "*put", 1) + "test(s, '==', 1); *int(x[0])",
     {0: ["put_signal(x, b, 1, s, 1, SET)"],
      1: ["if test(s, '==', 1):", "    int(x[0])"]}, "", always=False)  # fmt: skip
case(EDGE, "a signal covers nothing that came before, but for a fence",
     "0: *put(y, b, 1); put_signal(x, b, 1, s, 1, SET) / "
     "1: signal_wait_until(s, '==', 1); *int(y[0])",
     "0: put(y, b, 1); fence(); put_signal(x, b, 1, s, 1, SET) / "
     "1: signal_wait_until(s, '==', 1); int(y[0])", "no fence or quiet between")  # fmt: skip
case(EDGE, "a strided put_signal covers nothing that came before, either",
     "0: *put(x, b, 1); put_signal(v[::2], b4[:2], 1, s, 1, SET) / 1: signal_wait_until(s, '==', 1); *int(x[0])",
     "0: put_signal(v[::2], b4[:2], 1, s, 1, SET) / 1: signal_wait_until(s, '==', 1); int(v[0]); int(v[2])",
     "no fence or quiet between")  # fmt: skip
case(EDGE, "nor what lies between its elements",
     "0: put_signal(v[::2], b4[:2], 1, s, 1, SET) / 1: signal_wait_until(s, '==', 1) / 2: *put(v[1:3], b4[:2], 1)"
     .replace("put_signal", "*put_signal", 1),
     "0: put_signal(v[::2], b4[:2], 1, s, 1, SET) / 1: v[1] = 2; signal_wait_until(s, '==', 1); int(v[2])"
     " / 2: put(v[3:4], b, 1)", "no synchronization between PE 0 and PE 2")  # fmt: skip
case(EDGE, "its word may lie there", "0: *put_signal(v[::2], b4[:2], 1, v[1:2], 1, SET) / 1: *v[2] = 1",
     "0: put_signal(v[::2], b4[:2], 1, v[1:2], 1, SET) / 1: signal_wait_until(v[1:2], '==', 1); v[2] = 1",
     "no synchronization")  # fmt: skip
case(EDGE, "a count that is complete",
     "0,1: *put_signal(v[:1], b, 2, s, 1, ADD) / 2: signal_wait_until(s, '>=', 1)",
     "0: put_signal(v[:1], b, 2, s, 1, ADD) / 1: put_signal(v[1:2], b, 2, s, 1, ADD)"
     " / 2: signal_wait_until(s, '>=', 2); int(v[0]); int(v[1])", "no synchronization between PE")  # fmt: skip
case(EDGE, "a count of one does not say whose", {
    0: ["put_signal(v[:1], b, 2, s, 1, ADD)"],
    1: ["*put_signal(v[1:2], b, 2, s, 1, ADD)"],
    2: ["signal_wait_until(s, '>=', 1)", "*int(v[1])"]},
     "0: put_signal(v[:1], b, 2, w[:1], 1, SET) / 1: put_signal(v[1:2], b, 2, w[1:], 1, SET)"
     " / 2: signal_wait_until(w[1:], '==', 1); int(v[1])", "no synchronization between PE 1 and PE 2",
     always=False)  # fmt: skip
case(EDGE, "which word a wait for any took", {
    0: ["*put_signal(v[:1], b, 2, w[:1], 1, SET)"],
    1: ["put_signal(v[1:2], b, 2, w[1:], 1, SET)"],
    2: ["wait_until_any(w, '==', 1)", "*int(v[0])"]}, {
    0: ["put_signal(v[:1], b, 2, w[:1], 1, SET)"],
    1: ["put_signal(v[1:2], b, 2, w[1:], 1, SET)"],
    2: ["which = wait_until_any(w, '==', 1)", "int(v[which])"]}, "no synchronization between PE 0 and PE 2",
     always=False)  # fmt: skip
case(EDGE, "wait_until_all", None, "0: put_signal(v[:1], b, 2, w[:1], 1, SET) / "
     "1: put_signal(v[1:2], b, 2, w[1:], 1, SET) / "
     "2: wait_until_all(w, '==', 1); int(v[0]); int(v[1])")  # fmt: skip
_LOCKED = "set_lock(l); {}; clear_lock(l)"
case(EDGE, "a lock around both", "0: set_lock(l); *put(x, b, 2); clear_lock(l) / 1: *put(x, b, 2)",
     f"0: {_LOCKED.format('put(x, b, 2)')} / 1: {_LOCKED.format('put(x, b, 2)')}",
     "no synchronization between PE 0 and PE 1")  # fmt: skip
case(EDGE, "clear_lock completes the default context",
     "0: set_lock(l); *put(x, b, 2, ctx=c); clear_lock(l) / "
     "1: set_lock(l); *put(x, b, 2); clear_lock(l)",
     "0: set_lock(l); put(x, b, 2, ctx=c); quiet(c); clear_lock(l) / "
     "1: set_lock(l); put(x, b, 2); clear_lock(l)", "different context", always=False)  # fmt: skip
case(EDGE, "what a lock happens to order", "0: *put(x, b, 2); quiet(); set_lock(l); clear_lock(l) / "
     "1: set_lock(l); clear_lock(l); *put(x, b, 2)", None, "no synchronization between PE 0 and PE 1",
     always=False)  # fmt: skip
case(EDGE, "an own store, and a fence before the flag",
     "0: *x[0] = 1; atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); *get(a, x, 0)",
     "0: x[0] = 1; fence(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); get(a, x, 0)",
     "no fence or quiet after the store")  # fmt: skip
case(EDGE, "a fence on a context without stores",
     "0: *x[0] = 1; fence(n); atomic_set(y, 1, 1, ctx=n) / 1: wait_until(y, '==', 1); *get(a, x, 0)",
     "0: x[0] = 1; fence(c); atomic_set(y, 1, 1, ctx=c) / 1: wait_until(y, '==', 1); get(a, x, 0)",
     "no fence or quiet after the store")  # fmt: skip
case(EDGE, "an own store, and sync_all", "0: *x[0] = 1 / 1: *get(a, x, 0)",
     "0: x[0] = 1; sync_all() / 1: sync_all(); get(a, x, 0)", "no synchronization")  # fmt: skip
case(EDGE, "a load, and a signal that lets the other write", "0: *int(x[0]) / 1: *put(x, b, 0)",
     "0: int(x[0]); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); put(x, b, 0)",
     "no synchronization")  # fmt: skip
case(EDGE, "a get, and a signal that lets the owner write",
     "0: *get_nbi(a, x, 1); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); *x[0] = 2",
     "0: get(a, x, 1); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); x[0] = 2",
     "no quiet between")  # fmt: skip
case(EDGE, "allocation begins and ends with a barrier", "0: *put(x, b, 1) / 1: *int(x[0])",
     {0: ["put(x, b, 1)", "t = zeros(1, np.uint64)"], 1: ["t = zeros(1, np.uint64)", "int(x[0])"]},
     "no synchronization")  # fmt: skip
