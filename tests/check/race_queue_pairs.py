"""Race programs, fourth part: queue pairs, by what each profile promises of them. See `race_programs`."""

from __future__ import annotations

from .race_programs import case

# ---- buffers of the own PE ----

OWN = "Queue pairs: buffers of the own PE"
_WRITE, _READ = "qp.post(WR(WRITE, y, X))", "qp.post(WR(READ, y, X))"
_OPEN = "no completion of it and no quiet between"
case(OWN, "a source is read until the completion", f"0: *{_WRITE}; *y[0] = 2", f"0: {_WRITE}; cq.wait(); y[0] = 2",
     _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "inline it is read at once", f"0: *{_WRITE}; *y[0] = 2",
     "0: qp.post(WR(WRITE, y, X, inline=True)); y[0] = 2", _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "a private source", "0: *qp.post(WR(WRITE, mine, X)); mine[0] = 2; *cq.wait()",
     "0: qp.post(WR(WRITE, mine, X)); cq.wait(); mine[0] = 2; cq.poll()", _OPEN, profile="udma")  # fmt: skip
case(OWN, "each piece of a source", "0: *qp.post(WR(WRITE, [v[:1], v[2:3]], V)); *v[2] = 2",
     "0: qp.post(WR(WRITE, [v[:1], v[2:3]], V)); v[1] = 2", _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "a completion tells of all before it, and of nothing behind it",
     "0: qp.post(WR(WRITE, z, Z)); *qp.post(WR(WRITE, y, X, signaled=False)); cq.wait(); *y[0] = 2",
     "0: qp.post(WR(WRITE, y, X, signaled=False)); qp.post(WR(WRITE, z, Z)); cq.wait(); y[0] = 2",
     _OPEN, profile="rc_relaxed")  # fmt: skip
case(OWN, "a completion tells of its own queue pair",
     f"0: *{_WRITE.replace('X', 'X, signaled=False')}; qp2.post(WR(WRITE, z, Z)); cq.wait(); *y[0] = 2",
     f"0: {_WRITE}; qp2.post(WR(WRITE, z, Z)); cq.wait(2); y[0] = 2", _OPEN, profile="srd")  # fmt: skip
case(OWN, "a poll that finds the completion", f"0: *{_WRITE}; cq.poll(); *y[0] = 2",
     {0: [_WRITE, "if cq.poll():", "    y[0] = 2"]}, _OPEN, profile="rc_strict", always=False)  # fmt: skip
case(OWN, "the result of a READ", f"0: *{_READ}; *int(y[0])", f"0: {_READ}; cq.wait(); int(y[0])", _OPEN,
     profile="rc_strict")  # fmt: skip
case(OWN, "the result of an atomic", "0: *qp.post(WR(FAA, y, X, value=1)); *y[0] = 2",
     "0: qp.post(WR(FAA, y, X, value=1)); cq.wait(); y[0] = 2", _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "a private result", "0: *qp.post(WR(CAS, mine, X, value=1)); mine[0] = 2; *cq.wait()",
     "0: qp.post(WR(CAS, mine, X, value=1)); cq.wait(); mine[0] = 2; cq.poll()", _OPEN, profile="udma")  # fmt: skip
case(OWN, "a result that is sent inline", "0: *qp.post(WR(READ, mine, X)); *qp.post(WR(WRITE, mine, Z, inline=True))",
     "0: qp.post(WR(READ, mine, X)); cq.wait(); qp.post(WR(WRITE, mine, Z, inline=True))", _OPEN,
     profile="udma")  # fmt: skip
case(OWN, "the fence flag: a READ, then a WRITE of its result", f"0: *{_READ}; *qp.post(WR(WRITE, y, Z))",
     f"0: {_READ}; qp.post(WR(WRITE, y, Z, fence=True))", _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "the fence flag is of one queue pair", f"0: *{_READ}; *qp2.post(WR(WRITE, y, Z, fence=True))",
     f"0: {_READ}; qp.post(WR(WRITE, y, Z, fence=True))", _OPEN, profile="udma")  # fmt: skip
