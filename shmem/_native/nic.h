/* Internals of the adapter of a PE. nic.c: its state, who drives it; nic_run.c: records as requests. */
#ifndef SM_NIC_H
#define SM_NIC_H
#include "core.h"

#include <pthread.h>

#include "net.h"
#include "nic_api.h"

typedef struct {                            /* a queue pair; its queue in the engine is number SM_QUEUES + its own */
    int32_t own, there, peer, retries;      /* own, there: receive queues in the engine */
    int open;
    sm_sq_ring *sq;
    sm_rq_ring *rq;
    sm_pair_place *place;
    uint64_t *ids;                          /* of the request whose last block it is, by slot */
    int64_t *numbers;
    sm_wqe *heads;                          /* of each slot: the first block of what lies there, with the slot's own numbers */
    uint64_t posted, taken;                 /* requests: the next wr_id; those whose blocks were given back */
    uint64_t told;                          /* of failures below this wr_id a quiet has raised */
    uint32_t fetched;                       /* position up to which the engine has the requests */
} sm_pair;

struct sm_nic {
    sm_pe *p;
    sm_net *net;
    sm_nic_options options;
    pthread_mutex_t lock;                   /* of the engine, and of all below */
    uint64_t state;                         /* of the generator */
    int64_t next;                           /* number of the next request */
    int queues[SM_QUEUES];                  /* the engine's, of each context */
    sm_nic_counts own, *counts;             /* counts: where they are */
    int usual;                              /* progress, where the adapter does not stand */
    int broken;                             /* SM_SOUND, or how */
    _Atomic int meeting;                    /* SM_NO_LOCK: threads between reading a position and moving it */
    uint64_t calls;                         /* of the PE so far: whether it has been here lately */
    pthread_t helper;
    int has_helper;
    _Atomic uint32_t left;                  /* 1: something is in flight and nobody drives it; the helper sleeps on it */
    _Atomic uint32_t moved;                 /* wake word of who waits for the helper */
    _Atomic uint32_t waiting;
    _Atomic int closing;
    sm_arena **arenas;                      /* of all PEs; their spaces are numbers n + 1 + PE */
    int32_t *segments;                      /* spaces of the state of each PE's segments; 0: not yet known */
    sm_pair *pairs;
    int64_t n_pairs;
};

typedef struct { int queue, target, stage, kinds; } sm_debt;     /* see sm_nic_complete; `queue` is the engine's number */

/* nic.c */
int sm_nic_drive(sm_nic *nic, int64_t most);                 /* with the lock held: events fired, or an SM_ status */
int sm_nic_after_post(sm_nic *nic);                          /* what happens in the call that posts */
int sm_nic_until(sm_nic *nic, int (*over)(sm_nic *nic, const void *what), const void *what, int64_t timeout_ns);
int sm_nic_paid(sm_nic *nic, const void *debt);
/* nic_fetch.c */
int sm_nic_fetch(sm_nic *nic);              /* with the lock held: how many requests, rung for, went to the engine */
int sm_nic_rnr(sm_nic *nic);                /* gives up one request that has waited too long for a receive: whether */
uint32_t sm_nic_control(unsigned opcode);   /* bytes of a request before its body */
/* nic_clocks.c */
uint64_t sm_nic_begin(sm_nic *nic, uint64_t now);
uint64_t sm_nic_now(sm_nic *nic, uint64_t now);
/* nic_run.c */
int sm_nic_takes(const sm_nic *nic, const sm_op *op);        /* whether a record goes through the adapter */
int sm_nic_record(sm_nic *nic, int q, const sm_op *op);

#endif
