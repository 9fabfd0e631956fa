/* Puts, gets, atomics and signals on a peer's heap, by loads and stores. Everything is complete when the call returns;
 * fence and quiet order it for weakly ordered CPUs and wake the own PE's waiters (another thread may have stored). */
#include "core.h"

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