case(OWN, "two READs into one word", f"0: *{_READ}; *qp2.post(WR(READ, y, X))", f"0: {_READ}; {_READ}", _OPEN,
     profile="rc_relaxed")  # fmt: skip
case(OWN, "quiet of its queue pair", f"0: *{_WRITE}; qp2.quiet(); *y[0] = 2", f"0: {_WRITE}; qp.quiet(); y[0] = 2",
     _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "quiet of a context", f"0: *{_WRITE}; quiet(c); *y[0] = 2", f"0: {_WRITE}; quiet(); y[0] = 2", _OPEN,
     profile="rc_strict")  # fmt: skip
case(OWN, "quiet covers what a doorbell was rung for",
     "0: *qp.post(WR(WRITE, y, X, doorbell=False)); quiet(); *y[0] = 2",
     "0: qp.post(WR(WRITE, y, X, doorbell=False)); qp.doorbell(); quiet(); y[0] = 2", _OPEN,
     profile="rc_strict")  # fmt: skip
case(OWN, "a fence frees no source", f"0: *{_WRITE}; fence(); *y[0] = 2", f"0: {_WRITE}; pe_quiet(1); y[0] = 2",
     _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "reset drops what has not moved", "0: *qp.post(WR(WRITE, y, X, doorbell=False)); *y[0] = 2",
     "0: qp.post(WR(WRITE, y, X, doorbell=False)); qp.reset(); y[0] = 2", _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "the buffer of a receive", "0: qp.post(WR(SEND, z)) / 1: *qp.post_recv(y); *int(y[0])",
     "0: qp.post(WR(SEND, z)) / 1: qp.post_recv(y); cq.wait(); int(y[0])", _OPEN, profile="rc_strict")  # fmt: skip
case(OWN, "a private buffer of a receive",
     "0: qp.post(WR(SEND, z)) / 1: *qp.post_recv(mine); mine[0] = 2; *cq.wait()",
     "0: qp.post(WR(SEND, z)) / 1: qp.post_recv(mine); cq.wait(); mine[0] = 2; cq.poll()", "comes after the access",
     profile="udma")  # fmt: skip
case(OWN, "a request that fails has its source until then",
     "0: *qp.post(WR(WRITE, y, X, offset=8)); *y[0] = 2; cq.wait()",
     "0: qp.post(WR(WRITE, y, X, offset=8)); cq.wait(); y[0] = 2", _OPEN, profile="rc_strict")  # fmt: skip

# ---- order on one queue pair ----

ORDER = "Queue pairs: one PE to the same word"
_B = "qp.post(WR(WRITE, b, X, inline=True{}))"
_RELAX, _STRONG, _FENCED, _SILENT = (
    _B.format(f", {how}") for how in ("order='relax'", "order='strong'", "fence=True", "doorbell=False")
)
_NOTHING = "nothing orders the two on their queue pair"
_B1, _B2 = _B.format(""), _B.format("").replace("qp.", "qp2.")
case(ORDER, "two WRITEs, rc_strict", f"0: *{_B1}; *{_B2}", f"0: {_B1}; {_B1}", _OPEN, profile="rc_strict")
case(ORDER, "two WRITEs, rc_relaxed", f"0: *{_B1}; *{_B1}", f"0: {_B1}; qp.quiet(); {_B1}", _NOTHING,
     profile="rc_relaxed")  # fmt: skip
case(ORDER, "two WRITEs, srd", f"0: *{_B1}; *{_B1}", f"0: {_B1}; fence(); {_B1}", _NOTHING, profile="srd")
case(ORDER, "two WRITEs, tso", None, f"0: {_B1}; {_B2}", profile="tso")
case(ORDER, "two WRITEs, udma: strong", f"0: *{_RELAX}; *{_RELAX}",
     f"0: {_RELAX}; {_STRONG}", _NOTHING, profile="udma")  # fmt: skip
case(ORDER, "strong waits for none that is none", f"0: *{_B1}; *{_STRONG}",
     f"0: {_STRONG}; {_STRONG}", _NOTHING, profile="udma")  # fmt: skip
