/* Puts, gets, atomics and signals on a peer's heap, by loads and stores. Everything is complete when the call returns;
 * fence and quiet order it for weakly ordered CPUs and wake the own PE's waiters (another thread may have stored). */
#include "core.h"

#include <string.h>

void sm_put(sm_pe *p, int pe, uint64_t dst, const void *src, uint64_t n) {
    int streaming = n >= p->streaming_bytes;
    sm_copy(p->heap[pe] + dst, src, n, streaming);
    if (streaming) sm_close_stores();
    sm_wake(p, pe, dst, n);
}

void sm_get(sm_pe *p, int pe, void *dst, uint64_t src, uint64_t n) {
    atomic_thread_fence(memory_order_acquire);
    int streaming = n >= p->streaming_bytes;
    sm_copy(dst, p->heap[pe] + src, n, streaming);
    if (streaming) sm_close_stores();
}

static uint64_t place_of(const sm_many *m, int64_t i) {
    return m->dst + (uint64_t)(m->dst_step * (m->rows ? m->rows[i * m->row_step] : i));
}

/* Wakes the waiters of all targets; one fence serves for all of them, and mostly nobody sleeps. */
static void wake_many(sm_pe *p, const sm_many *m) {
    uint32_t sleepers = 0;
    atomic_thread_fence(memory_order_seq_cst);
    for (int pe = 0; pe < p->n; pe++)
        if (p->head[pe]) sleepers |= atomic_load_explicit(&p->head[pe]->sleepers, memory_order_relaxed);
    if (!sleepers) return;
    for (int64_t i = 0; i < m->n; i++) sm_wake(p, (int)m->pes[i * m->pe_step], place_of(m, i), m->width);
}

/* Whether any of n numbers, `step` apart, is below 0 or above `last`: the sign bits tell, without a branch. */
static int outside(const int64_t *numbers, int64_t step, int64_t n, int64_t last) {
    uint64_t signs = 0;
    if (step == 0) n = 1;
    for (int64_t i = 0; i < n; i++) signs |= (uint64_t)numbers[i] | ((uint64_t)last - (uint64_t)numbers[i]);
    return (int)(signs >> 63);
}

/* The case that shall be fast: aligned words. All in registers, since the stores may alias anything. */
static void store_words(char *const *heap, const sm_many *m) {
    const int64_t *pes = m->pes, *rows = m->rows;
    const char *from = m->src;
    int64_t n = m->n, pe_step = m->pe_step, row_step = m->row_step, src_step = m->src_step, dst_step = m->dst_step;
    uint64_t dst = m->dst, v;
    for (int64_t i = 0; i < n; i++, pes += pe_step, from += src_step) {
        char *to = heap[*pes] + dst;
        memcpy(&v, from, 8);
        if (rows) to += dst_step * rows[i * row_step];
        else dst += (uint64_t)dst_step;
        atomic_store_explicit((_Atomic uint64_t *)to, v, memory_order_release);
    }
}

int sm_put_many(sm_pe *p, const sm_many *m) {
    for (int pe = 0; pe < p->n; pe++)
        if (!p->heap[pe]) return -1;
    if (outside(m->pes, m->pe_step, m->n, p->n - 1)) return -1;
    if (m->rows && outside(m->rows, m->row_step, m->n, m->last_row)) return -1;
    if (m->width == 8 && !((m->dst | (uint64_t)m->dst_step) & 7)) {
        store_words(p->heap, m);
    } else {
        for (int64_t i = 0; i < m->n; i++)
            sm_copy(p->heap[m->pes[i * m->pe_step]] + place_of(m, i), m->src + i * m->src_step, m->width, 0);
    }
    wake_many(p, m);
    return 0;
}

#define AMO_BODY(T)                                                                                          \
    do {                                                                                                     \
        _Atomic T *w = (_Atomic T *)(p->heap[pe] + off);                                                     \
        T v = (T)value, old = (T)cond;                                                                       \
        switch (op) {                                                                                        \
        case SM_AMO_FETCH: return atomic_load(w);                                                            \
        case SM_AMO_SET: atomic_store(w, v); old = 0; break;                                                 \
        case SM_AMO_ADD: old = atomic_fetch_add(w, v); break;                                                \
        case SM_AMO_SWAP: old = atomic_exchange(w, v); break;                                                \
        case SM_AMO_CSWAP: atomic_compare_exchange_strong(w, &old, v); break;                                \
        case SM_AMO_AND: old = atomic_fetch_and(w, v); break;                                                \
        case SM_AMO_OR: old = atomic_fetch_or(w, v); break;                                                  \
        default: old = atomic_fetch_xor(w, v);                                                               \
        }                                                                                                    \
        sm_wake(p, pe, off, sizeof(T));                                                                      \
        return old;                                                                                          \
    } while (0)

uint64_t sm_amo(sm_pe *p, int pe, uint64_t off, int width, int op, uint64_t value, uint64_t cond) {
    if (width == 4) AMO_BODY(uint32_t);
    AMO_BODY(uint64_t);
}

void sm_put_signal(sm_pe *p, int pe, uint64_t dst, const void *src, uint64_t n, uint64_t sig, uint64_t value, int add) {
    int streaming = n >= p->streaming_bytes;
    sm_copy(p->heap[pe] + dst, src, n, streaming);
    if (streaming) sm_close_stores();
    sm_amo(p, pe, sig, 8, add ? SM_AMO_ADD : SM_AMO_SET, value, 0);
}

void sm_fence(sm_pe *p) { sm_wake_own(p); }     /* the full fence is the first thing that waking does */

void sm_quiet(sm_pe *p) { sm_wake_own(p); }

void sm_post(sm_pe *p, int q, int64_t n) { p->posted[q] += (uint64_t)n; }

void sm_complete(sm_pe *p, int q) {
    p->completed[q] = p->posted[q];
    sm_quiet(p);
}

uint64_t sm_pending(const sm_pe *p, int q) { return p->posted[q] - p->completed[q]; }
