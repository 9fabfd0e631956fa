/* Internals of the delivery engine: requests in flight and the queues they are on. The files: net.c (an engine, its copy,
 * its views), net_memory.c (loads, stores, atomics in real memory), net_post.c (units, gates, posting), net_enabled.c (what
 * may happen next), net_fire.c (what it does), net_queues.c (queue pairs, doorbells, errors), net_told.c (completions,
 * receives), net_order.c (fences, quiet, segments).
 *
 * A request lives in a slot of a pool; its bits, data and gates lie in buffers of the slot, which grow to what was ever
 * needed there, so that in the long run nothing is allocated. */
#ifndef SM_NET_H
#define SM_NET_H
#include "core.h"
#include "net_api.h"
#include "ring_api.h"
#include "ring.h"

#define SM_RESTS 16                         /* more places of a source or result are refused */
#define SM_HASH 256
#define SM_KEPT (1 << 16)                   /* bytes: a slot gives larger buffers of data back */

typedef struct {
    sm_item *items;
    int64_t head, n, room;                  /* of items: the first, how many, and for how many there is memory */
} sm_fifo;

typedef struct {
    sm_request w;                           /* as posted; `at` changes where a receive says where a SEND goes */
    sm_place rest[SM_RESTS];
    int32_t next, prev, chain;              /* slots: in flight in the order posted; of one bucket of the hash */
    int32_t used;
    uint8_t in_flight, read, rung, admitted, accepted, denied, fetched, worded, told, retired, fenced, spread;
    uint8_t ascending, split, repeats, passed;          /* passed: counted as one that passed another */
    int64_t receive;                        /* the number of the receive taken; -1 */
    int64_t since;                          /* when it was first seen without a receive; 0: not yet */
    uint8_t let_in, holds;                  /* counted in its segments, in a receive queue in shared memory */
    uint64_t unit, units, placed, landed, again;        /* bytes; how many there are, and to how many that happened */
    uint64_t words;                         /* of 64 bits, of each of the three sets of units */
    uint64_t *bits, bits_room;
    uint64_t *cuts, cuts_room;              /* where units end, where that is not simple: offsets from at.lo */
    uint8_t *data;
    uint64_t ndata, data_room;
    sm_gate *gates;
    int64_t ngates, gates_room;
} sm_req;

typedef struct {
    int32_t cq, taker, pe;
    uint32_t depth, pi, ci;
    sm_fifo waiting, held, silent, bells;   /* posted and not retired; their blocks until polled; not rung; on their way */
    int64_t asked, stopped, bells_rung;
    uint64_t bad;                           /* wr_id + 1 of the last request that was told of as failed; 0 */
    uint8_t ring, patient, doomed, failed, has_stopped, lost;
} sm_queue;

typedef struct {
    uint32_t depth;
    int overrun;
    int64_t space, written, taken, room;    /* entry i is at i modulo room */
    sm_cqe *entries;
    sm_cq_ring *ring;                       /* in shared memory: it is there, and not here */
} sm_cq;

typedef struct {
    int32_t cq, failed_queue, failed_pe;
    int64_t taken, failed_number;
    sm_fifo posted;
    sm_arena *arena;                        /* in shared memory: in that of PE `pe`, for the peer that its table names */
    sm_pair_place *place;
    sm_rq_ring *ring;
    int32_t pe, peer, index;
    int64_t heap, there;                    /* the spaces of that PE's heap and arena */
} sm_taker;

typedef struct {
    char *base;
    uint64_t bytes;
    sm_pe *waker;                           /* NULL: nobody waits for words of it in the kernel */
    int pe;
} sm_space;
typedef struct { int64_t receives; int32_t cq; } sm_receiver;
typedef struct {                            /* what has landed, see nic_clocks.c */
    sm_pe *p;
    uint64_t now, op;                       /* time of the engine; number of the record that is posted */
    sm_landing *list;
    uint64_t taken, n, room;
    int lost;                               /* there was no memory for one */
} sm_landings;

struct sm_net {
    sm_net_profile profile;
    sm_req *reqs;
    int64_t slots;
    int32_t first, last, spare, answers;    /* in flight; free slots; those whose result is kept */
    int32_t hash[SM_HASH];
    sm_space *spaces;
    sm_queue *queues;
    sm_cq *cqs;
    sm_taker *takers;
    sm_receiver *pes;
    int64_t nspaces, nqueues, ncqs, ntakers, npes;
    sm_mark *log;                           /* NULL: nothing is logged */
    uint64_t n_log, log_room;
    int log_full;
    sm_landings *landings;                  /* NULL: nobody asks at which times of a recorded run bytes have changed */
    sm_pe *p;                               /* shared memory: whose engine this is; else NULL */
    int64_t n_special;                      /* of those in flight: stores, fenced, in need of a receive */
    uint8_t is_free[5];                     /* by kind: a request waits for special ones only, if it has no flags */
    int told_others;                        /* the last event updated a word, which others may wait for */
    int64_t n_flight;                       /* how many requests are in flight */
    uint64_t order, passed;                 /* see sm_net_drawn */
};

#define SM_EACH(net, r) \
    for (sm_req *r = (net)->first < 0 ? NULL : &(net)->reqs[(net)->first]; r; r = r->next < 0 ? NULL : &(net)->reqs[r->next])

static inline int sm_net_has(const sm_req *r, uint32_t flag) { return (r->w.flags & flag) != 0; }
static inline uint64_t sm_net_size(const sm_place *p) { return p->hi - p->lo; }
static inline char *sm_net_at(const sm_net *net, const sm_place *p) { return (char *)((uintptr_t)net->spaces[p->space].base + p->lo); }
static inline sm_item *sm_net_item_at(const sm_fifo *f, int64_t i) { return &f->items[f->head + i]; }

