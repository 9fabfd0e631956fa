"""Breaks the code at listed places, one at a time, and sees the suite fail for each: `make mutants`, or

    python tests/mutants.py [--only NAME] [--list]

A mutant is one edit in a copy of the tree, and the tests that must notice it. A mutant whose tests pass survived: a hole in
the suite, exit code 1. Needs the environment of `make test`; takes about ten minutes, so CI does not run it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "out", "__pycache__", ".*_cache", ".hypothesis")
TWO, THREE = "direct-2", "direct-3"


@dataclass(frozen=True)
class Mutant:
    """In `file`, the one occurrence of `old` becomes `new`; `tests` (pytest arguments, in `cells`) must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    cells: str = TWO


N = "shmem/_native/"
MPI = "tests/mpi/"
SIM, CHECK = "shmem/", "tests/check/"
RACES = SIM + "check/races/"
NATIVE = "tests/delivery/test_native_"
SANITIZE = "tests/sanitize/"
MUTANTS = (
    Mutant("put wakes nobody", N + "memory.c", "    sm_wake(p, pe, dst, n);", "", MPI + "test_wake_ups.py", THREE),
    Mutant("amo wakes nobody", N + "memory.c", "        sm_wake(p, pe, off, sizeof(T));", "       ", MPI + "test_wake_ups.py", THREE),
    Mutant("fetch_add is not atomic", N + "memory.c", "old = atomic_fetch_add(w, v);",
           "old = atomic_load(w); atomic_store(w, old + v);", MPI + "test_atomics.py"),
    Mutant("compare_swap swaps always", N + "memory.c", "atomic_compare_exchange_strong(w, &old, v);",
           "old = atomic_exchange(w, v);", MPI + "test_atomics.py"),
    Mutant("32-bit atomics write 64", N + "memory.c", "    if (width == 4) AMO_BODY(uint32_t);", "", MPI + "test_atomics.py"),
    Mutant("the copy loses its tail", N + "copy.c", "    for (; n >= 32; n -= 32, d += 32, s += 32)", "    for (; n > 32; n -= 32, d += 32, s += 31)",
           "tests/test_copies.py"),
    Mutant("strides swapped", N + "run.c", "int64_t there = (int32_t)(op->aux & 0xffffffff), here = (int32_t)(op->aux >> 32);",
           "int64_t here = (int32_t)(op->aux & 0xffffffff), there = (int32_t)(op->aux >> 32);", MPI + "test_rma_layouts.py"),
    Mutant("a wait looks at one word", N + "run.c", "    for (uint64_t i = 0; i < op->n; i++) {", "    for (uint64_t i = 0; i < 1; i++) {",
           MPI + "test_batch.py"),
    Mutant("<= is <", N + "wait.c", "case SM_LE: return now <= want;", "case SM_LE: return now < want;", MPI + "test_waiting.py"),
    Mutant("unsigned words compare signed", N + "wait.c", "case SM_U64: COMPARE(uint64_t, (now = w64, want = value));",
           "case SM_U64: COMPARE(int64_t, (now = (int64_t)w64, want = (int64_t)value));", MPI + "test_waiting.py " + MPI + "test_signals.py"),
    Mutant("differing calls pass", N + "barrier.c", "atomic_store(&s->gen, (v->gen | 1) + 1 + differ);",
           "atomic_store(&s->gen, (v->gen | 1) + 1);", MPI + "test_heap.py"),
    Mutant("a lock is kept for ever", "shmem/lock_queue.py", "        place.begin(Step.HAND, (node & NEXT) - 1)\n",
           "        place.step = Step.OUT\n", MPI + "test_locks.py"),
    Mutant("a lock is taken by all", "shmem/lock_queue.py", "        place.begin(Step.LINK, ahead - 1)\n",
           "        place.step = Step.HELD\n", MPI + "test_locks.py"),
    Mutant("who gave up gets the lock", "shmem/lock_queue.py", "    if behind & GAVE_UP or ", "    if ", MPI + "test_locks.py"),
    Mutant("a signal leaves a PE in the queue", "shmem/locks.py", "            _insist(pe, place)\n", "            pass\n",
           MPI + "test_locks.py"),
    Mutant("a failed stream goes on", N + "stream.c", ": s->broken ? SM_SKIPPED : SM_TIMEOUT;",
           ": SM_TIMEOUT;", MPI + "test_streams.py"),
    Mutant("closing a stream waits for what waits", N + "stream.c", "if (waits && atomic_load(&s->closing)) status = SM_CANCELLED;",
           "(void)waits;", MPI + "test_streams.py"),
    Mutant("two threads in one barrier", N + "barrier.c", " && other != mine) return SM_BUSY;", ") (void)0;",
           MPI + "test_threads.py"),
    Mutant("a block in use is freed", "shmem/in_use.py", "if start < end and batch._names", "if start > end and batch._names",
           MPI + "test_in_use.py"),
    Mutant("an ended heap stays mapped", "shmem/runtime.py", "        self.heap.let_go()\n", "", MPI + "test_memory_returned.py"),
    Mutant("a stream runs the last job first", N + "stream.c", "s->jobs[s->head++ % s->room]", "s->jobs[--s->tail % s->room]",
           MPI + "test_streams.py"),
    Mutant("the barrier waits for one less", N + "barrier.c", "+ 1 < (uint32_t)n)", "+ 1 < (uint32_t)n - 1)", MPI + "test_ordering.py", THREE),
    Mutant("bf16 rounds half up", N + "floats.h", "(u + 0x7fff + (u >> 16 & 1)) >> 16", "(u + 0x8000) >> 16",
           MPI + "test_batch.py " + MPI + "test_ep_buffer.py"),
    Mutant("464 is too large for eight bits", N + "floats.h", "low > sm_bits(464.0f)", "low >= sm_bits(464.0f)", MPI + "test_cast.py"),
    Mutant("the flag of a line is stored first", N + "lines.c", "if (release == pass)", "if (release != pass)", MPI + "test_lines.py"),
    Mutant("a line's data come before its flag", N + "lines.c", "l->reader == SM_FLAG_FIRST ? FLAGS : FLAGS | DATA, again",
           "0 * l->tail ? FLAGS : FLAGS | DATA, again", MPI + "test_lines.py"),
    Mutant("a bias is forgotten", N + "rows.c", "for (int64_t k = -2; k < terms; k++)", "for (int64_t k = -1; k < terms; k++)",
           MPI + "test_batch.py " + MPI + "test_ep_buffer.py"),
    Mutant("the front lets large sources in", N + "hot.c", "&& all <= (uint64_t)PyArray_NBYTES(to) ? all : 0;", "? all : 0;",
           MPI + "test_rma_errors.py"),
    Mutant("the front lets any PE in", N + "arguments.h", "|| high || v < 0 || v >= me->n || !me->heap[v]) return 0;",
           "|| high || v < 0) return 0;", MPI + "test_rma_errors.py"),
    Mutant("the front stores any integer", N + "arguments.h", "(kind == SM_U32 && (v < 0 || v > UINT32_MAX)) ||", "",
           MPI + "test_fronts.py"),
    Mutant("the front takes any float for 32 bits", N + "arguments.h", "if (kind == SM_F32 && f - f != 0 && d - d == 0) return 0;", "",
           MPI + "test_fronts.py"),
    Mutant("the front does not know every comparison", N + "arguments.h", '"<=", "<", ">=", "eq"', '"<=", "<", "=>", "eq"',
           MPI + "test_fronts.py"),
    Mutant("iput forgets the step of its source", N + "steps.h", "(put ? from.bytes : to.bytes) << 32", "to.bytes << 32",
           MPI + "test_strided.py"),
    Mutant("freed blocks stay usable", N + "open.c", "p->live[g / 64] = live ? p->live[g / 64] | bit : p->live[g / 64] & ~bit;",
           "p->live[g / 64] |= bit;", MPI + "test_heap.py " + MPI + "test_rma_errors.py"),
    Mutant("a failing rank is not noticed", N + "exit.c", "    if (status && !(leave.pe && leave.pe->n == 1)) abort_job(status);", "",
           "tests/test_failure.py"),
    Mutant("mpi4py finalizes at its time", N + "finalize.c", "return !python_runs() && sm_exit_comes() ? 0 : mpi_finalize();",
           "return mpi_finalize();", "tests/test_finalize.py"),
    Mutant("reused memory is not zeroed", "shmem/memory.py", "    if zero and not fresh:", "    if False:", MPI + "test_heap.py"),
    Mutant("full returns before the others have filled", "shmem/arrays.py", '    collective(current(), "full(...) filled")\n', "",
           MPI + "test_heap.py"),
    Mutant("put_many wakes nobody", N + "memory.c", "    wake_many(p, m);\n    return 0;", "    (void)wake_many;\n    return 0;",
           MPI + "test_wake_ups.py", THREE),
    Mutant("put_many takes any PE", N + "memory.c", "    if (outside(m->pes, m->pe_step, m->n, p->n - 1)) return -1;\n", "",
           MPI + "test_put_many.py"),
    Mutant("who waits for several words sleeps for the first", N + "wait.c", "    return one ? &h->buckets[__builtin_ctzll(bits)].seq : &h->many;",
           "    return &h->buckets[__builtin_ctzll(bits)].seq;", MPI + "test_waitsets.py", THREE),
    Mutant("a nonblocking atomic is not pending", N + "hot.c", "me->posted[0] += answer != RETURNED;", "me->posted[0] += answer == NOTHING;",
           MPI + "test_atomics_nbi.py"),
    Mutant("any takes no turns", "shmem/waitsets.py", "next((number for number in held if number > last), held[0])", "held[0]",
           MPI + "test_waitsets.py"),
    Mutant("realloc returns before all have copied", "shmem/memory.py", '    collective(pe, f"realloc({nbytes}) moved")', "    pass",
           MPI + "test_memory.py", THREE),
    Mutant("the end of a shrunk block is lost", "shmem/allocator.py",
           "            insort(self._free, Segment(offset + kept, offset + before, self._frees))\n        return before - kept",
           "        return before - kept", "tests/test_allocator.py"),
    Mutant("blocks lie a stride of one too far apart", "shmem/strided.py", "writeable=True)[::stride].view",
           "writeable=True)[:: stride + 1].view", MPI + "test_strided.py"),
    Mutant("freed memory is not poisoned", "shmem/heap.py", "        if self._poison:", "        if False:", MPI + "test_heap.py"),
    Mutant("blocks do not round up", "shmem/allocator.py", "        nbytes = _up(max(nbytes, 1), self.granule)\n        placement",
           "        nbytes = max(nbytes, 1)\n        placement", "tests/test_allocator.py"),
    Mutant("freed memory is reused first", "shmem/allocator.py", "        if fresh:\n            smallest", "        if False:\n            smallest",
           "tests/test_allocator.py"),
    Mutant("a target may be too small", "shmem/views.py", "    if n > source.size or n > target.size:", "    if n > source.size:",
           MPI + "test_rma_errors.py"),
    Mutant("a signal operator is a comparison", "shmem/enums.py", "    if type(value) is CMP:", "    if isinstance(value, int):",
           "tests/test_enums.py"),
    Mutant("two teams of a split share a slot", "shmem/slots.py", "left[pe] & ~(1 << slot)", "left[pe]", MPI + "test_teams_split.py"),
    Mutant("a slot that was lost is kept", "shmem/splits.py", "    if equal and kept:", "    if slots is not None:", MPI + "test_teams_split.py", THREE),
    Mutant("any death ends every barrier", N + "barrier.c", "if ((!members || members[i]) && ", "if (", "tests/test_failure.py -k living"),
    Mutant("a context's PEs are those of the job", "shmem/contexts.py",
           "return pe.check_pe(target) if made.pes is None else", "return pe.check_pe(target) if made else", MPI + "test_contexts.py"),
    Mutant("hosts are dealt round", "shmem/bootstrap.py", "return tuple(pe * hosts // n for", "return tuple(pe % hosts for",
           MPI + "test_hosts_emulated.py", THREE),
    Mutant("deadlines are ignored", "shmem/waiting.py", "        if waited >= limit:", "        if waited >= limit + 30:", MPI + "test_waiting.py"),
    Mutant("collectives show everything in one half", "shmem/collectives/script.py", "scratch(self.members.slot, self._half)[0]",
           "scratch(self.members.slot, 0)[0]", MPI + "test_collectives.py"),
    Mutant("a reduction starts at PE 1", "shmem/collectives/reductions.py", "return folded(call, how, range(call.n))",
           "return folded(call, how, [*range(1, call.n), 0])", MPI + "test_reductions.py", THREE),
    Mutant("broadcast takes the wrong root", "shmem/collectives/moves.py", "source, mine = call.members.pes[root],",
           "source, mine = call.members.pes[root - 1],", MPI + "test_collectives.py"),
    Mutant("the end of a shared reduction is left out", "shmem/collectives/reductions.py", "    last = call.size if call.me == call.n - 1 else last\n",
           "", MPI + "test_reductions.py"),
    Mutant("a call given up starts anew", "shmem/collectives/plans.py", "and left.plan.call == plan.call", "and False",
           MPI + "test_collective_errors.py"),
    Mutant("the front replays calls on freed blocks", N + "plans.h", "at->frees != me->frees || ", "", MPI + "test_collectives.py"),
    Mutant("a NaN is passed over", N + "reduce.c", "(x >= y) | (x != x) ? x : y", "x >= y ? x : y", MPI + "test_reductions.py"),
    Mutant("the lowest position is the master", "moe_ep/routing.py", "    for k in range(owner.shape[1]):",
           "    for k in reversed(range(owner.shape[1])):", MPI + "test_ep_buffer.py"),
    Mutant("an expert may come twice", "moe_ep/routing.py", "        raise RoutingError(_twice(topk_idx))", "        pass", MPI + "test_ep_buffer_errors.py"),
    Mutant("a count is off by one", "moe_ep/dispatch.py", "    counts = -words - 1", "    counts = -words", MPI + "test_ep_buffer.py"),
    Mutant("an output is given out twice", "moe_ep/outputs.py", "sys.getrefcount(blocks[i]) == _IDLE]", "True]", MPI + "test_ep_buffer.py"),
    Mutant("the demo compares nothing", "moe_ep/demo/judge.py", 'found = reference.difference(array, got, f"rank {rank}: {name}", axes, nan)',
           "found = None", "tests/moe_ep/test_demo.py"),
    Mutant("a READ passes a WRITE", SIM + "delivery/tables.py", "        rules[Kind.WRITE, Kind.READ] = _IN_EFFECT\n", "",
           CHECK + "test_litmus_verdicts.py"),
    Mutant("a completion comes before the data", SIM + "delivery/machine.py", 'in ("placed", "visible") else', 'in ("visible",) else',
           CHECK + "test_nic.py -k visible"),
    Mutant("a completion frees one request", SIM + "delivery/queues.py", "        while self.held and self.held[0][0] <= key:",
           "        if self.held and self.held[0][0] <= key:", CHECK + "test_nic_rings.py -k ring_space"),
    Mutant("rights are not looked at", SIM + "fabric/sim/segments.py", "or right not in segment.rights ", "", CHECK + "test_nic_failures.py -k a_fault"),
    Mutant("a fence misses the queue pairs", SIM + "fabric/sim/fabric.py", "self.post_name(q), q == 0)", "self.post_name(q), False)",
           CHECK + "test_nic_reach.py"),
    Mutant("a nonblocking put reads its source at once", SIM + "fabric/sim/records.py", '        more["source"] = src',
           '        more["data"] = fabric.heap.read(src, nbytes)', CHECK + "test_sim.py"),
    Mutant("a receive that is late is always waited for", SIM + "check/dpor.py", "if any(alternative(move, first) for first in firsts)]",
           "if False]", CHECK + "test_nic.py -k too_late"),
    Mutant("an overrun depends on nothing", SIM + "fabric/sim/nic.py", "return self._fabric.crowded or ring.overrun or",
           "return self._fabric.crowded or ring.overrun and", CHECK + "test_nic_rings.py -k overruns"),
    Mutant("a sleeping move sleeps for ever", SIM + "check/dpor.py", "if other != move and not facts.conflicts(node.facts)", "if other != move",
           CHECK + "test_reductions.py -k random"),
    Mutant("only silent writes are seen to change", SIM + "delivery/facts.py", "return write.writes and (not write.silent or", "return write.writes and (write.silent or",
           CHECK + "test_reductions.py -k random"),
    Mutant("a fence orders gets", RACES + "operations.py", "        if event.kind is not Kind.GET:\n            begins", "        if True:\n            begins",
           CHECK + "test_races.py -k fence"),
    Mutant("a fence is of every context", RACES + "clocks.py", " and key[2] == ctx", "", CHECK + "test_races.py -k context"),
    Mutant("a sync's own fence counts", RACES + "judge.py", "            running.pending = {}  # a sync's own fence\n", "",
           CHECK + "test_races.py -k sync_all"),
    Mutant("a flag that was replaced counts", RACES + "history.py", "            if replaces:", "            if False:",
           CHECK + "test_races_clean.py -k replaced"),
    Mutant("own stores are seen at once", RACES + "clocks.py", "        if pe == pe_of(task):\n            return", "        if True:\n            return",
           CHECK + "test_races.py -k store"),
    Mutant("a wait does not see who wrote", SIM + "fabric/sim/fabric.py", "marks=self.job.observed is not None) for place, _ in words",
           "marks=False) for place, _ in words", CHECK + "test_races_clean.py -k no_value"),
    Mutant("a collective call is an edge", SIM + "fabric/sim/fabric.py", "if q == self.inner and observed is not None and", "if False and",
           CHECK + "test_races.py -k reduction"),
    Mutant("words have no times", N + "clocks.c", "        if (time > now) now = time;", "", SANITIZE + "test_streams.py -k times"),
    Mutant("what an adapter places has no time", N + "nic_clocks.c", "    l->now = sm_clocks_enter(", "    (void)sm_clocks_enter(",
           SANITIZE + "test_streams.py -k times"),
    Mutant("a result that comes is a store of the program", N + "net_fire.c",
           "    if (net->landings) sm_net_brought(net, r, &there);\n", "", SANITIZE + "test_streams.py -k result"),
    Mutant("what is still to land is forgotten", SIM + "sanitize/judging.py", "judge.forget(tasks, aloft)", "judge.forget(tasks)",
           SANITIZE + "test_examples.py -k demo"),
    Mutant("a barrier passes no time on", SIM + "sanitize/fabric.py",
           "max(self._time[0], self.lib.sm_clocks_met(self.pe, leader, slot)) + 1", "self._time[0] + 1", SANITIZE + "test_streams.py -k busy"),
    Mutant("a wait takes no time", SIM + "sanitize/fabric.py", "            if look:", "            if False:", SANITIZE + "test_rules.py"),
    Mutant("what others may still race with is forgotten", RACES + "judge.py", "lambda made: all(", "lambda made: any(",
           SANITIZE + "test_streams.py -k forgotten"),
    Mutant("a changed source is not seen", SIM + "fabric/pending.py", "            if now != each.data:", "            if False:",
           CHECK + "test_races.py -k private"),
    Mutant("engine: a seed draws what comes first", N + "net_enabled.c", "(int64_t)(sm_net_draw(seed) % (uint64_t)count.n)",
           "(int64_t)(sm_net_draw(seed) & 0)", "tests/delivery/test_draws.py"),
    Mutant("engine: gates are never shut", N + "net_post.c", "        if (!sm_net_reached(other, g->stage)) return 0;\n", "", NATIVE + "steps.py"),
    Mutant("engine: ordered units come in any order", N + "net_enabled.c", "        if (one) left &= -left;\n", "", NATIVE + "steps.py"),
    Mutant("engine: strong means nothing", N + "net_post.c",
           "    if (b->order == SM_ORDER_STRONG && a->order != SM_ORDER_NONE) found |= SM_IF_STRONG;\n", "", NATIVE + "tables.py"),
    Mutant("engine: a fence orders nothing", N + "net_order.c", "        if (!net->profile.engine_scoped || store) r->fenced = 1;\n", "",
           NATIVE + "litmus.py -k openshmem"),
    Mutant("engine: a completion is told early", N + "net_enabled.c", "complete(net, r, net->profile.completes[r->w.kind])",
           "complete(net, r, SM_STAGE_SOURCE)", NATIVE + "steps.py"),
    Mutant("engine: a receive is told early", N + "net_enabled.c", "        if (!sm_net_reached(other, SM_STAGE_PLACED)) return 0;\n", "",
           NATIVE + "steps.py"),
    Mutant("engine: a failure flushes nothing", N + "net_queues.c",
           "    if (net->profile.on_error == SM_ON_ERROR) flush_behind(net, q, r->w.number);\n", "", NATIVE + "steps.py"),
    Mutant("engine: half an atomic keeps nobody out", N + "net_enabled.c", "if (!busy(net, &r->w.at)) give(", "give(", NATIVE + "steps.py"),
    Mutant("engine: a copy changes the same memory", N + "net.c", "void *base) { net->spaces[space].base = base; }",
           "void *base) { (void)net, (void)space, (void)base; }", NATIVE + "steps.py"),
    Mutant("a completion of a WRITE tells that it is placed", SIM + "fabric/sim/requested.py", 'if transfer and status == "ok" and not self._tells_effects else',
           "if False else", CHECK + "test_races.py -k acknowledged"),
    Mutant("a completion frees no earlier sources", SIM + "fabric/sim/requested.py", "if request.key <= entry.key and", "if request.key == entry.key and",
           CHECK + "test_races.py -k tells-of-all-before-it"),
    Mutant("requests of a queue pair are in post order", SIM + "fabric/sim/requested.py", "            if not first.bad and (first.ring or request.ring):",
           '            found.append(After(first.key, "at"))\n            if not first.bad and (first.ring or request.ring):',
           CHECK + "test_races.py -k 'two-WRITEs'"),
    Mutant("the fence flag waits for no results", SIM + "fabric/sim/requested.py", "_PARTS[mine], stage is Stage.ANSWERED)", "_PARTS[mine], False)",
           CHECK + "test_races.py -k fence-flag"),
    Mutant("a receive covers its own data", SIM + "fabric/sim/requested.py", "*(each.key for each in covered if not each.bad)", "*()",
           CHECK + "test_races.py -k 'receive or SEND'"),
    Mutant("a fence orders what no doorbell was rung for", RACES + "operations.py", "if same else self._rung.get(first.id, (first.task, 1 << 62))", "",
           CHECK + "test_races.py -k rung"),
    Mutant("what failed still has its effect", RACES + "operations.py", "                if not event.failed:", "                if True:",
           CHECK + "test_races_oracle.py -k queue_pairs"),
    Mutant("a quiet covers what its task does not know of", RACES + "operations.py", "elif running.now().steps(effect.task) < effect.point:", "elif False:",
           CHECK + "test_races.py -k worker"),
    Mutant("the fence of a strided put_signal is the program's", SIM + "fabric/sim/observed.py", " and self.task not in self._joined:", ":",
           CHECK + "test_races.py -k strided"),
    Mutant("a collective call lets others touch nothing", SIM + "fabric/sim/fabric.py", "in_place=None if job.observed is None else job.observed.in_place,",
           "in_place=None,", CHECK + "test_races.py -k large"),
    Mutant("a team split from TEAM_SHARED is of the world", SIM + "slots.py", "self.split_shared or self.slot == SHARED", "self.slot == SHARED",
           CHECK + "test_races.py -k split-from"),
)  # fmt: skip


