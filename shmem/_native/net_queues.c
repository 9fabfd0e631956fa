/* Queue pairs: ring accounting, doorbells, order of completion, error and flush. Blocks are counted as the hardware does:
 * free-running 32-bit positions; a completion that was taken gives back all blocks up to its request's. */
#include "net.h"

#include <stdlib.h>

int sm_net_queue(sm_net *net, int cq, uint32_t depth, int ring) {
    if (ring && (cq < 0 || cq >= net->ncqs)) return SM_NET_BAD;
    sm_queue *made = realloc(net->queues, (size_t)(net->nqueues + 1) * sizeof *made);
    if (!made) return SM_NET_NO_MEMORY;
    net->queues = made;
    made[net->nqueues] = (sm_queue){
        .cq = cq, .taker = -1, .pe = -1, .depth = depth, .asked = -1, .stopped = -1, .ring = (uint8_t)(ring != 0),
    };
    return (int)net->nqueues++;
}

int sm_net_pair(sm_net *net, int queue, int taker, int patient) {
    if (queue < 0 || queue >= net->nqueues || taker >= net->ntakers) return SM_NET_BAD;
    net->queues[queue].taker = taker;
    net->queues[queue].patient = patient != 0;
    return 0;
}

int sm_net_room(const sm_net *net, int queue, uint32_t blocks) {
    const sm_queue *q = &net->queues[queue];
    return (uint64_t)(uint32_t)(q->pi - q->ci) + blocks <= q->depth;
}

/* A request is bound to fail. */
static void fails(const sm_net *net, sm_queue *q, int64_t number) {
    if (net->profile.on_error == SM_ON_ERROR) {
        q->doomed = 1;
    } else if (net->profile.on_error == SM_ON_ERROR_SUSPEND && (!q->has_stopped || number < q->stopped)) {
        q->has_stopped = 1;
        q->stopped = number;
    }
}

int sm_net_add(sm_net *net, sm_req *r) {
    sm_queue *q = &net->queues[r->w.queue];
    sm_item item = {.number = r->w.number, .more = r->w.blocks};
    if (sm_net_push(&q->waiting, item) || sm_net_push(&q->held, item)) return SM_NET_NO_MEMORY;
    if (!r->rung && sm_net_push(&q->silent, item)) return SM_NET_NO_MEMORY;
    q->pe = r->w.pe;
    q->pi += r->w.blocks;
    if (q->doomed) r->w.bad = SM_STATUS_FLUSH;
    if (r->w.bad) fails(net, q, r->w.number);
    return 0;
}

int sm_net_is_first(const sm_net *net, const sm_req *r) {
    const sm_queue *q = &net->queues[r->w.queue];
    return q->waiting.n && sm_net_item_at(&q->waiting, 0)->number == r->w.number;
}

static int beyond_stop(const sm_queue *q, int64_t number) { return q->has_stopped && number > q->stopped; }

/* Of one that is not rung, or bound to fail, to be flushed or to wait. */
int sm_net_special(const sm_net *net, const sm_req *r) {
    const sm_queue *q = &net->queues[r->w.queue];
    if (beyond_stop(q, r->w.number)) return 1;
    if (r->w.bad && (r->rung || q->failed)) return sm_net_is_first(net, r) ? 2 : 1;
    return !r->rung;
}

static int is_silent(const sm_queue *q, int64_t number) {
    for (int64_t i = 0; i < q->silent.n; i++)
        if (sm_net_item_at(&q->silent, i)->number == number) return 1;
    return 0;
}

/* Whether one does not move any more; rung: or nobody has rung for it, and no failure flushes it. */
int sm_net_rests(const sm_net *net, const sm_req *r, int rung) {
    const sm_queue *q = &net->queues[r->w.queue];
    if (beyond_stop(q, r->w.number)) return 1;
    return rung && !q->failed && q->asked < r->w.number && is_silent(q, r->w.number);
}

/* Those behind one that has failed move no data. */
static void flush_behind(sm_net *net, const sm_queue *q, int64_t number) {
    for (int64_t i = 0; i < q->waiting.n; i++) {
        int64_t other = sm_net_item_at(&q->waiting, i)->number;
        sm_req *r = other > number ? sm_net_find(net, q->pe, other) : NULL;
        if (r) r->w.bad = SM_STATUS_FLUSH;
    }
}

void sm_net_doom(sm_net *net, sm_req *r, uint32_t status) {
    sm_queue *q = &net->queues[r->w.queue];
    r->w.bad = status;
    fails(net, q, r->w.number);
    if (net->profile.on_error == SM_ON_ERROR) flush_behind(net, q, r->w.number);
}

static int tell(sm_net *net, const sm_req *r, uint32_t status) {
    sm_cqe told = {.number = r->w.number, .receive = -1, .pe = r->w.pe, .queue = r->w.queue, .status = status,
                   .nbytes = sm_net_size(&r->w.at), .wr_id = r->w.wr_id, .entry = r->w.entry, .opcode = r->w.opcode};
    if (status != SM_STATUS_OK) net->queues[r->w.queue].bad = r->w.wr_id + 1;
    return sm_net_tell(net, net->queues[r->w.queue].cq, &told);
}

