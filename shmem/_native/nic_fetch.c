/* From the ring of a queue pair to its engine: the adapter reads the blocks that a doorbell was rung for, looks up what they
 * name, and has a request. It reads nothing else: what the ring does not say, it does not know. */
#include "nic.h"

#include <string.h>

enum { NOP, WRITE, WRITE_IMM, WRITE_NOTIFY, READ, SEND, SEND_IMM, CAS, FAA };    /* shmem/nic/work.py */
enum { MAY_READ = 1, MAY_WRITE = 2, MAY_ATOMIC = 4 };
#define BLOCKS_MAX 4
#define RNR_NS 100000000                    /* between two looks for a receive, as the counts of retries see it */

typedef union {
    sm_wqe w;
    struct { sm_wqe w; uint64_t notify_key; } notify;
    uint8_t bytes[BLOCKS_MAX * SM_BLOCK];
} request;

uint32_t sm_nic_control(unsigned opcode) {
    switch (opcode) {
    case WRITE_IMM: case CAS: case FAA: return 64;
    case WRITE_NOTIFY: return 80;
    default: return 48;
    }
}

static int takes_receive(unsigned opcode) { return opcode == WRITE_IMM || opcode == SEND || opcode == SEND_IMM; }

static int kind_of(unsigned opcode) {
    switch (opcode) {
    case READ: return SM_KIND_READ;
    case SEND: case SEND_IMM: return SM_KIND_SEND;
    case CAS: case FAA: return SM_KIND_ATOMIC;
    default: return SM_KIND_WRITE;
    }
}

/* The space of a segment's state. */
static int32_t state_of(sm_nic *nic, int pe, uint32_t i) {
    int32_t *known = &nic->segments[(int64_t)pe * SM_SEGMENTS + i];
    if (!*known) *known = (int32_t)sm_net_space(nic->net, &nic->arenas[pe]->segment[i].ended, 1);
    return *known;
}

/* Where bytes of a segment are; the status that a request for them is bound to end with. */
static uint32_t find(sm_nic *nic, int pe, uint32_t key, int64_t offset, uint64_t n, uint32_t right, int aligned,
                     sm_place *at, int64_t *state) {
    *at = (sm_place){pe, 0, 0};
    if (!n) return SM_STATUS_NONE;
    uint32_t i = (key >> 8) - 1;
    if (i >= SM_SEGMENTS || (key & 0xff) != ((uint32_t)pe & 0xff)) return SM_STATUS_REM_ACCESS;
    const sm_segment *s = &nic->arenas[pe]->segment[i];
    if (!s->known || offset < 0 || n > s->nbytes || (uint64_t)offset > s->nbytes - n || !(s->rights & right))
        return SM_STATUS_REM_ACCESS;
    *at = (sm_place){pe, s->lo + (uint64_t)offset, s->lo + (uint64_t)offset + n};
    if (aligned && at->lo % n) return SM_STATUS_REM_INV_REQ;
    *state = state_of(nic, pe, i);
    return SM_STATUS_NONE;
}

static void name_pieces(const sm_nic *nic, const request *q, sm_request *r, sm_place *rest) {
    const uint8_t *body = q->bytes + sm_nic_control(q->w.opcode);
    for (int i = 0; i < q->w.pieces; i++) {
        sm_piece piece;
        memcpy(&piece, body + sizeof piece * (size_t)i, sizeof piece);
        sm_place place = {nic->p->n, piece.address, piece.address + piece.nbytes};
        if (i) rest[r->rests++] = place;
        else if (r->kind == SM_KIND_READ || r->kind == SM_KIND_ATOMIC) r->result = place;
        else r->source = place;
    }
    r->rest = rest;
}

static void name_remote(sm_nic *nic, const request *q, sm_request *r) {
    static const uint32_t rights[] = {0, MAY_WRITE, MAY_READ, MAY_ATOMIC, 0};
    const sm_wqe *w = &q->w;
    uint32_t wrong = SM_STATUS_NONE;
    if (w->has_remote)
        wrong = find(nic, r->target, w->key, w->offset, w->nbytes, rights[r->kind], r->kind == SM_KIND_ATOMIC, &r->at, &r->segments[0]);
    if (w->has_notify) {
        int64_t where = (int64_t)w->compare;
        uint32_t other = find(nic, r->target, (uint32_t)q->notify.notify_key, where, 8, MAY_WRITE, 1, &r->word, &r->segments[1]);
        r->word_update = (sm_update){SM_OP_SET, 8, w->operand, 0};
        if (!wrong) wrong = other;
    }
    if (!r->bad) r->bad = wrong;
}

