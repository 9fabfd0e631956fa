/* The record loop of the `direct` fabric: one operation record after the other, in order, each complete before the
 * next (a run of streaming copies is closed by a store fence before anything that orders or signals). */
#include "core.h"
#include "nic.h"

static int run_wait(sm_pe *p, const sm_op *op, int64_t timeout_ns) {
    int kind = op->width;
    uint64_t step = kind == SM_I32 || kind == SM_U32 || kind == SM_F32 ? 4 : 8;
    int64_t end = timeout_ns > INT64_MAX / 2 ? INT64_MAX : sm_now_ns() + timeout_ns;
    for (uint64_t i = 0; i < op->n; i++) {  /* all of them: one after the other is enough */
        const char *word = p->base + op->dst + i * step;
        if (sm_test(word, kind, op->flags, op->value)) continue;
        int status = sm_wait(p, op->dst + i * step, kind, op->flags, op->value, end == INT64_MAX ? INT64_MAX : end - sm_now_ns());
        if (status) return status;
    }
    return SM_OK;
}

#define SLICE_NS 100000000

static int run_quiet(sm_pe *p, int q, int64_t timeout_ns) {
    int64_t slice = timeout_ns < SLICE_NS ? timeout_ns : SLICE_NS;
    int status = p->detour ? sm_nic_quiet(p->nic, q, slice) : SM_OK;
    if (status == SM_TIMEOUT && slice < timeout_ns) return SM_INTERRUPTED;       /* Python looks for signals in between */
    if (!status) sm_complete(p, q);
    return status;
}

static void run_fence(sm_pe *p, int q) {
    if (p->detour) sm_nic_fence(p->nic, q);
    sm_fence(p);
}

static int run_barrier(sm_pe *p, int q, const sm_op *op, int64_t timeout_ns) {
    int status = sm_in_barrier(p, op->width) ? SM_OK : run_quiet(p, q, timeout_ns);
    if (status) return status;
    return sm_barrier(p, op->width, op->pe, (int)op->n, op->value, timeout_ns);
}

static void run_put(sm_pe *p, const sm_op *op, int *open_stores) {
    int streaming = (op->flags & SM_STREAMING) || op->n >= p->streaming_bytes;
    sm_copy(p->heap[op->pe] + op->dst, (const void *)(uintptr_t)op->src, op->n, streaming);
    *open_stores |= streaming;
    if (op->n <= 8) sm_wake(p, op->pe, op->dst, op->n);
}

static void run_get(sm_pe *p, const sm_op *op, int *open_stores) {
    int streaming = (op->flags & SM_STREAMING) || op->n >= p->streaming_bytes;
    atomic_thread_fence(memory_order_acquire);
    sm_copy((void *)(uintptr_t)op->dst, p->heap[op->pe] + op->src, op->n, streaming);
    *open_stores |= streaming;
}

static void run_strided(sm_pe *p, const sm_op *op) {
    int64_t there = (int32_t)(op->aux & 0xffffffff), here = (int32_t)(op->aux >> 32);
    if (op->op == SM_PUT_STRIDED) {
        sm_copy_blocks(p->heap[op->pe] + op->dst, there, (const char *)(uintptr_t)op->src, here, op->value, op->n);
        sm_wake(p, op->pe, 0, 8 * SM_BUCKETS);
    } else {
        atomic_thread_fence(memory_order_acquire);
        sm_copy_blocks((char *)(uintptr_t)op->dst, here, p->heap[op->pe] + op->src, there, op->value, op->n);
    }
}

static void run_amo(sm_pe *p, const sm_op *op) {
    uint64_t old = sm_amo(p, op->pe, op->dst, op->width, op->flags & 15, op->value, op->cond);
    if (op->src) sm_copy((void *)(uintptr_t)op->src, &old, op->width, 0);
}

/* Whether the program has to wait for a quiet after this record: not for blocking gets and fetches. */
static int is_pending(const sm_op *op) {
    switch (op->op) {
    case SM_PUT: case SM_PUT_STRIDED: case SM_PUT_SIGNAL: case SM_PUT_LINES: return 1;
    case SM_GET: case SM_GET_STRIDED: return op->flags & SM_NBI;
    case SM_AMO: return !op->src || op->flags & SM_NBI;
    default: return 0;
    }
}

int sm_run(sm_pe *p, int q, sm_op *ops, int64_t n, int64_t *done, int64_t timeout_ns) {
    int open_stores = 0, status = SM_OK;
    int64_t i = *done;
    for (; i < n && !status; i++) {
        const sm_op *op = &ops[i];
        if (is_pending(op)) sm_post(p, q, 1);
        if (open_stores && op->op != SM_PUT && op->op != SM_GET && op->op != SM_COPY_ROWS) {
            sm_close_stores();
            open_stores = 0;
        }
        if (p->detour && sm_nic_takes(p->nic, op)) {
            if (open_stores) sm_close_stores(), open_stores = 0;
            if ((status = sm_nic_record(p->nic, q, op))) break;
            continue;
        }
        switch (op->op) {
        case SM_NOP: break;
        case SM_PUT: run_put(p, op, &open_stores); break;
        case SM_GET: run_get(p, op, &open_stores); break;
        case SM_PUT_STRIDED:
        case SM_GET_STRIDED: run_strided(p, op); break;
        case SM_AMO: run_amo(p, op); break;
        case SM_PUT_SIGNAL:
            sm_put_signal(p, op->pe, op->dst, (const void *)(uintptr_t)op->src, op->n, op->aux, op->value,
                          op->flags & ~SM_NBI);
            break;
        case SM_FENCE: run_fence(p, q); break;
        case SM_QUIET: status = run_quiet(p, q, timeout_ns); break;
        case SM_WAIT: status = run_wait(p, op, timeout_ns); break;
        case SM_BARRIER: status = run_barrier(p, q, op, timeout_ns); break;
        case SM_COPY_ROWS: sm_copy_rows(op); break;
        case SM_REDUCE_ROWS: sm_reduce_rows(op); break;
        case SM_PUT_LINES: sm_put_lines(p, op); break;
        case SM_POLL_LINES: status = sm_poll_lines(p, op, timeout_ns); break;
        case SM_CAST: sm_cast(op); break;
        case SM_REDUCE: status = sm_reduce(p, op); break;
        default: status = SM_BAD_OP;
        }
        if (status) break;
    }
    if (open_stores) sm_close_stores();
    *done = i;
    return status;
}
