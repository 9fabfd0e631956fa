/* Queues in shared memory. An entry of a completion queue is reserved, written, and published by its owner bit, since the
 * adapters of several PEs may write to one; receives are taken one by one, each by whoever moves the position. */
#include "net.h"

#include <string.h>

/* The statuses of the engine by their numbers in a completion: those of shmem/nic/rings.py. */
static const uint8_t STATUSES[] = {0, 0, 4, 7, 10, 6, 1, 9, 3, 2, 8, 5, 11};

uint64_t sm_arena_bytes(void) { return (sizeof(sm_arena) + 4095) / 4096 * 4096 + (16u << 20); }

static int reserve(sm_cq_ring *ring, uint64_t *at) {
    *at = atomic_load(&SM_SHARED(ring->written));
    do {
        if (*at - atomic_load(&SM_SHARED(ring->taken)) >= ring->depth) return 0;
    } while (!atomic_compare_exchange_weak(&SM_SHARED(ring->written), at, *at + 1));
    return 1;
}

void sm_ring_tell(sm_pe *p, sm_cq_ring *ring, const sm_cqe *told, uint32_t pair) {
    uint64_t at;
    if (!reserve(ring, &at)) {
        atomic_store(&SM_SHARED(ring->overrun), 1);
    } else {
        sm_cq_entry *e = &sm_cq_entries(ring)[at % ring->depth];
        e->received = told->receive >= 0;
        e->status = STATUSES[told->status];
        e->opcode = (uint8_t)told->opcode;
        e->entry = (uint16_t)(e->received ? (uint64_t)told->receive : told->entry);
        e->has_immediate = (uint16_t)told->has_immediate;
        e->pair = pair;
        e->nbytes = told->nbytes;
        e->wr_id = e->received ? (uint64_t)told->receive : told->wr_id;
        e->immediate = told->immediate;
        atomic_store_explicit(&SM_SHARED(e->owner), (uint8_t)!(at / ring->depth & 1), memory_order_release);
    }
    atomic_fetch_add(&SM_SHARED(ring->seq), 1);
    if (atomic_load(&SM_SHARED(ring->sleepers))) sm_futex_wake(p, &SM_SHARED(ring->seq));
}

int64_t sm_ring_new(sm_cq_ring *ring, int64_t most) {
    uint64_t at = ring->taken;
    int64_t n = 0;
    for (; n < most && n < (int64_t)ring->depth; n++, at++) {
        uint8_t owner = atomic_load_explicit(&SM_SHARED(sm_cq_entries(ring)[at % ring->depth].owner), memory_order_acquire);
        if (owner != !(at / ring->depth & 1)) break;
    }
    return n;
}

int sm_ring_post(sm_rq_ring *ring, const sm_rq_entry *entry) {
    uint64_t at = ring->posted;
    if (at - atomic_load(&SM_SHARED(ring->taken)) >= ring->depth) return 1;
    sm_rq_entries(ring)[at % ring->depth] = *entry;
    atomic_store(&SM_SHARED(ring->posted), at + 1);
    return 0;
}

int sm_ring_has(sm_rq_ring *ring) {
    return atomic_load(&SM_SHARED(ring->posted)) != atomic_load(&SM_SHARED(ring->taken));
}

int sm_ring_take(sm_rq_ring *ring, sm_rq_entry *entry) {
    uint64_t at = atomic_load(&SM_SHARED(ring->taken));
    for (;;) {
        if (at == atomic_load(&SM_SHARED(ring->posted))) return 0;
        *entry = sm_rq_entries(ring)[at % ring->depth];
        if (atomic_compare_exchange_weak(&SM_SHARED(ring->taken), &at, at + 1)) return 1;
    }
}
