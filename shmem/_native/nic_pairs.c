/* Queue pairs of an adapter: their rings, which the program's side writes and gives back. Positions count blocks and never
 * end; there is room where pi - ci + blocks does not go beyond the depth, mod 2^32. */
#include "nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_NS 100000000
#define ALL_KINDS 31
#define CAP_NS 1000000                      /* of a sleep for completions, while the own adapter has something to do */

static sm_arena *mine(const sm_nic *nic) { return nic->arenas[nic->p->me]; }

static void *own(const sm_nic *nic, uint64_t offset) { return (char *)mine(nic) + offset; }

static sm_cq_ring *cq_of(const sm_nic *nic, int cq) { return nic->net->cqs[cq].ring; }

int sm_nic_ready(sm_nic *nic, const uint64_t *arenas) {
    int n = nic->p->n;
    nic->arenas = calloc((size_t)n, sizeof *nic->arenas);
    nic->segments = calloc((size_t)n * SM_SEGMENTS, sizeof *nic->segments);
    if (!nic->arenas || !nic->segments) return SM_NO_MEMORY;
    for (int pe = 0; pe < n; pe++) {
        nic->arenas[pe] = (sm_arena *)(uintptr_t)arenas[pe];
        if (sm_net_space(nic->net, nic->arenas[pe], sm_arena_bytes()) != n + 1 + pe) return SM_NO_MEMORY;
    }
    nic->net->p = nic->p;
    return SM_OK;
}

int sm_nic_open_cq(sm_nic *nic, uint64_t offset, uint32_t depth) {
    sm_cq_ring *ring = own(nic, offset);
    memset(ring, 0, sizeof *ring + (uint64_t)depth * sizeof(sm_cq_entry));       /* fresh memory: no entry is new */
    ring->depth = depth;
    sm_nic_enter(nic);
    int cq = sm_net_cq_at(nic->net, ring);
    sm_nic_leave(nic);
    return cq < 0 ? SM_NO_MEMORY : cq;
}

/* Where others find the receive queue of a queue pair: always the same place for a peer and an index. */
static sm_pair_place *place_of(sm_nic *nic, int peer, int index) {
    sm_arena *arena = mine(nic);
    for (uint32_t i = 0; i < arena->pairs; i++)
        if (arena->pair[i].pe == peer && arena->pair[i].index == index) return &arena->pair[i];
    if (arena->pairs == SM_PAIRS) return NULL;
    sm_pair_place *place = &arena->pair[arena->pairs];
    *place = (sm_pair_place){peer, index, 0};
    atomic_store(&SM_SHARED(arena->pairs), arena->pairs + 1);
    return place;
}

static int add_pair(sm_nic *nic) {
    sm_pair *made = realloc(nic->pairs, (size_t)(nic->n_pairs + 1) * sizeof *made);
    if (!made) return SM_NO_MEMORY;
    nic->pairs = made;
    made[nic->n_pairs] = (sm_pair){0};
    return (int)nic->n_pairs;
}

static int open_pair(sm_nic *nic, const sm_pair_options *o) {
    int number = add_pair(nic), n = nic->p->n, me = nic->p->me;
    if (number < 0) return number;
    sm_pair *pair = &nic->pairs[number];
    pair->sq = own(nic, o->sq), pair->rq = own(nic, o->rq);
    pair->peer = o->peer, pair->retries = o->retries;
    pair->ids = calloc(o->depth, sizeof *pair->ids);
    pair->numbers = calloc(o->depth, sizeof *pair->numbers);
    pair->heads = calloc(o->depth, sizeof *pair->heads);
    pair->place = place_of(nic, o->peer, o->index);
    if (!pair->ids || !pair->numbers || !pair->heads || !pair->place) {
        free(pair->ids);
        free(pair->numbers);
        free(pair->heads);
        return pair->place ? SM_NO_MEMORY : SM_NO_ROOM;
    }
    int queue = sm_net_queue(nic->net, o->cq, UINT32_MAX, 1);
    pair->own = sm_net_taker_at(nic->net, me, o->peer, o->index, mine(nic), me, n + 1 + me);
    pair->there = sm_net_taker_at(nic->net, o->peer, me, o->index, nic->arenas[o->peer], o->peer, n + 1 + o->peer);
    if (queue != SM_QUEUES + number || pair->own < 0 || pair->there < 0) return SM_NO_MEMORY;
    sm_net_pair(nic->net, queue, pair->own, o->retries >= 7);
    memset(pair->sq, 0, sizeof *pair->sq + (uint64_t)o->depth * SM_BLOCK);
    pair->sq->depth = o->depth;
    memset(pair->rq, 0, sizeof *pair->rq);
    pair->rq->depth = o->rq_depth, pair->rq->pair = queue, pair->rq->cq = o->receives;
    pair->open = 1;
    nic->n_pairs++;
    atomic_store(&SM_SHARED(pair->place->offset), o->rq);
    return number;
}

