"""Race programs, third part: what orders nothing, where that is disputed, and lines. See `race_programs`."""

from __future__ import annotations

from .race_programs import case

# ---- no edges ----

NONE = "What orders nothing"
case(NONE, "quiet alone", "0: *put(x, b, 1); quiet() / 1: *int(x[0])",
     "0: put(x, b, 1); quiet(); sync_all() / 1: sync_all(); int(x[0])",
     "no synchronization between PE 0 and PE 1")  # fmt: skip
case(NONE, "polling a signal by plain loads", {
    0: ["*put_signal(x, b, 1, s, 1, SET)"], 1: ["*while s[0] != 1:", "    spin()", "*int(x[0])"]},
     {0: ["put_signal(x, b, 1, s, 1, SET)"],
      1: ["while signal_fetch(s) != 1:", "    spin()", "int(x[0])"]}, "polled by plain loads")  # fmt: skip
case(NONE, "a wait after the access",
     "0: *put(x, b, 1); fence(); atomic_set(y, 1, 1) / 1: *int(x[0]); wait_until(y, '==', 1)",
     "0: put(x, b, 1); fence(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); int(x[0])",
     "comes after the access")  # fmt: skip
case(NONE, "a flag that another value has replaced",
     "0: *put(x, b, 2); fence(); atomic_set(y, 1, 2) / 1: atomic_set(y, 2, 2) / 2: wait_until(y, '!=', 0); *int(x[0])",
     "0: put(x, b, 2); fence(); atomic_add(y, 1, 2) / 1: atomic_add(y, 2, 2) / 2: wait_until(y, '==', 3); int(x[0])",
     "no synchronization between PE 0 and PE 2", always=False)  # fmt: skip
case(NONE, "under udma_engine_scoped: quiet", "0: *put_nbi(x, b, 1); quiet(); sync_all() / 1: sync_all(); *int(x[0])",
     "0: put_nbi(x, b, 1); pe_quiet(1); sync_all() / 1: sync_all(); int(x[0])", "no fence or quiet between",
     profile="udma_engine_scoped")  # fmt: skip
case(NONE, "under udma_engine_scoped: fence",
     "0: *put_nbi(x, b, 1); fence(); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); *int(x[0])",
     "0: put_nbi(x, b, 1); pe_quiet(1); atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1); int(x[0])",
     "no fence or quiet between", profile="udma_engine_scoped")  # fmt: skip
case(NONE, "a test_lock that fails", {
    0: ["*put(x, b, 2)", "quiet()", "set_lock(l)", "clear_lock(l)"],
    1: ["if test_lock(l):", "*    put(x, b, 2)", "else:", "    clear_lock(l)"]}, {
    0: ["set_lock(l)", "put(x, b, 2)", "clear_lock(l)"],
    1: ["if not test_lock(l):", "    put(x, b, 2)", "    clear_lock(l)"]}, "no synchronization between PE 0 and PE 1",
     always=False)  # fmt: skip
case(NONE, "sync_all completes nothing, its fence neither",
     "0: *put(x, b, 1); sync_all(); atomic_set(y, 1, 1) / "
     "1: sync_all(); wait_until(y, '==', 1); *int(x[0])",
     "0: put(x, b, 1); fence(); sync_all(); atomic_set(y, 1, 1) / "
     "1: sync_all(); wait_until(y, '==', 1); int(x[0])", "no fence or quiet between")  # fmt: skip
case(NONE, "a worker's signal that does not come behind the other's quiet", {
    0: ["def work(i):", "    if i == 0:", "*        put(x, b, 1)", "        quiet()", "    if i == 1:",
        "        atomic_set(y, 1, 1)", "workers(2, work)"],
    1: ["wait_until(y, '==', 1)", "*int(x[0])"]}, {
    0: ["def work(i):", "    if i == 0:", "        put(x, b, 1)", "        quiet()",
        "    worker_barrier()", "    if i == 1:", "        atomic_set(y, 1, 1)", "workers(2, work)"],
    1: ["wait_until(y, '==', 1)", "int(x[0])"]}, "no synchronization between PE 0 worker 1 and PE 1",
     profile="rc_strict")  # fmt: skip
case(NONE, "a reduction",
     "0: sum_reduce(z, x); *put(x, b, 1) / 1: *sum_reduce(z, x)",
     "0: sum_reduce(z, x); barrier_all(); put(x, b, 1) / 1: sum_reduce(z, x); barrier_all()",
     "no synchronization", profile="rc_strict")  # fmt: skip
