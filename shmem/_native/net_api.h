/* What Python sees of the delivery engine (net.h): read by cffi and included by the C files, as core_api.h is.
 *
 * An engine (sm_net) holds the requests that one or several PEs have posted and not seen the end of. It states in C what
 * shmem/delivery states in Python, event by event: `sm_net_enabled` lists what may happen next in the same order, and
 * `sm_net_fire` makes it happen, in real memory. Spaces, queues, completion queues and receive queues are numbers, given
 * out from 0 on. An engine is used by one thread at a time. Functions that return int give 0 or SM_NET_* below 0. */

/* The numbers of delivery/requests.py (Kind, Stage, Act, Order) and delivery/atomics.py; tests compare them. */
enum { SM_KIND_STORE, SM_KIND_WRITE, SM_KIND_READ, SM_KIND_ATOMIC, SM_KIND_SEND };
enum { SM_STAGE_SOURCE, SM_STAGE_ACCEPTED, SM_STAGE_PLACED, SM_STAGE_ANSWERED, SM_STAGE_RETIRED };
enum {
    SM_ACT_ACCEPT, SM_ACT_SOURCE, SM_ACT_FETCH, SM_ACT_PLACE, SM_ACT_WORD, SM_ACT_LAND, SM_ACT_RECEIVE, SM_ACT_RETIRE,
    SM_ACT_GIVE_UP, SM_ACT_AGAIN, SM_ACT_SHOW, SM_ACT_BELL, SM_ACT_LOSE, SM_ACT_UNTOLD, SM_ACT_ADMIT
};
enum { SM_ORDER_NONE, SM_ORDER_RELAX, SM_ORDER_STRONG };
enum { SM_OP_NONE, SM_OP_SET, SM_OP_SWAP, SM_OP_ADD, SM_OP_FETCH, SM_OP_COMPARE_SWAP, SM_OP_AND, SM_OP_OR, SM_OP_XOR };
/* Statuses that the engine gives itself; a program may doom a request with any number above. */
enum { SM_STATUS_NONE, SM_STATUS_OK, SM_STATUS_FLUSH, SM_STATUS_REM_ACCESS, SM_STATUS_RNR_RETRY, SM_STATUS_REM_INV_REQ,
       SM_STATUS_LOC_LEN, SM_STATUS_RETRY };
enum { SM_RECEIVE = 9 };
enum { SM_ON_ERROR, SM_ON_ERROR_SUSPEND, SM_ON_ERROR_GO_ON };    /* the later ones are flushed, stop, or go on */
enum { SM_COVERS_OWN, SM_COVERS_EARLIER, SM_COVERS_ALL };
enum { SM_NET_NO_MEMORY = -1, SM_NET_BAD = -2, SM_NET_NONE = -3 };    /* BAD: malformed; NONE: there is no such thing */
enum {                                      /* flags of a request */
    SM_REQ_RING = 1, SM_REQ_SIGNALED = 2, SM_REQ_FENCE = 4, SM_REQ_NEEDS_RECEIVE = 8, SM_REQ_TELLS = 16,
    SM_REQ_KEEP = 32, SM_REQ_ASCENDING = 64, SM_REQ_DEFAULT = 128, SM_REQ_RUNG = 256, SM_REQ_ADMITTED = 512,
    SM_REQ_IMMEDIATE = 1024
};
/* What a rule may depend on besides the two kinds: the bits of a column of sm_net_profile.rules, for requests to one
 * target. QUEUE .. OWN compare the two; FENCED, SPREAD and RECEIVE are of the first, SPREAD only where the second is on
 * the default context; FENCE is of the second; STRONG: the second is strong and the first not without order; PUT: the
 * second carries the word of the put that both are pieces of. */
enum {
    SM_IF_QUEUE = 1, SM_IF_STRIPE = 2, SM_IF_OVERLAP = 4, SM_IF_OWN = 8, SM_IF_FENCED = 16, SM_IF_SPREAD = 32,
    SM_IF_RECEIVE = 64, SM_IF_FENCE = 128, SM_IF_STRONG = 256, SM_IF_PUT = 512, SM_IF_ALL = 1024
};

/* A profile and its order tables, as data: delivery/compiled.py fills it. An entry of the tables is up to 8 rules, a byte
 * each, 1 + 5 * (stage of the first) + (stage of the second), the first in the lowest byte; 0 ends them. */