case(ORDER, "a READ may be passed", f"0: *qp.post(WR(READ, y, X)); *{_B1}", f"0: {_B1}; qp.post(WR(READ, y, X))",
     _NOTHING, profile="rc_strict")  # fmt: skip
case(ORDER, "a READ and the fence flag", f"0: *qp.post(WR(READ, y, X)); *{_B1}",
     f"0: qp.post(WR(READ, y, X)); {_FENCED}", _NOTHING, profile="udma")  # fmt: skip
case(ORDER, "WRITE and atomic", f"0: *{_B1}; *qp.post(WR(FAA, y, X))", f"0: qp.post(WR(FAA, y, X)); cq.wait(); {_B1}",
     _NOTHING, profile="rc_relaxed")  # fmt: skip
case(ORDER, "WRITE and atomic, rc_strict", f"0: *{_B2}; *qp.post(WR(FAA, y, X))", f"0: {_B1}; qp.post(WR(FAA, y, X))",
     _OPEN, profile="rc_strict")  # fmt: skip
case(ORDER, "two atomics", None, "0: qp.post(WR(FAA, y, X)); qp2.post(WR(CAS, z, X))", profile="udma")
case(ORDER, "a completion that means placed", f"0: *{_B1}; *{_B2}", f"0: {_B1}; cq.wait(); {_B2}", _OPEN,
     profile="udma")  # fmt: skip
case(ORDER, "a completion that means acknowledged", f"0: *{_B1}; cq.wait(); *{_B2}", f"0: {_B1}; qp.quiet(); {_B2}",
     "its completion tells only that its source was read", profile="rc_strict")  # fmt: skip
case(ORDER, "a queue pair and a put", f"0: *{_B1}; *put(x, b, 1)", f"0: {_B1}; fence(); put(x, b, 1)", _OPEN,
     profile="rc_strict")  # fmt: skip
case(ORDER, "a put and a queue pair", f"0: *put(x, b, 1); *{_B1}", f"0: put(x, b, 1); fence(); {_B1}",
     "no fence or quiet between", profile="udma")  # fmt: skip
case(ORDER, "a fence of another context", f"0: *{_B1}; fence(c); *{_B1}", f"0: {_B1}; fence(); {_B1}", _NOTHING,
     profile="udma")  # fmt: skip
case(ORDER, "a fence orders across queue pairs what was rung for",
     f"0: *{_SILENT}; fence(); *{_B2}; qp.doorbell()", f"0: {_B1}; fence(); {_B2}", _OPEN,
     profile="udma")  # fmt: skip
case(ORDER, "under udma_engine_scoped: fence", f"0: *{_B1}; fence(); *{_B1}", f"0: {_B1}; pe_quiet(1); {_B1}", _NOTHING,
     profile="udma_engine_scoped")  # fmt: skip

# ---- two PEs ----

TWO = "Queue pairs: what orders two PEs"
_SEE = " / 1: wait_until(s, '==', 1); {}int(x[0])"
_FLAG = "atomic_set(s, 1, 1)"
case(TWO, "WRITE and load: barrier", f"0: *{_B1} / 1: *int(x[0])",
     f"0: {_B1}; barrier_all() / 1: barrier_all(); int(x[0])",
     "no synchronization between PE 0 and PE 1", profile="rc_strict")  # fmt: skip
case(TWO, "under udma_engine_scoped: barrier", f"0: *{_B1}; barrier_all() / 1: barrier_all(); *int(x[0])",
     f"0: {_B1}; pe_quiet(1); barrier_all() / 1: barrier_all(); int(x[0])", _OPEN,
     profile="udma_engine_scoped")  # fmt: skip
case(TWO, "quiet and sync", f"0: *{_B1}; sync_all() / 1: sync_all(); *int(x[0])",
     f"0: {_B1}; quiet(); sync_all() / 1: sync_all(); int(x[0])", _OPEN, profile="srd")  # fmt: skip
case(TWO, "READ and the owner's store", "0: *qp.post(WR(READ, y, X)) / 1: *x[0] = 2",
     "0: qp.post(WR(READ, y, X)); cq.wait(); barrier_all() / 1: barrier_all(); x[0] = 2", "no synchronization",
     profile="udma")  # fmt: skip