int sm_nic_open_pair(sm_nic *nic, const sm_pair_options *options) {
    sm_nic_enter(nic);
    int number = open_pair(nic, options);
    sm_nic_leave(nic);
    return number;
}

/* Drops the receives that nobody has taken; whether some are taken and not told of. */
static int drop_receives(sm_pair *pair) {
    sm_rq_entry entry;
    while (sm_ring_take(pair->rq, &entry)) continue;
    return atomic_load(&SM_SHARED(pair->rq->using)) != 0;
}

int sm_nic_close_pair(sm_nic *nic, int number) {
    sm_nic_enter(nic);
    sm_pair *pair = &nic->pairs[number];
    int busy = sm_nic_fetch(nic) < 0 || pair->fetched != pair->sq->pi || nic->net->queues[SM_QUEUES + number].waiting.n;
    if (!busy) {
        atomic_store(&SM_SHARED(pair->place->offset), 0);
        busy = drop_receives(pair);
        if (busy) atomic_store(&SM_SHARED(pair->place->offset), (uint64_t)((char *)pair->rq - (char *)mine(nic)));
    }
    if (!busy) pair->open = 0;
    sm_nic_leave(nic);
    return busy ? SM_BUSY : SM_OK;
}

/* ---- posting ---- */

static int has_room(const sm_nic *nic, const sm_pair *pair, uint32_t blocks) {
    const sm_sq_ring *sq = pair->sq;
    if (nic->broken == SM_COUNTS_REQUESTS) return pair->posted - pair->taken < sq->depth;
    if (nic->broken == SM_IGNORES_FULL && sq->pi - sq->ci == sq->depth) return 1;
    return (uint64_t)(uint32_t)(sq->pi - sq->ci) + blocks <= sq->depth;
}

void sm_nic_break(sm_nic *nic, int how) { nic->broken = how; }

/* SM_NO_LOCK: two threads have read one position when this returns, if a second one comes within a second. */
static void meet_unlocked(sm_nic *nic) {
    int64_t end = sm_now_ns() + 1000000000;
    pthread_mutex_unlock(&nic->lock);
    atomic_fetch_add(&nic->meeting, 1);
    while (atomic_load(&nic->meeting) < 2 && sm_now_ns() < end) sm_pause();
    pthread_mutex_lock(&nic->lock);
}

/* Writes a request of up to four blocks from the producer position on; the ring has room. */
static uint64_t write_request(sm_nic *nic, sm_pair *pair, const uint8_t *bytes, uint32_t blocks) {
    sm_sq_ring *sq = pair->sq;
    uint8_t *ring = sm_sq_blocks(sq);
    uint32_t pi = sq->pi;
    if (nic->broken == SM_NO_LOCK) meet_unlocked(nic);
    for (uint32_t i = 0; i < blocks; i++)
        memcpy(ring + (uint64_t)((pi + i) % sq->depth) * SM_BLOCK, bytes + i * SM_BLOCK, SM_BLOCK);
    sm_wqe *head = (sm_wqe *)(ring + (uint64_t)(pi % sq->depth) * SM_BLOCK);
    head->owner = !(pi & sq->depth);
    head->wr_id = pair->posted;
    for (uint32_t i = 0; i < blocks; i++) {
        sm_wqe *shown = &pair->heads[(pi + i) % sq->depth];
        *shown = *head;
        shown->block = (uint8_t)i;
        shown->owner = !((pi + i) & sq->depth);
    }
    pair->ids[(pi + blocks - 1) % sq->depth] = pair->posted;
    sq->pi = pi + blocks;
    return pair->posted++;
}