typedef struct {
    const uint64_t *rules;                  /* [kind of first][kind of second][SM_IF_ALL] */
    const uint64_t *apart;                  /* [kind of first][kind of second], of different targets */
    uint64_t unit, pieces;                  /* bytes; into how many parts at most a request is cut, 0: each unit by itself */
    uint8_t ascending, repeat, lost_ack, lost_doorbell, program_order, engine_scoped, in_turn, covers, on_error;
    uint8_t forwarding;                     /* a PE sees its own stores before they are placed */
    uint8_t halves;                         /* an atomic on an adapter is two events: others may come between (not atomics) */
    uint8_t completes[5], executes[5];      /* by kind: stages */
} sm_net_profile;

typedef struct {
    int64_t space;                          /* -1: no place */
    uint64_t lo, hi;
} sm_place;
typedef struct {
    uint32_t op, width;
    uint64_t value, cond;
} sm_update;
typedef struct {                            /* of a queue of bells: `number` is a request, `unit` the bell's number */
    int64_t number, unit;
    int32_t pe, act;
} sm_event;
typedef struct {                            /* the other request, the stage it must reach, and the stage that waits */
    int64_t number;
    int32_t pe, slot;
    uint32_t stage, mine;
} sm_gate;

/* A request as it is posted. Its key is (pe, number), numbers of a PE ascending. */
typedef struct {
    int64_t number;
    int32_t pe, kind, target, queue, stripe, taker;     /* taker: -1, the target PE's own */
    sm_place at, source, result, word;
    sm_update update, word_update;
    const sm_place *rest;                   /* of source or result, where that lies in several places */
    int64_t rests;
    const void *data;                       /* copied */
    uint64_t ndata;
    int64_t put;                            /* number of the first piece of its put; -1 */
    int64_t segments[2];                    /* spaces of one byte; -1 */
    uint64_t immediate;
    uint32_t flags, order, blocks, bad;
    uint64_t wr_id;                         /* of a queue pair: what its completion says, besides `entry` and `opcode` */
    uint32_t entry, opcode;
} sm_request;

typedef struct {                            /* an entry of a completion queue */
    int64_t number, receive;                /* receive: -1 for none */
    int32_t pe, queue;
    uint32_t status, has_immediate;
    uint64_t nbytes, immediate;
    uint64_t wr_id;
    uint32_t entry, opcode;                 /* opcode: of a receive SM_RECEIVE */
} sm_cqe;
typedef struct {                            /* an item of a queue: a request and its blocks or bell, or a posted receive */
    int64_t number, more;
    sm_place place;
} sm_item;

/* What there is to see of a request in flight, of a queue pair, of a receive queue; pointers are valid until the engine is
 * used again. Bits of units are words of 64, the lowest first. */
typedef struct {
    int64_t number, receive;
    int32_t pe, target;
    sm_place at;
    uint64_t units, ndata;
    const uint64_t *placed, *landed, *again;
    const uint8_t *data;
    const sm_gate *gates;
    int64_t ngates;
    uint32_t bad;
    uint8_t read, rung, admitted, accepted, denied, fetched, worded, told, retired, fenced, spread;
    uint8_t ascending, split, repeats;
    int32_t queue;
    uint64_t wr_id;
} sm_request_view;
typedef struct {
    uint32_t pi, ci;
    int64_t waiting, held, silent, bells;   /* how many */
    const sm_item *waits, *holds, *silents, *rings;
    int64_t asked, stopped, bells_rung;     /* numbers of requests, -1: none; of bells */
    uint8_t doomed, failed, lost, has_stopped;
} sm_queue_view;
typedef struct {
    int64_t posted, taken, failed_number;
    const sm_item *receives;
    int32_t failed_queue, failed_pe;        /* queue -1: it has not failed */
} sm_taker_view;

typedef struct sm_net sm_net;

/* What happened when, where that is logged: `act` of the request, or SM_LOG_POSTED; the bytes that it was about, of a
 * space. */
enum { SM_LOG_POSTED = 100 };
typedef struct {
    int64_t ns, number, space;
    uint64_t lo, hi, wr_id;
    int32_t act, target, queue, kind;
} sm_mark;

/* On a recorded run: bytes of a PE's heap that have changed, at which time, and by which record; `act` as above. Results
 * that have come are of PE -1, at addresses of this process. */
typedef struct {
    uint64_t time, op, lo, hi;
    int32_t pe, act;
} sm_landing;