def main() -> int:
    """Runs all mutants, or those whose name contains `--only`; the exit code is 1 if one survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="part of a mutant's name")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if args.only in mutant.name]
    if args.list:
        print("\n".join(f"{mutant.name}: {mutant.file}" for mutant in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="shmemu-mutants-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
        survivors = [mutant.name for mutant in chosen if not _killed(tree, mutant)]
    print(f"{len(chosen) - len(survivors)} passed, {len(survivors)} failed")
    for name in survivors:
        print(f"survived: {name}")
    return 1 if survivors else 0


def _killed(tree: Path, mutant: Mutant) -> bool:
    path = tree / mutant.file
    original = path.read_text(encoding="utf-8")
    if original.count(mutant.old) != 1:
        print(f"{mutant.name}: {original.count(mutant.old)} places for it in {mutant.file}, not one", flush=True)
        return False
    started = time.perf_counter()
    path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        if path.suffix in (".c", ".h") and not _build(tree):
            print(f"{mutant.name}: does not compile", flush=True)
            return False
        killed = _suite(tree, mutant) not in (0, 5)
    finally:
        path.write_text(original, encoding="utf-8")
        if path.suffix in (".c", ".h"):
            _build(tree)
    print(f"{'killed' if killed else 'SURVIVED'}: {mutant.name} ({time.perf_counter() - started:.0f} s)", flush=True)
    return killed


def _build(tree: Path) -> bool:
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    env = {**os.environ, "SHMEMU_WERROR": "0"}
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, check=False).returncode == 0


def _suite(tree: Path, mutant: Mutant) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *shlex.split(mutant.tests)]
    env = {**os.environ, "SHMEMU_TEST_CELLS": mutant.cells, "PYTHONPATH": str(tree)}
    return subprocess.run(
        command, cwd=tree, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
