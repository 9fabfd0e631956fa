/* What Python sees of the adapter of a PE on the fabric `nic` (nic.h): read by cffi and included by the C files, as
 * core_api.h is.
 *
 * An adapter (sm_nic) carries out the records of its PE: each becomes requests of a delivery engine, whose events happen
 * when the adapter is driven. Records to the own PE, and those that stay inside it, are as on `direct`. Without a seed
 * every request is carried out by the call that posts it, whole and in order, as far as the engine lets it. */

enum { SM_PROGRESS_INLINE, SM_PROGRESS_THREAD, SM_PROGRESS_MANUAL };

/* What an adapter has done: requests posted, events fired, by calls of its PE and by its thread; drawn: a digest of the
 * events in their order, which tells orders apart; passed: requests that had an event before one posted earlier was over.
 * opened: how many adapters have counted here, each going on where the one before ended. fabric/nic/counts.py has the
 * same fields. */
typedef struct {
    uint64_t opened, posted, fired, helped, drawn, passed;
    int64_t in_flight;
} sm_nic_counts;

typedef struct {
    const sm_net_profile *profile;          /* its tables must outlive the adapter */
    sm_nic_counts *counts;                  /* where it counts, up to date at all times; NULL: inside */
    uint64_t seed, stripe_bytes;
    int64_t limit_ns;                       /* how long a call waits for a request that nothing moves */
    int32_t seeded, progress, stripes;
    int32_t watched;                        /* everything goes through the engine, also what need not */
    int32_t flagged;                        /* a blocking put waits for all that goes to its target */
} sm_nic_options;

typedef struct sm_nic sm_nic;

/* Faulty designs, for tests to see that they are noticed: room is counted in requests; it is looked for by equality, and a
 * full ring ignored; nobody holds the lock between reading the producer position and moving it. */
enum { SM_SOUND, SM_COUNTS_REQUESTS, SM_IGNORES_FULL, SM_NO_LOCK };
void sm_nic_break(sm_nic *nic, int how);
void sm_nic_stand(sm_nic *nic, int stands);                  /* as if progress were manual, until it goes on */

sm_nic *sm_nic_open(sm_pe *p, const sm_nic_options *options);                /* NULL: no memory, or no thread */
void sm_nic_close(sm_nic *nic);                              /* what is in flight is dropped; records go `direct` again */
sm_net *sm_nic_net(sm_nic *nic);                             /* the engine: with the lock held */
void sm_nic_enter(sm_nic *nic);                              /* takes the lock */
void sm_nic_leave(sm_nic *nic);                              /* gives it back, and lets what is in flight go on */
void sm_nic_fence(sm_nic *nic, int q);
/* Waits until what is on a queue (of some kinds, 1 << kind; to a target, -1: all) has reached a stage; below 0: an SM_
 * status. sm_nic_step fires up to n events; how many there were. */
int sm_nic_complete(sm_nic *nic, int q, int target, int stage, int kinds, int64_t timeout_ns);
int64_t sm_nic_step(sm_nic *nic, int64_t n);
int sm_nic_progress(sm_nic *nic);           /* for who is about to sleep: whether anything happened */
void sm_nic_counts_read(sm_nic *nic, sm_nic_counts *out);
sm_nic_counts *sm_nic_counts_at(const char *path);   /* those in a file, for as long as this process lives; NULL: no such file */

/* A recorded run: from now on each change of a heap has its time (SM_NO_MEMORY). sm_nic_landed takes what has landed since
 * the last call, up to so many, in the order of times: how many, or SM_NO_MEMORY where some are lost; `now` becomes at least
 * the adapter's own time. */
int sm_nic_clocked(sm_nic *nic);
int64_t sm_nic_landed(sm_nic *nic, sm_landing *out, int64_t most, uint64_t *now);

/* Queue pairs: numbers from 0 on, with their queues in the own arena at the offsets given. `peer` is the one that they lead
 * to; retries: how often one looks for a receive, 7: for ever. sm_nic_ready: all arenas are there. */
typedef struct {
    int32_t peer, index, cq, retries;       /* cq: of its requests */
    uint64_t sq, rq, receives;              /* receives: the offset of the completion queue of its receives */
    uint32_t depth, rq_depth;
} sm_pair_options;

int sm_nic_ready(sm_nic *nic, const uint64_t *arenas);
int sm_nic_open_cq(sm_nic *nic, uint64_t offset, uint32_t depth);
int sm_nic_open_pair(sm_nic *nic, const sm_pair_options *options);
int sm_nic_close_pair(sm_nic *nic, int pair);                /* SM_BUSY (-8): there are requests, or receives in use */
/* Writes a request with its body into the ring: its wr_id, or SM_NO_ROOM. Many: alike, with a doorbell for all of them or
 * for each; how many were written before there was no room. notify_key: of the segment of WRITE_NOTIFY's word. */
int64_t sm_nic_post(sm_nic *nic, int pair, const sm_wqe *head, uint32_t notify_key, const void *body, uint64_t nbody);
int64_t sm_nic_post_many(sm_nic *nic, int pair, const sm_wqe *heads, const sm_piece *pieces, int64_t n, int each);
void sm_nic_blocks(sm_nic *nic, int pair, sm_wqe *out);       /* the ring, and in later blocks of a request its first */
void sm_nic_doorbell(sm_nic *nic, int pair);
void sm_nic_positions(sm_nic *nic, int pair, uint32_t *pi, uint32_t *ci);
/* Takes entries of a completion queue, and gives back the blocks of the requests that end with them (if reclaim): how many,
 * or SM_OVERRUN. sm_nic_reclaim does that for an entry that was taken before; sm_nic_await sleeps until there are n. */
int64_t sm_nic_poll(sm_nic *nic, int cq, sm_cq_entry *out, int64_t most, int reclaim);
void sm_nic_reclaim(sm_nic *nic, int pair, uint32_t entry);
int sm_nic_await(sm_nic *nic, int cq, int64_t n, int64_t timeout_ns);
int sm_nic_receive(sm_nic *nic, int pair, const sm_rq_entry *entry);         /* SM_NO_ROOM */
/* Waits until nothing of a queue pair is left, and gives back all its blocks; until nothing that was rung for to a PE (-1:
 * any) is. sm_nic_reset empties one once nothing of it moves. */
int sm_nic_drain(sm_nic *nic, int pair, int64_t timeout_ns);
int sm_nic_settle(sm_nic *nic, int peer, int64_t timeout_ns);
/* The quiet of a context; on the default one (0) of the queue pairs as well: SM_FAILED (-13) where one has failed and the
 * program has neither taken the completion nor been told, by sm_nic_told, of all below a wr_id. sm_nic_bad: the wr_id
 * behind the last failure. */
int sm_nic_quiet(sm_nic *nic, int q, int64_t timeout_ns);
void sm_nic_told(sm_nic *nic, int pair, uint64_t wr_id);
uint64_t sm_nic_bad(sm_nic *nic, int pair);
int sm_nic_reset(sm_nic *nic, int pair, int64_t timeout_ns);
int sm_nic_state(sm_nic *nic, int pair);                     /* 0 ready, 1 suspended, 2 error */
int64_t sm_nic_unrung(sm_nic *nic, int pair, uint64_t *wr_ids, int64_t most);        /* posted, and no doorbell rung */