int64_t sm_nic_post(sm_nic *nic, int number, const sm_wqe *head, uint32_t notify_key, const void *body, uint64_t nbody) {
    uint8_t bytes[4 * SM_BLOCK] = {0};
    uint32_t control = sm_nic_control(head->opcode);
    memcpy(bytes, head, sizeof *head);
    if (control > sizeof *head) memcpy(bytes + sizeof *head, &notify_key, sizeof notify_key);
    if (nbody) memcpy(bytes + control, body, nbody);
    sm_nic_enter(nic);
    sm_pair *pair = &nic->pairs[number];
    int64_t id = has_room(nic, pair, head->blocks) ? (int64_t)write_request(nic, pair, bytes, head->blocks) : SM_NO_ROOM;
    sm_nic_leave(nic);
    return id;
}

static void ring_bell(sm_sq_ring *sq) { atomic_store_explicit(&SM_SHARED(sq->doorbell), sq->pi, memory_order_release); }

/* What happens in the call that rings. */
static void answer_bell(sm_nic *nic) {
    if (nic->options.progress == SM_PROGRESS_MANUAL) return;
    sm_nic_fetch(nic);
    sm_nic_after_post(nic);
}

int64_t sm_nic_post_many(sm_nic *nic, int number, const sm_wqe *heads, const sm_piece *pieces, int64_t n, int each) {
    int64_t i = 0;
    sm_nic_enter(nic);
    sm_pair *pair = &nic->pairs[number];
    for (; i < n && has_room(nic, pair, heads[i].blocks); i++) {
        uint8_t bytes[4 * SM_BLOCK] = {0};
        memcpy(bytes, &heads[i], sizeof heads[i]);
        if (heads[i].pieces) memcpy(bytes + sm_nic_control(heads[i].opcode), &pieces[i], sizeof pieces[i]);
        write_request(nic, pair, bytes, heads[i].blocks);
        if (!each) continue;
        ring_bell(pair->sq);
        answer_bell(nic);
    }
    if (!each) {
        ring_bell(pair->sq);
        answer_bell(nic);
    }
    sm_nic_leave(nic);
    return i;
}

void sm_nic_blocks(sm_nic *nic, int number, sm_wqe *out) {
    sm_nic_enter(nic);
    const sm_pair *pair = &nic->pairs[number];
    uint32_t depth = pair->sq->depth;
    memcpy(out, sm_sq_blocks(pair->sq), (uint64_t)depth * SM_BLOCK);
    for (uint32_t slot = 0; slot < depth; slot++)
        if (pair->heads[slot].block) out[slot] = pair->heads[slot];
    sm_nic_leave(nic);
}

void sm_nic_doorbell(sm_nic *nic, int number) {
    sm_nic_enter(nic);
    ring_bell(nic->pairs[number].sq);
    answer_bell(nic);
    sm_nic_leave(nic);
}

void sm_nic_positions(sm_nic *nic, int number, uint32_t *pi, uint32_t *ci) {
    sm_nic_enter(nic);
    *pi = nic->pairs[number].sq->pi;
    *ci = nic->pairs[number].sq->ci;
    sm_nic_leave(nic);
}

/* ---- completions ---- */

/* Gives back all blocks up to the one that a completion names. */
static void reclaim(sm_nic *nic, int number, uint32_t entry) {
    sm_pair *pair = &nic->pairs[number];
    sm_sq_ring *sq = pair->sq;
    uint32_t ahead = (entry - sq->ci) & (sq->depth - 1);
    if (sq->ci == sq->pi || ahead >= sq->pi - sq->ci) return;            /* a quiet has given them back already */
    sm_net_poll(nic->net, SM_QUEUES + number, pair->numbers[entry & (sq->depth - 1)]);
    pair->taken = pair->ids[entry & (sq->depth - 1)] + 1;
    sq->ci += ahead + 1;
}