/* Whether rules between requests may look at it beyond its kind, its queue and its place. */
static inline int sm_net_is_special(const sm_req *r) {
    return r->fenced || r->spread || sm_net_has(r, SM_REQ_NEEDS_RECEIVE) || r->w.kind == SM_KIND_STORE;
}

/* net.c */
int sm_net_grow(void **memory, uint64_t *room, uint64_t need, uint64_t size);
int sm_net_push(sm_fifo *f, sm_item item);
void sm_net_pop(sm_fifo *f);
sm_req *sm_net_find(const sm_net *net, int pe, int64_t number);
int sm_net_slot(sm_net *net);                                    /* a free one; -1: no memory */
void sm_net_link(sm_net *net, int slot);
void sm_net_unlink(sm_net *net, sm_req *r);                      /* out of flight, still in its slot */
void sm_net_free_slot(sm_net *net, sm_req *r);
/* net_memory.c */
void sm_net_write(const sm_net *net, const sm_place *place, const uint8_t *from);
void sm_net_place(const sm_net *net, const sm_place *place, const uint8_t *from);
void sm_net_load_bytes(uint8_t *to, const char *from, uint64_t n);
uint64_t sm_net_updated(uint64_t old, const sm_update *update);
uint64_t sm_net_atomic(const sm_net *net, const sm_place *place, const sm_update *update);   /* returns the old value */
int sm_net_fits(const sm_net *net, const sm_place *place);
int sm_net_fits_word(const sm_net *net, const sm_place *place, const sm_update *update);
void sm_net_read_own(sm_net *net, int pe, const sm_place *place, uint8_t *out);
uint64_t sm_net_draw(uint64_t *state);                           /* the next number of a generator */
/* net_post.c */
int sm_net_cut(sm_net *net, sm_req *r);
void sm_net_unit(const sm_req *r, uint64_t i, uint64_t *lo, uint64_t *hi);       /* offsets from at.lo */
int sm_net_reached(const sm_req *r, unsigned stage);
int sm_net_is_open(const sm_net *net, const sm_req *r, unsigned stages);            /* bits: 1 << stage */
void sm_net_end(sm_net *net, sm_req *r);                         /* it may be over */
static inline uint64_t *sm_net_placed(const sm_req *r) { return r->bits; }
static inline uint64_t *sm_net_landed(const sm_req *r) { return r->bits + r->words; }
static inline uint64_t *sm_net_again(const sm_req *r) { return r->bits + 2 * r->words; }
static inline int sm_net_bit(const uint64_t *bits, uint64_t i) { return (int)(bits[i >> 6] >> (i & 63) & 1); }
/* net_queues.c */
int sm_net_add(sm_net *net, sm_req *r);
int sm_net_is_first(const sm_net *net, const sm_req *r);
int sm_net_special(const sm_net *net, const sm_req *r);          /* 0 no, 1 nothing may happen to it, 2 it may retire */
int sm_net_rests(const sm_net *net, const sm_req *r, int rung);
void sm_net_doom(sm_net *net, sm_req *r, uint32_t status);
int sm_net_retire(sm_net *net, sm_req *r);                       /* 1: it has failed, and is not in flight any more */
int sm_net_untold(sm_net *net, sm_req *r);                       /* 1: likewise */
int sm_net_bell(sm_net *net, const sm_event *event);
/* net_told.c */
int sm_net_tell(sm_net *net, int cq, const sm_cqe *told);
int sm_net_has_receive(sm_net *net, const sm_req *r);
int sm_net_accept(sm_net *net, sm_req *r);
void sm_net_give_up(sm_net *net, sm_req *r);
int sm_net_flush_receives(sm_net *net, sm_queue *q, int queue, const sm_req *r);
/* net_log.c */
void sm_net_mark(sm_net *net, const sm_req *r, int act, const sm_place *place);
/* nic_clocks.c */
int sm_net_timed(sm_net *net, sm_req *r, const sm_event *event, const sm_place *place,
                 int (*happens)(sm_net *net, sm_req *r, const sm_event *event));
void sm_net_brought(sm_net *net, const sm_req *r, const sm_place *place);       /* a result */
/* net_shared.c */
int sm_net_cq_at(sm_net *net, sm_cq_ring *ring);                 /* a completion queue in shared memory */
int sm_net_taker_at(sm_net *net, int pe, int peer, int index, sm_arena *arena, int64_t heap, int64_t there);
sm_rq_ring *sm_net_ring_of(sm_net *net, sm_taker *t);            /* NULL: its owner has no such queue pair now */
int sm_net_take_ring(sm_net *net, sm_req *r, sm_taker *t, sm_item *receive);     /* 0: there is none */
void sm_net_told(sm_req *r, sm_taker *t);                        /* its receive is told of, or will never be */
int sm_net_let_in(sm_net *net, sm_req *r);                       /* 0: a segment that it goes to has ended */
void sm_net_let_out(sm_net *net, sm_req *r);                     /* as it leaves: of segments, of a receive */
/* net_order.c */
int sm_net_ended(const sm_net *net, const sm_req *r);
int sm_net_may_admit(const sm_net *net, const sm_req *r);
void sm_net_admit(sm_net *net, sm_req *r);
int sm_net_owes(const sm_net *net, int pe, int queue, int target, unsigned stage, unsigned kinds);   /* bits of kinds */

#endif