/* An engine with room for so many requests at once, which grows where that is not enough; the tables must outlive it. */
sm_net *sm_net_open(const sm_net_profile *profile, int64_t requests);        /* NULL: no memory */
void sm_net_close(sm_net *net);
sm_net *sm_net_copy(const sm_net *net);     /* the same state over the same memory: see sm_net_move; NULL: no memory */

/* Memory: a space is `bytes` bytes at an address of this process, aligned to 8. */
int64_t sm_net_space(sm_net *net, void *base, uint64_t bytes);
void sm_net_move(sm_net *net, int64_t space, void *base);
void sm_net_wakes(sm_net *net, int64_t space, sm_pe *p, int pe);     /* it is the heap of that PE: its waiters are woken */
int sm_net_look(sm_net *net, int pe, const sm_place *place, void *out);      /* with what the PE has yet to store there */

/* Queues. A completion queue of depth 0 has no end, one with an end has 8 bytes of counter at the start of a space (or
 * -1); sm_net_entry gives entry i of all that were ever written, if it is still there. */
int sm_net_cq(sm_net *net, uint32_t depth, int64_t space);
const sm_cqe *sm_net_entry(const sm_net *net, int cq, int64_t i);
int64_t sm_net_entries(const sm_net *net, int cq, int64_t *taken, int *overrun);             /* how many were written */
void sm_net_take(sm_net *net, int cq, int64_t n);
int sm_net_queue(sm_net *net, int cq, uint32_t depth, int ring);             /* ring 0: of a context; cq -1 */
int sm_net_pair(sm_net *net, int queue, int taker, int patient);             /* its receives (-1: none), its patience */
int sm_net_room(const sm_net *net, int queue, uint32_t blocks);
int64_t sm_net_ring(sm_net *net, int queue);                 /* a doorbell; how many requests it has rung for by now */
void sm_net_poll(sm_net *net, int queue, int64_t number);    /* a completion was taken: its blocks are free */
void sm_net_reset(sm_net *net, int queue);                   /* what is posted on it is dropped */
int sm_net_taker(sm_net *net);                               /* nobody's yet: nothing is posted there */
int sm_net_open_taker(sm_net *net, int taker, int cq, int64_t taken);        /* empty; taken: how many it had before */
int sm_net_receive(sm_net *net, int taker, int64_t number, const sm_place *place);
void sm_net_drop(sm_net *net, int taker);
int sm_net_pe(sm_net *net, int pe, int64_t receives, int cq);                /* receives without buffers: -1 enough */
int64_t sm_net_receives(const sm_net *net, int pe);

/* Requests and their events. sm_net_enabled writes up to `most` events from number `first` on, and returns how many there
 * are in all; sm_net_answer takes the result of a request that keeps it: its size, or SM_NET_NONE. */
int sm_net_post(sm_net *net, const sm_request *request);
int64_t sm_net_enabled(sm_net *net, int64_t first, int64_t most, sm_event *out);
int sm_net_fire(sm_net *net, const sm_event *event);
/* Fires up to `most` events, each drawn from all that may happen by a generator whose state is *seed (NULL: the first one
 * each time); without `faults` none that is a fault (GIVE_UP, LOSE, UNTOLD). Returns how many there were, or below 0. */
int64_t sm_net_step(sm_net *net, int64_t most, uint64_t *seed, int faults);
/* Of all events that were drawn: a digest of what they were and in which order, whatever calls they were made by, and how
 * many requests had one before one in flight that was posted earlier was over. */
uint64_t sm_net_drawn(const sm_net *net, uint64_t *passed);
int64_t sm_net_answer(sm_net *net, int32_t *pe, int64_t *number, void *out, int64_t most);
void sm_net_fence(sm_net *net, int pe, int queue, int is_default);
int64_t sm_net_unfinished(const sm_net *net, int pe, int queue, int target); /* queue -1: own stores; target -1: all */
int sm_net_left(const sm_net *net, int pe, int target);      /* whether work requests that were rung for are not over */
int sm_net_holds_back(const sm_net *net, int pe, int target);
int sm_net_segment_used(const sm_net *net, int64_t space);
int64_t sm_net_next(const sm_net *net, int64_t slot, sm_request_view *out);  /* after a slot, -1 first; -1: no more */
int sm_net_log(sm_net *net, uint64_t most);                  /* from now on, so many marks at most */
const sm_mark *sm_net_logged(const sm_net *net, uint64_t *n, int *more);     /* more: there was no room for all */
int sm_net_queue_view(const sm_net *net, int queue, sm_queue_view *out);
int sm_net_taker_view(const sm_net *net, int taker, sm_taker_view *out);
