/* A central-counter barrier over yields, then futexes: the last to arrive publishes the next generation and wakes all
 * sleepers with one system call. Oversubscribed, fewer wake-ups beat fewer hops (a dissemination barrier is faster only
 * at two PEs). The fingerprint of the collective call travels in the same cache line as the counter: the first to arrive
 * leaves his, the others compare, and the generation's lowest bit tells everybody whether all were equal. */
#include <pthread.h>
#include "core.h"
#include "nic.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>


#define CAP_NS 100000000
#define YIELDING_NS 50000                   /* of one barrier, before sleeping */
#define UNYIELDING 64                       /* barriers after one in which that did not help */

/* Whether a PE that the barrier needs is dead. */
static int member_died(sm_pe *p, const sm_visit *v) {
    const uint8_t *members = p->members[v - p->visits];
    if (!sm_find_dead(p)) return 0;
    for (int i = 0; i < p->n; i++)
        if ((!members || members[i]) && sm_alive(p, i) == SM_DEAD) return 1;
    return 0;
}

/* The state of the barrier that this PE has entered: a released one can't advance again before this PE arrives. */
static int released(sm_visit *v, sm_slot *s, int *status) {
    uint32_t gen = atomic_load(&s->gen);
    if (gen == v->gen) return 0;
    v->waiting = 0;
    *status = gen & 1 ? SM_MISMATCH : SM_OK;
    return 1;
}

/* More PEs than cores: those that share this one are let by for about as long as it takes to sleep and to be woken, which
 * is enough where all come to the barrier at once. Where it was not (they compute, or others than PEs want the core, and a
 * yield may last as long as the kernel likes), it is not tried again for a while: then it costs next to nothing. */
static int let_by(sm_pe *p, sm_visit *v, sm_slot *s, int *status) {
    if (p->n <= p->cores) return 0;
    int rest = atomic_load_explicit(&p->unyielding, memory_order_relaxed);
    if (rest) {
        atomic_store_explicit(&p->unyielding, rest - 1, memory_order_relaxed);
        return 0;
    }
    int64_t began = sm_now_ns(), took;
    do {
        sched_yield();
        if (released(v, s, status)) return 1;
        took = sm_now_ns() - began;
    } while (took < YIELDING_NS);
    rest = took < 8 * YIELDING_NS ? UNYIELDING : 16 * UNYIELDING;
    atomic_store_explicit(&p->unyielding, rest, memory_order_relaxed);
    return 0;
}

static int wait_released(sm_pe *p, sm_visit *v, sm_slot *s, int64_t timeout_ns) {
    int status = SM_TIMEOUT;
    for (int i = 0; i <= p->spin; i++) {
        if (released(v, s, &status)) return status;
        sm_pause();
    }
    while (p->detour && sm_nic_progress(p->nic))
        if (released(v, s, &status)) return status;
    if (let_by(p, v, s, &status)) return status;
    int64_t now = sm_now_ns(), end = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns, entered = now, looked = now;
    if (p->survive && member_died(p, v)) return SM_DIED;
    atomic_fetch_add(&s->sleepers, 1);
    while (!released(v, s, &status)) {
        now = sm_now_ns();
        if (now >= end) break;
        if (p->survive && now - looked >= CAP_NS / 2) {
            looked = now;
            if (member_died(p, v)) { status = SM_DIED; break; }
        }
        if (now - entered >= CAP_NS) {      /* Python looks for signals that came between two sleeps */
            status = SM_INTERRUPTED;
            break;
        }
        if (sm_futex_sleep(p, &s->gen, v->gen, end - now < CAP_NS ? end - now : CAP_NS) == EINTR) {
            if (!released(v, s, &status)) status = SM_INTERRUPTED;
            break;
        }
    }
    atomic_fetch_sub(&s->sleepers, 1);
    return status;
}

static int arrive(sm_pe *p, sm_visit *v, sm_slot *s, int n, int64_t timeout_ns) {
    v->gen = atomic_load(&s->gen);
    if (v->call) {
        uint64_t first = 0;
        int other = !atomic_compare_exchange_strong(&s->call, &first, v->call) && first != v->call;
        if (other || v->call == SM_REFUSED) atomic_store(&s->differ, 1);
    }
    if (atomic_fetch_add(&s->arrived, 1) + 1 < (uint32_t)n) {
        v->waiting = 1;
        return wait_released(p, v, s, timeout_ns);
    }
    uint32_t differ = atomic_load(&s->differ);
    atomic_store_explicit(&s->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&s->differ, 0, memory_order_relaxed);
    atomic_store_explicit(&s->call, 0, memory_order_relaxed);
    atomic_store(&s->gen, (v->gen | 1) + 1 + differ);
    if (atomic_load(&s->sleepers)) sm_futex_wake(p, &s->gen);
    return differ ? SM_MISMATCH : SM_OK;
}