int sm_net_retire(sm_net *net, sm_req *r) {
    sm_queue *q = &net->queues[r->w.queue];
    int done = 0;
    sm_net_pop(&q->waiting);
    r->retired = 1;
    if (r->w.bad && net->profile.on_error == SM_ON_ERROR) q->failed = 1;
    if (sm_net_has(r, SM_REQ_SIGNALED) || r->w.bad) done = tell(net, r, r->w.bad ? r->w.bad : SM_STATUS_OK);
    if (!r->w.bad || done) return done;
    done = sm_net_flush_receives(net, q, r->w.queue, r);
    return done ? done : 1;
}

/* It counts as failed, though its target has it: what it does there goes on. */
int sm_net_untold(sm_net *net, sm_req *r) {
    sm_queue *q = &net->queues[r->w.queue];
    fails(net, q, r->w.number);
    if (net->profile.on_error == SM_ON_ERROR) {
        flush_behind(net, q, r->w.number);
        q->failed = 1;
    }
    sm_net_pop(&q->waiting);
    r->retired = 1;
    int done = tell(net, r, SM_STATUS_RETRY);
    if (!done) done = sm_net_flush_receives(net, q, r->w.queue, r);
    if (done) return done;
    return r->w.kind == SM_KIND_READ || r->w.kind == SM_KIND_ATOMIC;      /* its answer does not come */
}

/* Rings for all up to one. */
static int64_t rung(sm_net *net, sm_queue *q, int64_t last) {
    int64_t n = 0;
    for (; q->silent.n && sm_net_item_at(&q->silent, 0)->number <= last; n++, sm_net_pop(&q->silent)) {
        sm_req *r = sm_net_find(net, q->pe, sm_net_item_at(&q->silent, 0)->number);
        if (r) r->rung = 1;
    }
    return n;
}

int64_t sm_net_ring(sm_net *net, int queue) {
    sm_queue *q = &net->queues[queue];
    if (!q->silent.n) return 0;
    int64_t last = sm_net_item_at(&q->silent, q->silent.n - 1)->number;
    if (last > q->asked) q->asked = last;
    if (!net->profile.lost_doorbell) return rung(net, q, last);
    return sm_net_push(&q->bells, (sm_item){.number = last, .more = q->bells_rung++}) ? SM_NET_NO_MEMORY : 0;
}

/* The first doorbell on its way arrives, or is lost: a later one rings for it as well. */
int sm_net_bell(sm_net *net, const sm_event *event) {
    for (int64_t i = 0; i < net->nqueues; i++) {
        sm_queue *q = &net->queues[i];
        if (!q->bells.n || q->pe != event->pe) continue;
        sm_item bell = *sm_net_item_at(&q->bells, 0);
        if (bell.number != event->number || bell.more != event->unit) continue;
        sm_net_pop(&q->bells);
        if (event->act == SM_ACT_LOSE) q->lost = 1;
        else rung(net, q, bell.number);
        return 0;
    }
    return SM_NET_NONE;
}

void sm_net_poll(sm_net *net, int queue, int64_t number) {
    sm_queue *q = &net->queues[queue];
    for (; q->held.n && sm_net_item_at(&q->held, 0)->number <= number; sm_net_pop(&q->held))
        q->ci += (uint32_t)sm_net_item_at(&q->held, 0)->more;
}

void sm_net_reset(sm_net *net, int queue) {
    sm_queue *q = &net->queues[queue];
    for (int64_t i = 0; i < q->waiting.n; i++) {
        sm_req *r = sm_net_find(net, q->pe, sm_net_item_at(&q->waiting, i)->number);
        if (!r) continue;
        sm_net_unlink(net, r);
        sm_net_free_slot(net, r);
    }
    q->pi = q->ci = 0;
    q->waiting.n = q->held.n = q->silent.n = q->bells.n = 0;
    q->waiting.head = q->held.head = q->silent.head = q->bells.head = 0;
    q->doomed = q->failed = q->has_stopped = 0;
    q->asked = q->stopped = -1;
    q->bad = 0;
}

int sm_net_queue_view(const sm_net *net, int queue, sm_queue_view *out) {
    if (queue < 0 || queue >= net->nqueues) return SM_NET_NONE;
    const sm_queue *q = &net->queues[queue];
    *out = (sm_queue_view){
        .pi = q->pi, .ci = q->ci, .waiting = q->waiting.n, .held = q->held.n, .silent = q->silent.n, .bells = q->bells.n,
        .waits = q->waiting.items + q->waiting.head, .holds = q->held.items + q->held.head,
        .silents = q->silent.items + q->silent.head, .rings = q->bells.items + q->bells.head,
        .asked = q->asked, .stopped = q->stopped, .bells_rung = q->bells_rung, .doomed = q->doomed, .failed = q->failed,
        .lost = q->lost, .has_stopped = q->has_stopped,
    };
    return 0;
}
