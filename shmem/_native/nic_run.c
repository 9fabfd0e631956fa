/* Records that leave the PE as requests of its delivery engine. shmem/fabric/sim/records.py says the same in Python. */
#include "nic.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t OPS[] = {SM_OP_FETCH, SM_OP_SET, SM_OP_ADD, SM_OP_SWAP, SM_OP_COMPARE_SWAP, SM_OP_AND, SM_OP_OR, SM_OP_XOR};

#define FROM_ALL ((1 << SM_KIND_STORE) | (1 << SM_KIND_WRITE) | (1 << SM_KIND_READ) | (1 << SM_KIND_ATOMIC))

int sm_nic_takes(const sm_nic *nic, const sm_op *op) {
    if (op->pe == nic->p->me) return 0;
    switch (op->op) {
    case SM_PUT: case SM_GET: case SM_PUT_STRIDED: case SM_GET_STRIDED: case SM_AMO: case SM_PUT_SIGNAL: case SM_PUT_LINES:
        return 1;
    default: return 0;
    }
}

/* On a recorded run its wr_id is the number of the record. */
static sm_request request(sm_nic *nic, int q, int kind, int pe, uint64_t lo, uint64_t hi) {
    sm_place none = {-1, 0, 0};
    return (sm_request){
        .number = nic->next++, .pe = nic->p->me, .kind = kind, .target = pe, .queue = nic->queues[q], .taker = -1,
        .at = {pe, lo, hi}, .source = none, .result = none, .word = none, .put = -1, .segments = {-1, -1},
        .flags = SM_REQ_RUNG | SM_REQ_ADMITTED | (q == 0 ? SM_REQ_DEFAULT : 0), .order = SM_ORDER_NONE, .blocks = 1,
        .wr_id = nic->net->landings ? nic->net->landings->op : 0,
    };
}

static sm_place here(const sm_nic *nic, uint64_t address, uint64_t n) {
    return (sm_place){nic->p->n, address, address + n};
}

static int post(sm_nic *nic, const sm_request *r) {
    int status = sm_nic_fetch(nic);
    if (status < 0) return status;
    int code = sm_net_post(nic->net, r);
    if (code) return code == SM_NET_NO_MEMORY ? SM_NO_MEMORY : SM_BAD_OP;
    nic->counts->posted++;
    return sm_nic_after_post(nic);
}

static int over(sm_nic *nic, const void *what) {
    const sm_req *r = sm_net_find(nic->net, nic->p->me, *(const int64_t *)what);
    return !r || sm_net_reached(r, SM_STAGE_ANSWERED);
}

/* Nothing moves what a call has to wait for: its deadline is the adapter's own. */
static int stuck(int status) { return status == SM_TIMEOUT ? SM_STUCK : status; }

static int until_over(sm_nic *nic, int64_t number) {
    return stuck(sm_nic_until(nic, over, &number, nic->options.limit_ns));
}

static int until_quiet(sm_nic *nic, int q, int pe) {
    sm_debt all = {nic->queues[q], pe, SM_STAGE_ANSWERED, FROM_ALL};
    return stuck(sm_nic_until(nic, sm_nic_paid, &all, nic->options.limit_ns));
}

/* What a put adds: an ordered machine does everything in the program's order, the PE's own stores included; where work
 * requests read their sources late, a blocking put is a quiet of its target as well. */
static int settle(sm_nic *nic, int q, const sm_op *op) {
    if (nic->net->profile.program_order) return until_quiet(nic, q, -1);
    return nic->options.flagged && !(op->flags & SM_NBI) ? until_quiet(nic, q, op->pe) : SM_OK;
}

/* A WRITE, in pieces where the profile stripes it; late: its source is read when the adapter gets there. word: an update
 * that follows the data, where they are in pieces a request of its own, on the first queue pair. */
static int write(sm_nic *nic, int q, int pe, uint64_t dst, const char *src, uint64_t n, int late, const sm_place *word,
                 const sm_update *update) {
    uint64_t step = nic->options.stripe_bytes;
    int striped = nic->options.stripes > 1 && n && dst / step != (dst + n - 1) / step, stripe = 0;
    int64_t first = -1;
    for (uint64_t done = 0; done < n || (!n && !done);) {
        uint64_t part = striped ? step - (dst + done) % step : n;
        if (part > n - done) part = n - done;
        sm_request r = request(nic, q, SM_KIND_WRITE, pe, dst + done, dst + done + part);
        if (late) r.source = here(nic, (uintptr_t)src + done, part);
        else r.data = src + done, r.ndata = part;
        if (striped) {
            r.stripe = stripe++ % nic->options.stripes;
            if (first < 0) first = r.number;
            r.put = first;
        } else if (word) {
            r.word = *word;
            r.word_update = *update;
        }
        int status = post(nic, &r);
        if (status) return status;
        done += part ? part : 1;
    }
    if (!striped || !word) return SM_OK;
    sm_request r = request(nic, q, SM_KIND_WRITE, pe, dst + n, dst + n);
    r.put = first, r.word = *word, r.word_update = *update;
    return post(nic, &r);
}