/* The barrier, by the thread that owns the visit. */
static int visit(sm_pe *p, int slot, int leader, int n, uint64_t call, int64_t timeout_ns) {
    sm_visit *v = &p->visits[slot];
    sm_slot *s = &p->head[leader]->slots[slot];
    if (v->differed) {
        v->differed = 0;
        return SM_MISMATCH;
    }
    if (v->waiting) {
        int64_t until = timeout_ns > INT64_MAX / 2 ? INT64_MAX : sm_now_ns() + timeout_ns;
        int status = wait_released(p, v, &p->head[v->leader]->slots[slot], timeout_ns);
        if (status || call == v->call) return status;
        timeout_ns = until == INT64_MAX ? INT64_MAX : until - sm_now_ns();      /* another call: the old one is over now */
    }
    atomic_fetch_add_explicit(&p->head[p->me]->entered[slot], 1, memory_order_relaxed);
    v->call = call;
    v->leader = leader;
    return arrive(p, v, s, n, timeout_ns);
}

/* What tells threads apart: the same in both libraries that this file is in, unlike the address of a thread's own. */
static uintptr_t self(void) { return (uintptr_t)pthread_self(); }

int sm_barrier(sm_pe *p, int slot, int leader, int n, uint64_t call, int64_t timeout_ns) {
    _Atomic uintptr_t *owner = &p->visits[slot].owner;
    uintptr_t mine = self(), other = 0;
    if (!atomic_compare_exchange_strong(owner, &other, mine) && other != mine) return SM_BUSY;
    int status = visit(p, slot, leader, n, call, timeout_ns);
    if (status == SM_OK || status == SM_MISMATCH) atomic_store_explicit(owner, 0, memory_order_release);
    return status;
}

static void disown(sm_pe *p, int slot) {
    uintptr_t mine = self();
    atomic_compare_exchange_strong(&p->visits[slot].owner, &mine, 0);
}

void sm_disown(sm_pe *p) {
    for (int slot = 0; slot < SM_SLOTS; slot++) disown(p, slot);
}

int sm_in_barrier(const sm_pe *p, int slot) { return p->visits[slot].waiting; }

int sm_barrier_all(sm_pe *p, uint64_t call) {
    int status = sm_barrier(p, 0, 0, p->n, call, CAP_NS);
    if (status == SM_BUSY) return status;
    if (status != SM_OK && status != SM_MISMATCH) disown(p, 0);     /* a signal may raise before the general path begins */
    p->visits[0].differed = status == SM_MISMATCH;
    return status;
}

uint32_t sm_rounds(const sm_pe *p, int slot, int leader) { return atomic_load(&p->head[leader]->slots[slot].gen) >> 1; }

int sm_unfinished(const sm_pe *p, int slot, uint64_t *call) {
    *call = p->visits[slot].call;
    return p->visits[slot].waiting || p->visits[slot].differed;
}

uint32_t sm_entered(const sm_pe *p, int pe, int slot) {
    return p->head[pe] ? atomic_load(&p->head[pe]->entered[slot]) : 0;
}

int sm_team(sm_pe *p, int slot, const int32_t *pes, int n) {
    uint8_t *members = calloc((size_t)p->n, 1);
    if (!members) return -1;
    for (int i = 0; i < n; i++) members[pes[i]] = 1;
    free(p->members[slot]);
    p->members[slot] = members;
    memset(&p->visits[slot], 0, sizeof p->visits[slot]);
    atomic_store(&p->head[p->me]->entered[slot], 0);    /* members' counts are compared to see who is missing */
    return 0;
}

void sm_note(sm_pe *p, int slot, uint64_t value) { atomic_store(&p->head[p->me]->notes[slot], value); }

uint64_t sm_noted(const sm_pe *p, int pe, int slot) { return p->head[pe] ? atomic_load(&p->head[pe]->notes[slot]) : 0; }