for _call, _arrays in (
    ("sum_reduce(u[:600], t, team=pair)", "tu"), ("fcollect(u, t, team=pair)", "tu"),
    ("alltoall(u[:600], t, team=pair)", "tu"), ("broadcast(u[:600], t, 0, team=pair)", "u"),
):  # fmt: skip
    for _array in _arrays:
        _name = _call.split("(")[0]
        case(NONE, f"{_name} of large arrays, as regards its {'source' if _array == 't' else 'target'}",
             f"0: {_call} / 1: *{_call} / 2: *put({_array}[:1], b, 1)",
             f"0: {_call}; barrier_all() / 1: {_call}; barrier_all() / 2: barrier_all(); put({_array}[:1], b, 1)",
             "no synchronization between PE 1 and PE 2", profile="rc_strict", unit=4096)  # fmt: skip
case(NONE, "the root of a broadcast, as regards its source",
     "0: *broadcast(u[:600], t, 0, team=pair) / 1: broadcast(u[:600], t, 0, team=pair) / 2: *put(t[:1], b, 0)",
     "0: broadcast(u[:600], t, 1, team=pair) / 1: broadcast(u[:600], t, 1, team=pair) / 2: put(t[:1], b, 0)",
     "no synchronization between PE 0 and PE 2", profile="rc_strict", unit=4096)  # fmt: skip
case(NONE, "an atomic that nobody waits for",
     "0: *put(x, b, 1); fence(); atomic_add(y, 1, 1) / 1: atomic_add(y, 1, 1); *int(x[0])",
     "0: put(x, b, 1); fence(); atomic_add(y, 1, 1) / 1: wait_until(y, '==', 1); int(x[0])",
     "no synchronization")  # fmt: skip

# ---- disputed ----

DISPUTED = "Disputed: a race for strict only"
_STRICT = ("strict",)
case(DISPUTED, "a wait for a word that a put writes", "0: *p(y, 1, 1) / 1: *wait_until(y, '==', 1)",
     "0: atomic_set(y, 1, 1) / 1: wait_until(y, '==', 1)", "no synchronization", modes=_STRICT)  # fmt: skip
case(DISPUTED, "a source reused after the target's answer, without quiet",
     "0: *put_signal_nbi(x, y, 1, s, 1, SET); wait_until(z, '==', 1); *y[0] = 2 / "
     "1: signal_wait_until(s, '==', 1); atomic_set(z, 1, 0)",
     "0: put_signal_nbi(x, y, 1, s, 1, SET); wait_until(z, '==', 1); quiet(); y[0] = 2 / "
     "1: signal_wait_until(s, '==', 1); atomic_set(z, 1, 0)", "no quiet between", modes=_STRICT)  # fmt: skip
case(DISPUTED, "a fetching atomic that sees what another did", {
    0: ["*put(x, b, 1)", "quiet()", "atomic_add(y, 1, 1)"],
    2: ["if atomic_fetch_add(y, 1, 1):", "*    get(a, x, 1)"]}, {
    0: ["put(x, b, 1)", "quiet()", "atomic_add(y, 1, 2)"],
    2: ["wait_until(y, '==', 1)", "get(a, x, 1)"]}, "no synchronization", modes=_STRICT, always=False)  # fmt: skip

# ---- lines ----

LINES = "Lines that carry a flag"
_PUT = "put_lines(lines, np.array([5], np.uint32), 1, LL, 1)"
_POLL = "poll_lines(lines, LL, 1, 1, np.uint32)"
case(LINES, "an accepted line may be read", f"0: *{_PUT} / 1: *int(lines[0])", f"0: {_PUT} / 1: {_POLL}; int(lines[0])",
     "no synchronization", profile="udma")  # fmt: skip
case(LINES, "an accepted line says nothing of what came before",
     f"0: *put(x, b, 1); fence(); {_PUT} / 1: {_POLL}; *int(x[0])",
     f"0: put(x, b, 1); fence(); {_PUT}; atomic_set(y, 1, 1) / "
     f"1: {_POLL}; wait_until(y, '==', 1); int(x[0])", "", profile="udma")  # fmt: skip
case(LINES, "a line over a line is no race, a put over it is", f"0: *{_PUT}; *put(lines[:8], np.zeros(8, np.uint8), 1)",
     f"0: {_PUT}; {_PUT}", "no fence or quiet between", profile="udma")  # fmt: skip
case(LINES, "polling a line that a put writes", f"0: *put(lines[:8], np.ones(8, np.uint8), 1); *{_PUT} / 1: *{_POLL}",
     f"0: {_PUT} / 1: {_POLL}", "", profile="tso")  # fmt: skip
case(LINES, "a flag put beside data and plain polling",
     {0: ["*put(v[:2], b4[:2], 1)"], 1: ["*while v[1] != 1:", "    spin()"]},
     {0: ["put_signal(v[:1], b, 1, v[1:2], 1, SET)"],
      1: ["signal_wait_until(v[1:2], '==', 1)", "int(v[0])"]}, "", profile="tso")  # fmt: skip