static sm_request request_of(sm_nic *nic, const sm_pair *pair, const request *q, sm_place *rest) {
    const sm_wqe *w = &q->w;
    sm_place none = {-1, 0, 0};
    int needs = takes_receive(w->opcode);
    sm_request r = {
        .number = nic->next++, .pe = nic->p->me, .kind = kind_of(w->opcode), .target = pair->peer,
        .queue = SM_QUEUES + (int)(pair - nic->pairs), .taker = needs ? pair->there : -1, .at = {pair->peer, 0, w->nbytes},
        .source = none, .result = none, .word = none, .put = -1, .segments = {-1, -1}, .order = w->order,
        .blocks = w->blocks, .bad = w->bad, .immediate = w->immediate, .wr_id = w->wr_id, .opcode = w->opcode,
        .entry = pair->fetched + w->blocks - 1,
    };
    name_remote(nic, q, &r);
    if (w->opcode == CAS || w->opcode == FAA) {
        uint64_t mask = w->nbytes == 4 ? UINT32_MAX : UINT64_MAX;
        r.update = (sm_update){w->opcode == FAA ? SM_OP_ADD : SM_OP_COMPARE_SWAP, w->nbytes, w->operand & mask, w->compare & mask};
    }
    if (r.bad) {
        r.segments[0] = r.segments[1] = -1;
        r.word = none;
    } else if (w->is_inline) {
        r.data = q->bytes + sm_nic_control(w->opcode);
        r.ndata = w->nbytes;
    } else {
        name_pieces(nic, q, &r, rest);
    }
    int ends = r.segments[0] >= 0 || r.segments[1] >= 0, says = w->opcode == WRITE_IMM || w->opcode == SEND_IMM;
    r.flags = SM_REQ_RING | SM_REQ_RUNG | (w->is_signaled ? SM_REQ_SIGNALED : 0) | (w->fence ? SM_REQ_FENCE : 0) |
              (needs ? SM_REQ_NEEDS_RECEIVE | SM_REQ_TELLS : 0) | (!ends || needs ? SM_REQ_ADMITTED : 0) |
              (says ? SM_REQ_IMMEDIATE : 0) | SM_REQ_DEFAULT;
    return r;
}

/* The next request of a ring. */
static int fetch(sm_nic *nic, sm_pair *pair) {
    request q;
    sm_place rest[SM_RESTS];
    uint8_t *ring = sm_sq_blocks(pair->sq);
    uint32_t depth = pair->sq->depth, at = pair->fetched;
    memcpy(q.bytes, ring + (uint64_t)(at % depth) * SM_BLOCK, SM_BLOCK);
    uint32_t blocks = q.w.blocks && q.w.blocks <= BLOCKS_MAX ? q.w.blocks : 1;
    for (uint32_t i = 1; i < blocks; i++) memcpy(q.bytes + i * SM_BLOCK, ring + (uint64_t)((at + i) % depth) * SM_BLOCK, SM_BLOCK);
    sm_request r = request_of(nic, pair, &q, rest);
    int code = sm_net_post(nic->net, &r);
    if (code) return code == SM_NET_NO_MEMORY ? SM_NO_MEMORY : SM_BAD_OP;
    sm_queue *queue = &nic->net->queues[r.queue];
    queue->asked = r.number;
    pair->numbers[(at + blocks - 1) % depth] = r.number;
    pair->fetched += blocks;
    nic->counts->posted++;
    return SM_OK;
}

int sm_nic_fetch(sm_nic *nic) {
    int n = 0;
    for (int64_t i = 0; i < nic->n_pairs; i++) {
        sm_pair *pair = &nic->pairs[i];
        if (!pair->open || pair->fetched == pair->sq->pi) continue;
        int failed = nic->net->queues[SM_QUEUES + i].failed;         /* then they all come back as flushed */
        uint32_t end = failed ? pair->sq->pi : atomic_load_explicit(&SM_SHARED(pair->sq->doorbell), memory_order_acquire);
        for (; pair->fetched != end; n++) {
            int status = fetch(nic, pair);
            if (status) return status;
        }
    }
    return n;
}

int sm_nic_rnr(sm_nic *nic) {
    if (!nic->n_pairs) return 0;
    int64_t now = 0;
    SM_EACH(nic->net, r) {
        if (r->accepted || r->denied || r->w.bad || !sm_net_has(r, SM_REQ_RING)) continue;
        const sm_pair *pair = &nic->pairs[r->w.queue - SM_QUEUES];
        if (pair->retries >= 7 || !sm_net_is_open(nic->net, r, 1 << SM_STAGE_SOURCE) || sm_net_has_receive(nic->net, r)) continue;
        if (!now) now = sm_now_ns();
        if (!r->since) r->since = now;
        if (now - r->since < (pair->retries + 1) * (int64_t)RNR_NS) continue;
        sm_event event = {r->w.number, 0, r->w.pe, SM_ACT_GIVE_UP};
        return sm_net_fire(nic->net, &event) ? SM_NO_MEMORY : 1;
    }
    return 0;
}
