/* Waiting politely: a short spin, then sleep in the kernel on a wake word of the waiting PE. A waiter counts itself
 * into the bucket of the awaited address, reads the bucket's sequence, looks at the word again (all its bytes) and
 * sleeps on the sequence; a signaller stores, fences, and if the bucket has sleepers adds one to the sequence and
 * wakes. Either the waiter sees the store or the signaller sees the waiter. No sched_yield: on current kernels it is
 * a trap. Every sleep is capped, so that a dead peer or a store that wakes nobody is noticed. */
#include "core.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>


#define CAP_NS 100000000                    /* of one sleep */
#define CAP_VIEWED_NS 1000000               /* once somebody may store through a ptr() view, which wakes nobody */

int64_t sm_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int sm_futex_sleep(sm_pe *p, _Atomic uint32_t *word, uint32_t seen, int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    atomic_fetch_add_explicit(&p->sleeps, 1, memory_order_relaxed);
    long r = syscall(SYS_futex, (void *)word, FUTEX_WAIT, seen, &t, NULL, 0);
    return r == 0 ? 0 : errno;
}

void sm_futex_wake(sm_pe *p, _Atomic uint32_t *word) {
    long r = syscall(SYS_futex, (void *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    atomic_fetch_add_explicit(&p->wakes, 1, memory_order_relaxed);
    if (r > 0) atomic_fetch_add_explicit(&p->woken, (uint64_t)r, memory_order_relaxed);
}

static void wake_bucket(sm_pe *p, sm_bucket *b) {
    if (!atomic_load_explicit(&b->sleepers, memory_order_relaxed)) return;
    atomic_fetch_add(&b->seq, 1);
    sm_futex_wake(p, &b->seq);
}

/* Wakes the waiters of PE `pe` whose word lies in its bytes [off, off+n); those bytes have been stored before. */
void sm_wake(sm_pe *p, int pe, uint64_t off, uint64_t n) {
    sm_head *h = p->head[pe];
    atomic_thread_fence(memory_order_seq_cst);
    if (!n || !atomic_load_explicit(&h->sleepers, memory_order_relaxed)) return;
    uint64_t first = off >> 3, last = (off + n - 1) >> 3;
    if (last - first >= SM_BUCKETS) last = first + SM_BUCKETS - 1;
    for (uint64_t w = first; w <= last; w++) wake_bucket(p, &h->buckets[w % SM_BUCKETS]);
}

void sm_wake_own(sm_pe *p) { sm_wake(p, p->me, 0, 8 * SM_BUCKETS); }

#define COMPARE(T, load)                                                            \
    do {                                                                            \
        T now, want;                                                                \
        load;                                                                       \
        switch (cmp) {                                                              \
        case SM_EQ: return now == want;                                             \
        case SM_NE: return now != want;                                             \
        case SM_GT: return now > want;                                              \
        case SM_LE: return now <= want;                                             \
        case SM_LT: return now < want;                                              \
        default: return now >= want;                                                \
        }                                                                           \
    } while (0)

int sm_test(const void *word, int kind, int cmp, uint64_t value) {
    uint32_t v32 = (uint32_t)value, w32 = 0;
    uint64_t w64 = 0;
    if (kind == SM_I32 || kind == SM_U32 || kind == SM_F32)
        w32 = atomic_load_explicit((const _Atomic uint32_t *)word, memory_order_acquire);
    else
        w64 = atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire);
    switch (kind) {
    case SM_I32: COMPARE(int32_t, (now = (int32_t)w32, want = (int32_t)v32));
    case SM_U32: COMPARE(uint32_t, (now = w32, want = v32));
    case SM_I64: COMPARE(int64_t, (now = (int64_t)w64, want = (int64_t)value));
    case SM_U64: COMPARE(uint64_t, (now = w64, want = value));
    case SM_F32: COMPARE(float, (memcpy(&now, &w32, 4), memcpy(&want, &v32, 4)));
    default: COMPARE(double, (memcpy(&now, &w64, 8), memcpy(&want, &value, 8)));
    }
}

int sm_wait(sm_pe *p, const void *word, int kind, int cmp, uint64_t value, int64_t timeout_ns) {
    for (int i = 0; i <= p->spin; i++) {
        if (sm_test(word, kind, cmp, value)) return SM_OK;
        sm_pause();
    }
    sm_head *h = p->head[p->me];
    sm_bucket *b = &h->buckets[((uint64_t)((const char *)word - p->base) >> 3) % SM_BUCKETS];
    int64_t now = sm_now_ns(), end = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns, entered = now, looked = now;
    int known_dead = p->any_dead, status = SM_TIMEOUT, slept = 0;
    uint32_t seen = 0;
    atomic_fetch_add(&b->sleepers, 1);
    atomic_fetch_add(&h->sleepers, 1);
    for (;;) {
        uint32_t last = seen;
        seen = atomic_load(&b->seq);
        if (sm_test(word, kind, cmp, value)) {
            if (slept == ETIMEDOUT && seen == last) atomic_fetch_add_explicit(&p->missed, 1, memory_order_relaxed);
            status = SM_OK;
            break;
        }
        now = sm_now_ns();
        if (now >= end) break;
        if (p->survive && now - looked >= CAP_NS / 2) {
            looked = now;
            if (sm_find_dead(p) > known_dead) { status = SM_DIED; break; }
        }
        if (now - entered >= CAP_NS) {      /* Python looks for signals that came between two sleeps */
            status = SM_INTERRUPTED;
            break;
        }
        int64_t cap = atomic_load_explicit(&h->viewed, memory_order_relaxed) ? CAP_VIEWED_NS : CAP_NS;
        slept = sm_futex_sleep(p, &b->seq, seen, end - now < cap ? end - now : cap);
        if (slept == EINTR) {
            status = sm_test(word, kind, cmp, value) ? SM_OK : SM_INTERRUPTED;
            break;
        }
    }
    atomic_fetch_sub(&h->sleepers, 1);
    atomic_fetch_sub(&b->sleepers, 1);
    return status;
}
