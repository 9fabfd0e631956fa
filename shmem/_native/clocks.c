/* Clocks beside the words that PEs wait for, on runs whose accesses are recorded (shmem/sanitize): a table behind the heap
 * of each PE, with an entry for each of 64 sets of lines of 64 bytes. What changes words holds the locks of their entries,
 * and takes the next time after its own and theirs, which becomes theirs; so does who has seen a word. So times ascend
 * along each program and along the changes of each word: in their order all of a run can have happened one after the other.
 * Who dies with a lock loses it after a second. */
#include "nic.h"

#include <string.h>
#include <time.h>

#define ENTRIES 64
#define LINE_BITS 6
#define ALL (~0ull)
#define TURNS 200                           /* of a lock, before sleeping */
#define NAP_NS 20000
#define NAPS 50000                          /* then its owner is dead */

typedef struct {
    _Atomic uint32_t owner;                 /* number of the PE and 1 */
    _Atomic uint64_t time;
    char pad[64 - 16];
} entry;

typedef struct {
    entry entries[ENTRIES];
    _Atomic uint64_t barriers[SM_SLOTS];    /* of each slot that this PE leads: the latest time of who has come */
} table;

uint64_t sm_clocks_bytes(void) { return (sizeof(table) + 4095) / 4096 * 4096; }

static table *table_of(sm_pe *p, int pe) { return (table *)(p->heap[pe] + p->clocks); }

void sm_clocks_at(sm_pe *p, uint64_t offset) { p->clocks = offset; }

static uint64_t entries_of(uint64_t off, uint64_t n) {
    uint64_t mask = 0;
    if (!n) return 0;
    uint64_t first = off >> LINE_BITS, last = (off + n - 1) >> LINE_BITS;
    if (last - first >= ENTRIES) return ALL;
    for (uint64_t line = first; line <= last; line++) mask |= 1ull << line % ENTRIES;
    return mask;
}

static void lock(entry *e, uint32_t me) {
    for (int tries = 0;; tries++) {
        uint32_t owner = 0;
        if (atomic_compare_exchange_weak_explicit(&e->owner, &owner, me, memory_order_acquire, memory_order_relaxed)) return;
        if (tries < TURNS) {
            sm_pause();
        } else if (tries < TURNS + NAPS) {
            struct timespec nap = {0, NAP_NS};
            nanosleep(&nap, NULL);
        } else if (owner && atomic_compare_exchange_strong(&e->owner, &owner, me)) {
            return;
        } else {
            tries = 0;                      /* it has changed hands */
        }
    }
}

/* Locks the entries of a mask, in ascending order. Returns the time after all of theirs and `now`, which is theirs now. */
static uint64_t enter(sm_pe *p, table *t, uint64_t mask, uint64_t now) {
    for (uint64_t left = mask; left; left &= left - 1) {
        entry *e = &t->entries[__builtin_ctzll(left)];
        lock(e, (uint32_t)p->me + 1);
        uint64_t time = atomic_load_explicit(&e->time, memory_order_relaxed);
        if (time > now) now = time;
    }
    now++;
    for (uint64_t left = mask; left; left &= left - 1)
        atomic_store_explicit(&t->entries[__builtin_ctzll(left)].time, now, memory_order_relaxed);
    return now;
}

static void leave(table *t, uint64_t mask) {
    for (; mask; mask &= mask - 1)
        atomic_store_explicit(&t->entries[__builtin_ctzll(mask)].owner, 0, memory_order_release);
}

uint64_t sm_clocks_enter(sm_pe *p, int pe, uint64_t off, uint64_t n, uint64_t now, uint64_t *entries) {
    *entries = entries_of(off, n);
    return enter(p, table_of(p, pe), *entries, now);
}

void sm_clocks_leave(sm_pe *p, int pe, uint64_t entries) { leave(table_of(p, pe), entries); }

/* The entries of the bytes that a record changes at its PE, or whose value it takes in one step. */
static uint64_t touched(const sm_op *op) {
    int64_t step = (int32_t)(op->aux & 0xffffffff);
    switch (op->op) {
    case SM_PUT: return entries_of(op->dst, op->n);
    case SM_AMO: return entries_of(op->dst, op->width);
    case SM_PUT_SIGNAL: return entries_of(op->dst, op->n) | entries_of(op->aux, 8);
    case SM_PUT_LINES: return ALL;
    case SM_PUT_STRIDED:
        if (!op->n) return 0;
        if (step < 0) return entries_of(op->dst + (op->n - 1) * (uint64_t)step, (op->n - 1) * (uint64_t)-step + op->value);
        return entries_of(op->dst, (op->n - 1) * (uint64_t)step + op->value);
    default: return 0;
    }
}

/* What an adapter carries out has the time at which it was posted, and lands at times of its own. */
static int post(sm_pe *p, int q, sm_op *ops, int64_t *done, uint64_t *now, uint64_t *time, sm_op *kept) {
    const sm_op *op = &ops[*done];
    int waits = op->op == SM_AMO && op->src && !(op->flags & SM_NBI);
    *time = ++*now;
    uint64_t number = sm_nic_begin(p->nic, *now);
    if (kept) kept->id = number;
    int status = sm_run(p, q, ops, *done + 1, done, 0);
    *now = sm_nic_now(p->nic, *now);
    if (waits && kept) kept->n = ++*now;
    return status;
}

int sm_clocks_run(sm_pe *p, int q, sm_op *ops, int64_t n, int64_t *done, uint64_t *now, uint64_t *times, sm_op *kept) {
    int status = SM_OK;
    while (*done < n && !status) {
        int64_t i = *done;
        if (p->detour && sm_nic_takes(p->nic, &ops[i])) {
            status = post(p, q, ops, done, now, &times[i], kept ? &kept[i] : NULL);
            continue;
        }
        uint64_t mask = touched(&ops[i]);
        table *t = mask ? table_of(p, ops[i].pe) : NULL;
        if (t) *now = enter(p, t, mask, *now);
        memcpy(&times[i], now, sizeof(*now));
        status = sm_run(p, q, ops, i + 1, done, 0);
        if (t) leave(t, mask);
    }
    return status;
}

uint64_t sm_clocks_look(sm_pe *p, uint64_t off, uint64_t n, uint64_t now) {
    table *t = table_of(p, p->me);
    uint64_t mask = entries_of(off, n);
    now = enter(p, t, mask, now);
    leave(t, mask);
    return now;
}

uint64_t sm_clocks_test(sm_pe *p, const sm_condition *all, int64_t n, uint8_t *held, uint64_t now) {
    table *t = table_of(p, p->me);
    uint64_t mask = 0;
    for (int64_t i = 0; i < n; i++) mask |= entries_of(all[i].offset, 8);
    now = enter(p, t, mask, now);
    sm_test_each(p, all, n, held);
    leave(t, mask);
    return now;
}

void sm_clocks_arrive(sm_pe *p, int leader, int slot, uint64_t now) {
    _Atomic uint64_t *time = &table_of(p, leader)->barriers[slot];
    uint64_t seen = atomic_load(time);
    while (seen < now && !atomic_compare_exchange_weak(time, &seen, now)) {}
}

uint64_t sm_clocks_met(sm_pe *p, int leader, int slot) {
    return atomic_load(&table_of(p, leader)->barriers[slot]);
}
