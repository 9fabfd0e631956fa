/* What is told: completion queues, which may overrun, and receives, which requests take in the order posted. */
#include "net.h"

#include <stdlib.h>
#include <string.h>

int sm_net_cq(sm_net *net, uint32_t depth, int64_t space) {
    if (space >= net->nspaces || (space >= 0 && net->spaces[space].bytes < 8)) return SM_NET_BAD;
    sm_cq *made = realloc(net->cqs, (size_t)(net->ncqs + 1) * sizeof *made);
    if (!made) return SM_NET_NO_MEMORY;
    net->cqs = made;
    int64_t room = depth ? depth : 16;
    sm_cqe *entries = malloc((size_t)room * sizeof *entries);
    if (!entries) return SM_NET_NO_MEMORY;
    made[net->ncqs] = (sm_cq){.depth = depth, .space = space, .room = room, .entries = entries};
    return (int)net->ncqs++;
}

/* Twice the room of a queue without an end: an entry keeps its number. */
static int more_room(sm_cq *cq) {
    sm_cqe *made = malloc((size_t)cq->room * 2 * sizeof *made);
    if (!made) return SM_NET_NO_MEMORY;
    for (int64_t i = cq->taken; i < cq->written; i++) made[i % (cq->room * 2)] = cq->entries[i % cq->room];
    free(cq->entries);
    cq->entries = made;
    cq->room *= 2;
    return 0;
}

int sm_net_tell(sm_net *net, int queue, const sm_cqe *told) {
    sm_cq *cq = &net->cqs[queue];
    if (cq->ring) {
        sm_ring_tell(net->p, cq->ring, told, (uint32_t)told->queue);
        return 0;
    }
    int full = cq->written - cq->taken >= cq->room;
    if (full && !cq->depth && more_room(cq)) return SM_NET_NO_MEMORY;
    if (full && cq->depth) cq->overrun = 1;
    else cq->entries[cq->written++ % cq->room] = *told;
    if (cq->space >= 0) {
        uint64_t counter = (uint64_t)cq->written | (cq->overrun ? 1ull << 63 : 0);
        sm_net_write(net, &(sm_place){cq->space, 0, sizeof counter}, (const uint8_t *)&counter);
    }
    return 0;
}

const sm_cqe *sm_net_entry(const sm_net *net, int queue, int64_t i) {
    const sm_cq *cq = &net->cqs[queue];
    return i < 0 || i >= cq->written || i < cq->written - cq->room ? NULL : &cq->entries[i % cq->room];
}

int64_t sm_net_entries(const sm_net *net, int cq, int64_t *taken, int *overrun) {
    *taken = net->cqs[cq].taken;
    *overrun = net->cqs[cq].overrun;
    return net->cqs[cq].written;
}

void sm_net_take(sm_net *net, int cq, int64_t n) { net->cqs[cq].taken += n; }

int sm_net_taker(sm_net *net) {
    sm_taker *made = realloc(net->takers, (size_t)(net->ntakers + 1) * sizeof *made);
    if (!made) return SM_NET_NO_MEMORY;
    net->takers = made;
    made[net->ntakers] = (sm_taker){.cq = -1, .failed_queue = -1};
    return (int)net->ntakers++;
}

int sm_net_open_taker(sm_net *net, int taker, int cq, int64_t taken) {
    if (taker < 0 || taker >= net->ntakers || cq < 0 || cq >= net->ncqs) return SM_NET_BAD;
    sm_net_drop(net, taker);
    net->takers[taker].cq = cq;
    net->takers[taker].taken = taken;
    return 0;
}

/* A receive that is flushed, as the failure of a queue pair tells. */
static int tell_flush(sm_net *net, const sm_taker *t, int64_t number) {
    sm_cqe told = {.number = t->failed_number, .receive = number, .pe = t->failed_pe, .queue = t->failed_queue,
                   .status = SM_STATUS_FLUSH, .opcode = SM_RECEIVE};
    return sm_net_tell(net, t->cq, &told);
}

int sm_net_receive(sm_net *net, int taker, int64_t number, const sm_place *place) {
    if (taker < 0 || taker >= net->ntakers || !sm_net_fits(net, place) || number < 0) return SM_NET_BAD;
    sm_taker *t = &net->takers[taker];
    if (t->cq < 0) return SM_NET_BAD;
    if (t->failed_queue >= 0) return tell_flush(net, t, number);
    return sm_net_push(&t->posted, (sm_item){.number = number, .place = *place});
}

void sm_net_drop(sm_net *net, int taker) {
    sm_taker *t = &net->takers[taker];
    t->taken += t->posted.n;
    t->posted.n = t->posted.head = 0;
    t->failed_queue = -1;
}