int64_t sm_nic_poll(sm_nic *nic, int cq, sm_cq_entry *out, int64_t most, int takes) {
    sm_cq_ring *ring = cq_of(nic, cq);
    sm_nic_enter(nic);
    if (nic->options.progress == SM_PROGRESS_INLINE) sm_nic_drive(nic, nic->options.seeded ? 1 : INT32_MAX);
    int64_t n = sm_ring_new(ring, most);
    if (takes && atomic_load(&SM_SHARED(ring->overrun))) n = SM_OVERRUN;
    for (int64_t i = 0; i < n; i++) {
        out[i] = sm_cq_entries(ring)[(ring->taken + (uint64_t)i) % ring->depth];
        out[i].pair -= SM_QUEUES;
        if (takes && !out[i].received) reclaim(nic, (int)out[i].pair, out[i].entry);
    }
    if (n > 0) atomic_store(&SM_SHARED(ring->taken), ring->taken + (uint64_t)n);
    sm_nic_leave(nic);
    return n;
}

void sm_nic_reclaim(sm_nic *nic, int pair, uint32_t entry) {
    sm_nic_enter(nic);
    reclaim(nic, pair, entry);
    sm_nic_leave(nic);
}

int sm_nic_await(sm_nic *nic, int cq, int64_t n, int64_t timeout_ns) {
    sm_cq_ring *ring = cq_of(nic, cq);
    int64_t now = sm_now_ns(), end = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns, entered = now;
    int status = SM_OK;
    sm_nic_enter(nic);
    sm_nic_fetch(nic);                      /* on a queue pair in error, also what nobody rings for */
    sm_nic_leave(nic);
    atomic_fetch_add(&SM_SHARED(ring->sleepers), 1);
    for (;;) {
        uint32_t seen = atomic_load(&SM_SHARED(ring->seq));
        if (sm_ring_new(ring, n) >= n || atomic_load(&SM_SHARED(ring->overrun))) break;
        if (sm_nic_progress(nic)) continue;
        now = sm_now_ns();
        status = now >= end ? SM_TIMEOUT : now - entered >= SLICE_NS ? SM_INTERRUPTED : SM_OK;
        if (status) break;
        int64_t cap = nic->net->n_flight ? CAP_NS : SLICE_NS;
        if (sm_futex_sleep(nic->p, &SM_SHARED(ring->seq), seen, end - now < cap ? end - now : cap) != EINTR) continue;
        if (sm_ring_new(ring, n) < n) status = SM_INTERRUPTED;
        break;
    }
    atomic_fetch_sub(&SM_SHARED(ring->sleepers), 1);
    return status;
}

int sm_nic_receive(sm_nic *nic, int number, const sm_rq_entry *entry) {
    sm_nic_enter(nic);
    sm_pair *pair = &nic->pairs[number];
    int full = 0;
    if (atomic_load(&SM_SHARED(pair->rq->failed))) {
        sm_cqe told = {.receive = (int64_t)entry->number, .status = SM_STATUS_FLUSH, .opcode = SM_RECEIVE};
        sm_ring_tell(nic->p, own(nic, pair->rq->cq), &told, (uint32_t)pair->rq->pair);
    } else {
        full = sm_ring_post(pair->rq, entry);
    }
    sm_nic_leave(nic);
    return full ? SM_NO_ROOM : SM_OK;
}

/* ---- what is left of a queue pair ---- */

static int finished(sm_nic *nic, const void *what) {
    int number = *(const int *)what, queue = SM_QUEUES + number;
    sm_nic_fetch(nic);
    if (nic->pairs[number].fetched != nic->pairs[number].sq->pi) return 0;       /* no doorbell was rung for those */
    SM_EACH(nic->net, r) {
        if (r->w.queue != queue) continue;
        if (r->retired ? !sm_net_reached(r, SM_STAGE_ANSWERED) : !sm_net_rests(nic->net, r, 0)) return 0;
    }
    return 1;
}

int sm_nic_drain(sm_nic *nic, int number, int64_t timeout_ns) {
    sm_nic_enter(nic);
    int status = sm_nic_until(nic, finished, &number, timeout_ns);
    sm_pair *pair = &nic->pairs[number];
    if (!status && !nic->net->queues[SM_QUEUES + number].waiting.n) {
        sm_net_poll(nic->net, SM_QUEUES + number, INT64_MAX);
        pair->sq->ci = pair->sq->pi;
        pair->taken = pair->posted;
    }
    sm_nic_leave(nic);
    return status;
}

static int settled(sm_nic *nic, const void *peer) {
    sm_nic_fetch(nic);
    return !sm_net_left(nic->net, nic->p->me, *(const int *)peer);
}