case(TWO, "two PEs' WRITEs", "0,1: *to2.post(WR(WRITE, b, X2, inline=True))",
     "0: to2.post(WR(WRITE, b, X2, inline=True)); to2.quiet(); barrier_all() / "
     "1: barrier_all(); to2.post(WR(WRITE, b, X2, inline=True)) / 2: barrier_all()",
     "no synchronization between PE 0 and PE 1", profile="rc_strict", pes=3)  # fmt: skip
case(TWO, "two PEs' atomics", "0: *to2.post(WR(FAA, y, X2)) / 2: *x[0] = 1",
     "0,1: to2.post(WR(FAA, y, X2, value=1))", "no synchronization", profile="rc_strict", pes=3)  # fmt: skip
case(TWO, "atomics of 4 and of 8 bytes", {
    0: ["*to2.post(WR(FAA, y, X2))"], 1: ["*to2.post(WR(FAA, y.view(np.uint32)[:1], X2))"]}, {
    0: ["to2.post(WR(FAA, y, X2))"], 1: ["to2.post(WR(FAA, z, X2))"]}, "atomics of different types",
     profile="rc_strict", pes=3)  # fmt: skip
case(TWO, "acknowledged, then told", f"0: *{_B1}; cq.wait(); {_FLAG}" + _SEE.format("*"),
     f"0: {_B1}; qp.post(WR(READ, y, X)); cq.wait(2); {_FLAG}" + _SEE.format(""),
     "its completion tells only that its source was read", profile="rc_relaxed")  # fmt: skip
case(TWO, "placed, then told", f"0: *{_B1}; {_FLAG}" + _SEE.format("*"),
     f"0: {_B1}; cq.wait(); {_FLAG}" + _SEE.format(""),
     _OPEN, profile="udma")  # fmt: skip
case(TWO, "openshmem: what a completion tells nobody", f"0: *{_B1}; cq.wait(); {_FLAG}" + _SEE.format("*"),
     f"0: {_B1}; qp.quiet(); {_FLAG}" + _SEE.format(""),
     "its completion tells only that its source was read")  # fmt: skip
case(TWO, "tso: visible, then told, and in order all the same", f"0: *{_B1} / 1: *int(x[0])",
     f"0: {_B1}; {_FLAG}" + _SEE.format(""), "no synchronization", profile="tso")  # fmt: skip
case(TWO, "a fence before the flag", f"0: *{_B1}; {_FLAG}" + _SEE.format("*"),
     f"0: {_B1}; fence(); {_FLAG}" + _SEE.format(""), _OPEN, profile="rc_relaxed")  # fmt: skip
_FAA = "qp.post(WR(FAA, y, S, value=1))"
case(TWO, "an atomic flag on the same queue pair", f"0: *{_B1}; {_FAA}" + _SEE.format("*"),
     f"0: {_B1}; qp.quiet(); {_FAA}" + _SEE.format(""), _OPEN, profile="rc_relaxed")  # fmt: skip
case(TWO, "an atomic flag on the same queue pair, rc_strict", f"0: *{_B2}; {_FAA}" + _SEE.format("*"),
     f"0: {_B1}; {_FAA}" + _SEE.format(""), "", profile="rc_strict")  # fmt: skip
_NOTIFY = "qp.post(WR(WRITE_NOTIFY, b, {}, inline=True, notify=(S, 0, 1)))"
case(TWO, "WRITE_NOTIFY tells of its own data", f"0: *{_B1}; {_NOTIFY.format('Z')}" + _SEE.format("*"),
     f"0: {_NOTIFY.format('X')}" + _SEE.format(""), "", profile="udma")  # fmt: skip
_TAKE = " / 1: qp.post_recv(v[:0]); cq.wait(); {}int(x[0])"
_IMM = "qp.post(WR(WRITE_IMM, b, {}, inline=True, imm=1))"
case(TWO, "a receive tells of its own data, udma", f"0: *{_B1}; {_IMM.format('Z')}" + _TAKE.format("*"),
     f"0: {_IMM.format('X')}" + _TAKE.format(""), "", profile="udma")  # fmt: skip
