/* Waiting politely: a short spin, then sleep in the kernel on a wake word of the waiting PE. A waiter counts itself
 * into the bucket of the awaited address, reads the bucket's sequence, looks at the word again (all its bytes) and
 * sleeps on the sequence; a signaller stores, fences, and if the bucket has sleepers adds one to the sequence and
 * wakes. Either the waiter sees the store or the signaller sees the waiter. No sched_yield here: who waits for a word may
 * wait for long (at a barrier all come, see barrier.c). Every sleep is capped, so that a dead peer or a store that wakes
 * nobody is noticed. */
#include "core.h"
#include "nic.h"

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

/* Wakes the waiters of PE `pe` whose word lies in its bytes [off, off+n); those bytes have been stored before. */
void sm_wake(sm_pe *p, int pe, uint64_t off, uint64_t n) {
    sm_head *h = p->head[pe];
    atomic_thread_fence(memory_order_seq_cst);
    if (!n || !atomic_load_explicit(&h->sleepers, memory_order_relaxed)) return;
    uint64_t first = off >> 3, last = (off + n - 1) >> 3;
    uint32_t many = 0;
    if (last - first >= SM_BUCKETS) last = first + SM_BUCKETS - 1;
    for (uint64_t w = first; w <= last; w++) {
        sm_bucket *b = &h->buckets[w % SM_BUCKETS];
        uint32_t sleepers = atomic_load_explicit(&b->sleepers, memory_order_relaxed);
        many |= sleepers / SM_MANY;
        if (!(sleepers % SM_MANY)) continue;
        atomic_fetch_add(&b->seq, 1);
        sm_futex_wake(p, &b->seq);
    }
    if (!many) return;
    atomic_fetch_add(&h->many, 1);
    sm_futex_wake(p, &h->many);
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

int64_t sm_test_any(const sm_pe *p, const sm_condition *any, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (sm_test(p->base + any[i].offset, (int)any[i].kind, (int)any[i].cmp, any[i].value)) return i;
    return -1;
}

void sm_test_each(const sm_pe *p, const sm_condition *all, int64_t n, uint8_t *held) {
    for (int64_t i = 0; i < n; i++)
        held[i] = (uint8_t)sm_test(p->base + all[i].offset, (int)all[i].kind, (int)all[i].cmp, all[i].value);
}

/* The buckets of the awaited words, one bit each. */
static uint64_t buckets_of(const sm_condition *any, int64_t n) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; i++) bits |= 1ull << ((any[i].offset >> 3) % SM_BUCKETS);
    return bits;
}

/* Counts a waiter into its buckets and returns the word it sleeps on. */
static _Atomic uint32_t *enter_buckets(sm_head *h, uint64_t bits) {
    int one = !(bits & (bits - 1));
    for (int i = 0; i < SM_BUCKETS; i++)
        if (bits >> i & 1) atomic_fetch_add(&h->buckets[i].sleepers, one ? 1 : SM_MANY);
    atomic_fetch_add(&h->sleepers, 1);
    return one ? &h->buckets[__builtin_ctzll(bits)].seq : &h->many;
}

static void leave_buckets(sm_head *h, uint64_t bits) {
    int one = !(bits & (bits - 1));
    atomic_fetch_sub(&h->sleepers, 1);
    for (int i = 0; i < SM_BUCKETS; i++)
        if (bits >> i & 1) atomic_fetch_sub(&h->buckets[i].sleepers, one ? 1 : SM_MANY);
}

static int64_t longest_sleep(const sm_pe *p) {
    if (p->cap_ns) return p->cap_ns;
    return atomic_load_explicit(&p->head[p->me]->viewed, memory_order_relaxed) ? CAP_VIEWED_NS : CAP_NS;
}

static int sleep_for_any(sm_pe *p, _Atomic uint32_t *wake, const sm_condition *any, int64_t n, int64_t timeout_ns,
                         int64_t *held) {
    int64_t now = sm_now_ns(), end = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns, entered = now, looked = now;
    int known_dead = p->any_dead, slept = 0;
    uint32_t seen = 0;
    for (;;) {
        uint32_t last = seen;
        seen = atomic_load(wake);
        if ((*held = sm_test_any(p, any, n)) >= 0) {
            if (slept == ETIMEDOUT && seen == last) atomic_fetch_add_explicit(&p->missed, 1, memory_order_relaxed);
            return SM_OK;
        }
        now = sm_now_ns();
        if (now >= end) return SM_TIMEOUT;
        if (p->survive && now - looked >= CAP_NS / 2) {
            looked = now;
            if (sm_find_dead(p) > known_dead) return SM_DIED;
        }
        if (now - entered >= (p->cap_ns ? p->cap_ns : CAP_NS)) return SM_INTERRUPTED; /* Python looks for signals */
        int64_t cap = longest_sleep(p);
        slept = sm_futex_sleep(p, wake, seen, end - now < cap ? end - now : cap);
        if (slept == EINTR) return (*held = sm_test_any(p, any, n)) >= 0 ? SM_OK : SM_INTERRUPTED;
    }
}

int sm_wait_any(sm_pe *p, const sm_condition *any, int64_t n, int64_t timeout_ns, int64_t *held) {
    for (int64_t i = 0; i <= p->spin; i += n) {         /* looks at about as many words, however many there are */
        if ((*held = sm_test_any(p, any, n)) >= 0) return SM_OK;
        sm_pause();
    }
    while (p->detour && sm_nic_progress(p->nic))        /* what is in flight goes on before the PE sleeps */
        if ((*held = sm_test_any(p, any, n)) >= 0) return SM_OK;
    sm_head *h = p->head[p->me];
    uint64_t bits = buckets_of(any, n);
    _Atomic uint32_t *wake = enter_buckets(h, bits);
    int status = sleep_for_any(p, wake, any, n, timeout_ns, held);
    leave_buckets(h, bits);
    return status;
}

int sm_wait(sm_pe *p, uint64_t off, int kind, int cmp, uint64_t value, int64_t timeout_ns) {
    sm_condition one = {off, value, (uint32_t)kind, (uint32_t)cmp};
    int64_t held;
    return sm_wait_any(p, &one, 1, timeout_ns, &held);
}
