/* Queues in shared memory (ring_api.h): who writes them, who takes from them. ring.c. A part of net.h. */
#ifndef SM_RING_H
#define SM_RING_H
#define SM_SHARED(field) (*(_Atomic __typeof__(field) *)&(field))

static inline sm_cq_entry *sm_cq_entries(sm_cq_ring *ring) { return (sm_cq_entry *)(ring + 1); }
static inline sm_rq_entry *sm_rq_entries(sm_rq_ring *ring) { return (sm_rq_entry *)(ring + 1); }
static inline uint8_t *sm_sq_blocks(sm_sq_ring *ring) { return (uint8_t *)(ring + 1); }

/* A completion, by whoever has it; where there is no room the queue is overrun. */
void sm_ring_tell(sm_pe *p, sm_cq_ring *ring, const sm_cqe *told, uint32_t pair);
int64_t sm_ring_new(sm_cq_ring *ring, int64_t most);         /* how many entries the owner has not taken, up to so many */
/* A receive: posted by its owner, taken by the queue pair that it is for, or by its owner after a failure. */
int sm_ring_post(sm_rq_ring *ring, const sm_rq_entry *entry);           /* 0, or 1: there is no room */
int sm_ring_has(sm_rq_ring *ring);
int sm_ring_take(sm_rq_ring *ring, sm_rq_entry *entry);      /* 0: there was none */

#endif