case(TWO, "a receive tells of all before it on its queue pair, rc",
     f"0: *{_B2}; {_IMM.format('Z')}" + _TAKE.format("*"),
     f"0: {_B1}; {_IMM.format('Z')}" + _TAKE.format(""), "", profile="rc_relaxed")  # fmt: skip
case(TWO, "a SEND behind a WRITE", f"0: *{_B2}; qp.post(WR(SEND, z)) / 1: qp.post_recv(y); cq.wait(); *int(x[0])",
     f"0: {_B1}; qp.post(WR(SEND, z)) / 1: qp.post_recv(y); cq.wait(); int(x[0])", "", profile="rc_strict")  # fmt: skip
case(TWO, "a SEND behind a store, tso", "0: *x[0] = 1; qp.post(WR(SEND, z)) / 1: qp.post_recv(y); *get(z, x, 0)",
     "0: x[0] = 1; qp.post(WR(SEND, z)) / 1: qp.post_recv(y); cq.wait(); get(z, x, 0)", "no synchronization",
     profile="tso")  # fmt: skip
_POSTS = ["def work(i):", "    if i == 0:", f"*        {_B1}"]
_TELLS = ["    if i == 1:", "        quiet()", f"        {_FLAG}", "workers(2, work)"]
_SEES = ["wait_until(s, '==', 1)", "*int(x[0])"]
case(TWO, "a worker's quiet covers what it knows to be posted", {0: [*_POSTS, *_TELLS], 1: _SEES}, {
    0: [*(line.replace("*", "") for line in _POSTS), "    worker_barrier()", *_TELLS], 1: [_SEES[0], "int(x[0])"]},
     "no synchronization between PE 0 worker 1 and PE 1", profile="rc_strict")  # fmt: skip
_ONE = ["def work(i):", "    if i == 0:", f"        {_WRITE}", "    if i == 1:"]
_MARKED, _STORE = [*_ONE[:2], f"*        {_WRITE}", _ONE[3]], ["        y[0] = 2", "workers(2, work)"]
case(TWO, "a worker that takes the completion knows of the post",
     {0: [*_MARKED, "*" + _STORE[0], _STORE[1]]}, {0: [*_ONE, "        cq.wait()", *_STORE]},
     "no synchronization between PE 0 worker 1 and PE 0 worker 2", profile="rc_strict")  # fmt: skip
_BAD = "qp.post(WR(WRITE, b, X, inline=True, offset=8))"
case(TWO, "what is flushed has no effect", f"0: *{_B1}; cq.wait(); {_FLAG} / 1: wait_until(s, '==', 1); *x[0] = 2",
     f"0: {_BAD}; {_B1}; cq.wait(2); {_FLAG} / 1: wait_until(s, '==', 1); x[0] = 2",
     "its completion tells only that its source was read", profile="rc_strict")  # fmt: skip
case(TWO, "nor does it race before that", f"0: *{_B1}; cq.wait() / 1: *int(x[0])",
     f"0: {_BAD}; {_B1}; cq.wait(2) / 1: int(x[0])", "no synchronization", profile="rc_strict")  # fmt: skip
_ASKS = (
    "0: {}qp.post(WR(WRITE_NOTIFY, y, X, notify=(S, 0, 1))); wait_until(z, '==', 1); {}.quiet(); {}y[0] = 2 / "
    "1: wait_until(s, '==', 1); atomic_set(z, 1, 0)"
)
case("Disputed: a race for strict only", "a source of a queue pair reused after the target's answer",
     _ASKS.format("*", "qp2", "*"), _ASKS.format("", "qp", ""), _OPEN, modes=("strict",), profile="udma")  # fmt: skip
case("Disputed: a race for strict only", "atomics of a queue pair and of a context",
     "0: *to2.post(WR(FAA, y, X2)) / 1: *atomic_add(x, 1, 2)",
     "0: to2.post(WR(FAA, y, X2)) / 1: to2.post(WR(FAA, y, X2))",
     "atomics of different domains", modes=("strict",), profile="rc_strict", pes=3)  # fmt: skip
