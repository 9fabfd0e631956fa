/* An engine among others over shared memory: receive queues of other PEs, and segments that their owners end. */
#include "net.h"

#include <stdlib.h>

int sm_net_cq_at(sm_net *net, sm_cq_ring *ring) {
    for (int64_t i = 0; i < net->ncqs; i++)
        if (net->cqs[i].ring == ring) return (int)i;
    int cq = sm_net_cq(net, 1, -1);
    if (cq >= 0) net->cqs[cq].ring = ring;
    return cq;
}

int sm_net_taker_at(sm_net *net, int pe, int peer, int index, sm_arena *arena, int64_t heap, int64_t there) {
    int taker = sm_net_taker(net);
    if (taker < 0) return taker;
    sm_taker *t = &net->takers[taker];
    t->arena = arena, t->pe = pe, t->peer = peer, t->index = index, t->heap = heap, t->there = there;
    return taker;
}

static sm_pair_place *find_place(const sm_taker *t) {
    uint32_t n = atomic_load(&SM_SHARED(t->arena->pairs));
    for (uint32_t i = 0; i < n; i++) {
        sm_pair_place *place = &t->arena->pair[i];
        if (place->pe == t->peer && place->index == t->index) return place;
    }
    return NULL;
}

sm_rq_ring *sm_net_ring_of(sm_net *net, sm_taker *t) {
    if (!t->place) t->place = find_place(t);
    uint64_t offset = t->place ? atomic_load(&SM_SHARED(t->place->offset)) : 0;
    if (!offset) return t->ring = NULL;
    t->ring = (sm_rq_ring *)((char *)t->arena + offset);
    t->cq = sm_net_cq_at(net, (sm_cq_ring *)((char *)t->arena + t->ring->cq));
    return t->cq < 0 ? NULL : t->ring;
}

int sm_net_take_ring(sm_net *net, sm_req *r, sm_taker *t, sm_item *receive) {
    sm_rq_entry entry;
    if (!sm_net_ring_of(net, t)) return 0;
    atomic_fetch_add(&SM_SHARED(t->ring->using), 1);
    if (!sm_ring_take(t->ring, &entry)) {
        atomic_fetch_sub(&SM_SHARED(t->ring->using), 1);
        return 0;
    }
    if (r) r->holds = 1;
    else atomic_fetch_sub(&SM_SHARED(t->ring->using), 1);
    *receive = (sm_item){(int64_t)entry.number, 0, {entry.in_arena ? t->there : t->heap, entry.lo, entry.hi}};
    return 1;
}

/* Before the completion is there: who has seen it may close the queue pair at once, and nothing of ours is in its way. */
void sm_net_told(sm_req *r, sm_taker *t) {
    r->holds = 0;
    if (t->ring) atomic_fetch_sub(&SM_SHARED(t->ring->using), 1);
}

/* How many requests are in a segment: beside the byte that says whether it has ended. */
static void count(const sm_net *net, const sm_req *r, uint32_t change) {
    for (int i = 0; i < 2; i++) {
        if (r->w.segments[i] < 0) continue;
        sm_segment *s = (sm_segment *)(net->spaces[r->w.segments[i]].base - offsetof(sm_segment, ended));
        atomic_fetch_add(&SM_SHARED(s->users), change);
    }
}

int sm_net_let_in(sm_net *net, sm_req *r) {
    if (r->let_in) return 1;
    count(net, r, 1);
    if (sm_net_ended(net, r)) {
        count(net, r, UINT32_MAX);
        return 0;
    }
    return r->let_in = 1;
}

void sm_net_let_out(sm_net *net, sm_req *r) {
    if (r->let_in) count(net, r, UINT32_MAX);
    r->let_in = 0;
    if (r->holds) sm_net_told(r, &net->takers[r->w.taker]);
}