static int run_put(sm_nic *nic, int q, const sm_op *op) {
    int status = op->n ? write(nic, q, op->pe, op->dst, (const char *)(uintptr_t)op->src, op->n, op->flags & SM_NBI, NULL, NULL) : SM_OK;
    return status ? status : settle(nic, q, op);
}

static int run_put_signal(sm_nic *nic, int q, const sm_op *op) {
    sm_place word = {op->pe, op->aux, op->aux + 8};
    sm_update update = {(op->flags & ~SM_NBI) ? SM_OP_ADD : SM_OP_SET, 8, op->value, 0};
    int status = write(nic, q, op->pe, op->dst, (const char *)(uintptr_t)op->src, op->n, op->flags & SM_NBI, &word, &update);
    return status ? status : settle(nic, q, op);
}

static int read(sm_nic *nic, int q, const sm_op *op, uint64_t src, uint64_t dst, uint64_t n, int64_t *number) {
    sm_request r = request(nic, q, SM_KIND_READ, op->pe, src, src + n);
    r.result = here(nic, dst, n);
    *number = r.number;
    return post(nic, &r);
}

static int run_get(sm_nic *nic, int q, const sm_op *op) {
    int64_t number;
    int status = op->n ? read(nic, q, op, op->src, op->dst, op->n, &number) : SM_OK;
    return status || !op->n || op->flags & SM_NBI ? status : until_over(nic, number);
}

static int run_strided(sm_nic *nic, int q, const sm_op *op) {
    int64_t there = (int32_t)(op->aux & 0xffffffff), away = (int32_t)(op->aux >> 32), first = nic->next, number = -1;
    int put = op->op == SM_PUT_STRIDED, status = SM_OK;
    for (int64_t i = 0; i < (int64_t)op->n && op->value && !status; i++) {
        uint64_t dst = op->dst + (uint64_t)(i * (put ? there : away)), src = op->src + (uint64_t)(i * (put ? away : there));
        if (put) status = write(nic, q, op->pe, dst, (const char *)(uintptr_t)src, op->value, op->flags & SM_NBI, NULL, NULL);
        else status = read(nic, q, op, src, dst, op->value, &number);
    }
    if (put) return status ? status : settle(nic, q, op);
    for (; !status && !(op->flags & SM_NBI) && first <= number; first++) status = until_over(nic, first);
    return status;
}

static int run_amo(sm_nic *nic, int q, const sm_op *op) {
    uint64_t mask = op->width == 4 ? UINT32_MAX : UINT64_MAX;
    sm_request r = request(nic, q, SM_KIND_ATOMIC, op->pe, op->dst, op->dst + op->width);
    r.update = (sm_update){OPS[op->flags & 15], op->width, op->value & mask, op->cond & mask};
    if (op->src) r.result = here(nic, op->src, op->width);
    int status = post(nic, &r);
    if (status) return status;
    if (op->src && !(op->flags & SM_NBI)) return until_over(nic, r.number);
    return nic->net->profile.program_order ? until_quiet(nic, q, -1) : SM_OK;
}

/* Lines are written into memory of our own first; they are one WRITE, or one each where they lie apart. */
static int run_put_lines(sm_nic *nic, int q, const sm_op *op) {
    const sm_lines *l = (const sm_lines *)(uintptr_t)op->aux;
    if (!op->cond) return SM_OK;
    int together = l->step == l->line, status = SM_OK;
    uint64_t bytes = (op->cond - 1) * l->step + sm_line_bytes(l, op->n, op->cond - 1);
    char *image = calloc(1, bytes + l->line);
    if (!image) return SM_NO_MEMORY;
    sm_write_lines(op, image);
    for (uint64_t i = 0; i < (together ? 1 : op->cond) && !status; i++) {
        uint64_t n = together ? bytes : sm_line_bytes(l, op->n, i);
        status = write(nic, q, op->pe, op->dst + i * l->step, image + i * l->step, n, 0, NULL, NULL);
    }
    free(image);
    return status ? status : settle(nic, q, op);
}

int sm_nic_record(sm_nic *nic, int q, const sm_op *op) {
    int status;
    sm_nic_enter(nic);
    switch (op->op) {
    case SM_PUT: status = run_put(nic, q, op); break;
    case SM_GET: status = run_get(nic, q, op); break;
    case SM_AMO: status = run_amo(nic, q, op); break;
    case SM_PUT_SIGNAL: status = run_put_signal(nic, q, op); break;
    case SM_PUT_LINES: status = run_put_lines(nic, q, op); break;
    default: status = run_strided(nic, q, op);
    }
    sm_nic_leave(nic);
    return status;
}