int sm_net_flush_receives(sm_net *net, sm_queue *q, int queue, const sm_req *r) {
    if (!q->failed || q->taker < 0) return 0;
    sm_taker *t = &net->takers[q->taker];
    if (t->failed_queue >= 0) return 0;
    t->failed_queue = queue;
    t->failed_pe = r->w.pe;
    t->failed_number = r->w.number;
    sm_item receive;
    if (t->arena && sm_net_ring_of(net, t)) {
        atomic_store(&SM_SHARED(t->ring->failed), 1);
        while (sm_net_take_ring(net, NULL, t, &receive))
            if (tell_flush(net, t, receive.number)) return SM_NET_NO_MEMORY;
    }
    for (; t->posted.n; t->taken++, sm_net_pop(&t->posted))
        if (tell_flush(net, t, sm_net_item_at(&t->posted, 0)->number)) return SM_NET_NO_MEMORY;
    return 0;
}

int sm_net_pe(sm_net *net, int pe, int64_t receives, int cq) {
    if (pe < 0 || cq >= net->ncqs) return SM_NET_BAD;
    if (pe >= net->npes) {
        sm_receiver *made = realloc(net->pes, (size_t)(pe + 1) * sizeof *made);
        if (!made) return SM_NET_NO_MEMORY;
        net->pes = made;
        for (; net->npes <= pe; net->npes++) made[net->npes] = (sm_receiver){-1, -1};
    }
    net->pes[pe] = (sm_receiver){receives, cq};
    return 0;
}

int64_t sm_net_receives(const sm_net *net, int pe) { return pe < net->npes ? net->pes[pe].receives : -1; }

int sm_net_has_receive(sm_net *net, const sm_req *r) {
    sm_taker *t = r->w.taker < 0 ? NULL : &net->takers[r->w.taker];
    if (t && t->arena) return sm_net_ring_of(net, t) && !atomic_load(&SM_SHARED(t->ring->failed)) && sm_ring_has(t->ring);
    if (t) return t->posted.n > 0;
    return sm_net_receives(net, r->w.target) != 0;
}

/* A request takes the next posted buffer; what is sent goes there, if it fits. */
static int take(sm_net *net, sm_req *r, sm_taker *t) {
    uint64_t size = sm_net_size(&r->w.at);
    sm_item receive;
    if (t->arena) {
        if (!sm_net_take_ring(net, r, t, &receive)) return 0;
    } else {
        receive = *sm_net_item_at(&t->posted, 0);
        sm_net_pop(&t->posted);
        t->taken++;
    }
    r->accepted = 1;
    r->receive = receive.number;
    if (r->w.kind != SM_KIND_SEND) return 0;
    if (size <= sm_net_size(&receive.place)) {
        r->w.at = (sm_place){receive.place.space, receive.place.lo, receive.place.lo + size};
        return sm_net_cut(net, r);
    }
    sm_cqe told = {.number = r->w.number, .receive = receive.number, .pe = r->w.pe, .queue = r->w.queue,
                   .status = SM_STATUS_LOC_LEN, .nbytes = size, .opcode = SM_RECEIVE};
    sm_net_doom(net, r, SM_STATUS_REM_INV_REQ);
    if (t->arena) told.queue = t->ring->pair;
    if (r->holds) sm_net_told(r, t);
    return sm_net_tell(net, t->cq, &told);
}

int sm_net_accept(sm_net *net, sm_req *r) {
    if (net->p && !sm_net_let_in(net, r)) return 0;              /* ADMIT is for that */
    if (r->w.taker >= 0) return take(net, r, &net->takers[r->w.taker]);
    r->accepted = 1;
    if (sm_net_receives(net, r->w.target) > 0) net->pes[r->w.target].receives--;
    return 0;
}

/* There is no receive: the request fails, or goes on waiting. */
void sm_net_give_up(sm_net *net, sm_req *r) {
    if (net->queues[r->w.queue].patient) r->denied = 1;
    else sm_net_doom(net, r, SM_STATUS_RNR_RETRY);
}

int sm_net_taker_view(const sm_net *net, int taker, sm_taker_view *out) {
    if (taker < 0 || taker >= net->ntakers) return SM_NET_NONE;
    const sm_taker *t = &net->takers[taker];
    *out = (sm_taker_view){
        .posted = t->posted.n, .taken = t->taken, .failed_number = t->failed_number,
        .receives = t->posted.items + t->posted.head, .failed_queue = t->failed_queue, .failed_pe = t->failed_pe,
    };
    return 0;
}