int sm_nic_settle(sm_nic *nic, int peer, int64_t timeout_ns) {
    if (!nic->n_pairs || (nic->net->profile.engine_scoped && peer < 0)) return SM_OK;
    sm_nic_enter(nic);
    int status = sm_nic_until(nic, settled, &peer, timeout_ns);
    sm_nic_leave(nic);
    return status;
}

/* Whether a queue pair has a failure that the program does not know of. */
static int has_failed(const sm_nic *nic) {
    for (int64_t i = 0; i < nic->n_pairs; i++) {
        const sm_pair *pair = &nic->pairs[i];
        uint64_t bad = nic->net->queues[SM_QUEUES + i].bad;
        if (pair->open && bad > pair->taken && bad > pair->told) return 1;
    }
    return 0;
}

int sm_nic_quiet(sm_nic *nic, int q, int64_t timeout_ns) {
    int all = -1, status = sm_nic_complete(nic, q, all, SM_STAGE_ANSWERED, ALL_KINDS, timeout_ns);
    if (status || q || !nic->n_pairs || nic->net->profile.engine_scoped) return status;
    sm_nic_enter(nic);
    status = sm_nic_until(nic, settled, &all, timeout_ns);
    if (!status && has_failed(nic)) status = SM_FAILED;
    sm_nic_leave(nic);
    return status;
}

void sm_nic_told(sm_nic *nic, int number, uint64_t wr_id) {
    sm_nic_enter(nic);
    nic->pairs[number].told = wr_id;
    sm_nic_leave(nic);
}

uint64_t sm_nic_bad(sm_nic *nic, int number) {
    sm_nic_enter(nic);
    uint64_t bad = nic->net->queues[SM_QUEUES + number].bad;
    sm_nic_leave(nic);
    return bad;
}

static int at_rest(sm_nic *nic, const void *what) {
    int number = *(const int *)what;
    SM_EACH(nic->net, r) {
        if (r->w.queue != SM_QUEUES + number) continue;
        if (r->retired ? !sm_net_reached(r, SM_STAGE_ANSWERED) : !sm_net_rests(nic->net, r, 1)) return 0;
    }
    return 1;
}

int sm_nic_reset(sm_nic *nic, int number, int64_t timeout_ns) {
    sm_nic_enter(nic);
    sm_pair *pair = &nic->pairs[number];
    int status = sm_nic_until(nic, at_rest, &number, timeout_ns);
    if (!status && drop_receives(pair)) status = SM_TIMEOUT;
    if (!status) {
        sm_net_reset(nic->net, SM_QUEUES + number);
        nic->net->takers[pair->own].failed_queue = -1;
        atomic_store(&SM_SHARED(pair->rq->failed), 0);
        uint32_t depth = pair->sq->depth;
        memset(pair->sq, 0, sizeof *pair->sq + (uint64_t)depth * SM_BLOCK);
        pair->sq->depth = depth;
        memset(pair->heads, 0, depth * sizeof *pair->heads);
        pair->fetched = 0;
        pair->taken = pair->posted;
    }
    sm_nic_leave(nic);
    return status;
}

int sm_nic_state(sm_nic *nic, int number) {
    sm_nic_enter(nic);
    const sm_queue *q = &nic->net->queues[SM_QUEUES + number];
    int stopped = q->has_stopped && (!q->waiting.n || sm_net_item_at(&q->waiting, 0)->number > q->stopped);
    int state = q->failed ? 2 : stopped ? 1 : 0;
    sm_nic_leave(nic);
    return state;
}

int64_t sm_nic_unrung(sm_nic *nic, int number, uint64_t *wr_ids, int64_t most) {
    int64_t n = 0;
    sm_nic_enter(nic);
    const sm_pair *pair = &nic->pairs[number];
    for (uint32_t at = pair->fetched; at != pair->sq->pi && n < most; n++) {
        const sm_wqe *head = (const sm_wqe *)(sm_sq_blocks(pair->sq) + (uint64_t)(at % pair->sq->depth) * SM_BLOCK);
        wr_ids[n] = head->wr_id;
        at += head->blocks ? head->blocks : 1;
    }
    sm_nic_leave(nic);
    return n;
}
