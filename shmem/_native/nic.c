/* The adapter of a PE: its engine, and who drives it.
 *
 * `inline`: every call of the library moves what is in flight, and a thread of the same PE takes over what has been left
 * for 1 ms: progress never depends on the poster coming back. `thread`: that thread does all of it, at once; a call that
 * posts far ahead of it helps, since each choice looks at all that is in flight. `manual`: only sm_nic_step and calls that
 * wait for completion. The thread sleeps while nothing is in flight.
 *
 * Without a seed an adapter driven inline leaves its PE's records to the loop of `direct` as long as nothing is in
 * flight and there are no queue pairs (p->detour is 0): whole requests, in the order posted, visible when they return, is
 * what it would choose. */
#include "nic.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEFT_NS 1000000                     /* so long a request is left to its poster */
#define NAP_MAX_NS 8000000                  /* of the thread, where nothing may happen for now */
#define FLIGHT_MAX 16                       /* of contexts' requests: a call that posts drives the rest down to this */
#define SPINS 200
#define PAUSE_NS 100000

/* Whether calls may do by themselves what the adapter would do at once. */
static int friendly(const sm_nic *nic) {
    return nic->options.progress == SM_PROGRESS_INLINE && !nic->options.seeded && !nic->options.watched;
}

static uint64_t draw(sm_nic *nic) { return sm_net_draw(&nic->state); }

int sm_nic_drive(sm_nic *nic, int64_t most) {
    uint64_t *seed = nic->options.seeded ? &nic->state : NULL;
    int64_t n = 0, some;
    int more = sm_nic_fetch(nic);
    do {                                    /* where one has failed, those that nobody has rung for come as well */
        if (more < 0) return more;
        some = sm_net_step(nic->net, most - n, seed, 0);
        if (some < 0) return some == SM_NET_NO_MEMORY ? SM_NO_MEMORY : SM_BAD_OP;
        n += some;
    } while (some && (more = sm_nic_fetch(nic)));
    nic->counts->fired += (uint64_t)n;
    nic->counts->drawn = sm_net_drawn(nic->net, &nic->counts->passed);
    nic->counts->in_flight = nic->net->n_flight;
    return n ? (int)n : sm_nic_rnr(nic);
}

int sm_nic_after_post(sm_nic *nic) {
    int n = 0;
    nic->counts->in_flight = nic->net->n_flight;
    if (nic->options.progress == SM_PROGRESS_MANUAL) return SM_OK;
    if (nic->options.progress == SM_PROGRESS_INLINE && !nic->options.seeded) {
        n = sm_nic_drive(nic, INT_MAX);
    } else if (nic->options.progress == SM_PROGRESS_INLINE) {
        uint64_t how = draw(nic);
        int64_t most = how & 1 ? (int64_t)(how >> 8 & 7) : 0;
        n = most ? sm_nic_drive(nic, most) : 0;
    }
    while (n >= 0 && nic->net->n_flight > FLIGHT_MAX && (n = sm_nic_drive(nic, 1)) > 0) continue;
    return n < 0 ? n : SM_OK;
}

void sm_nic_enter(sm_nic *nic) {
    pthread_mutex_lock(&nic->lock);
    nic->calls++;
}

/* Where records go. Where there are queue pairs, a quiet has to look for failures, also when nothing is in flight. */
static void choose_loop(sm_nic *nic) {
    int needed = !friendly(nic) || nic->net->n_flight > 0 || nic->n_pairs > 0;
    atomic_store_explicit(&nic->p->detour, needed, memory_order_relaxed);
}

/* The thread looks after what is in flight. */
void sm_nic_leave(sm_nic *nic) {
    int busy = nic->net->n_flight > 0, handed = 0;
    choose_loop(nic);
    if (busy && nic->has_helper) handed = !atomic_exchange(&nic->left, 1);
    pthread_mutex_unlock(&nic->lock);
    if (handed) sm_futex_wake(nic->p, &nic->left);
}

static void nap(int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

/* Waits, without the lock, for something to change: for the thread, or for another PE. */
static void bide(sm_nic *nic, int64_t ns) {
    uint32_t seen = atomic_load(&nic->moved);
    int handed = nic->has_helper && nic->net->n_flight > 0 && !atomic_exchange(&nic->left, 1);
    atomic_fetch_add(&nic->waiting, 1);
    pthread_mutex_unlock(&nic->lock);
    if (handed) sm_futex_wake(nic->p, &nic->left);
    if (nic->options.progress == SM_PROGRESS_THREAD) sm_futex_sleep(nic->p, &nic->moved, seen, ns);
    else nap(ns);
    pthread_mutex_lock(&nic->lock);
    atomic_fetch_sub(&nic->waiting, 1);
}

/* With a seed: whether the adapter rests for a moment, so that others see how far it has come; most often after a word
 * that somebody may have waited for. */
static int pauses(sm_nic *nic) {
    return nic->options.seeded && nic->net->n_flight && (draw(nic) & (nic->net->told_others ? 3 : 63)) == 0;
}

/* With the lock held: drives, or lets the thread drive, until something is over. SM_TIMEOUT where nothing more may happen
 * to it for so long. */
int sm_nic_until(sm_nic *nic, int (*over)(sm_nic *nic, const void *what), const void *what, int64_t timeout_ns) {
    int64_t end = 0, ns = 20000;
    while (!over(nic, what)) {
        int n = nic->options.progress == SM_PROGRESS_THREAD ? 0 : sm_nic_drive(nic, 1);
        if (n < 0) return n;
        if (n > 0) {
            end = 0, ns = 20000;
            if (pauses(nic)) bide(nic, PAUSE_NS);
            continue;
        }
        int64_t now = sm_now_ns();
        if (!end) end = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
        if (now >= end) return SM_TIMEOUT;
        bide(nic, end - now < ns ? end - now : ns);
        ns = ns < 1000000 ? ns * 2 : 1000000;
    }
    return SM_OK;
}

int sm_nic_progress(sm_nic *nic) {
    if (nic->options.progress != SM_PROGRESS_INLINE || !nic->net->n_flight) return 0;
    sm_nic_enter(nic);
    int n = sm_nic_drive(nic, nic->options.seeded ? 1 + (int64_t)(draw(nic) & 3) : INT_MAX);
    sm_nic_leave(nic);
    return n > 0;
}

/* One turn of the thread: how many events. Where the PE has been here since the last one, it may go on by itself. */
static int help(sm_nic *nic, uint64_t *calls) {
    pthread_mutex_lock(&nic->lock);
    int mine = nic->options.progress == SM_PROGRESS_THREAD || *calls == nic->calls;
    mine &= nic->options.progress != SM_PROGRESS_MANUAL;
    *calls = nic->calls;
    int n = mine ? sm_nic_drive(nic, FLIGHT_MAX) : 1;
    if (mine && n > 0) nic->counts->helped += (uint64_t)n;
    if (!nic->net->n_flight) {
        atomic_store(&nic->left, 0);
        choose_loop(nic);
    }
    pthread_mutex_unlock(&nic->lock);
    if (n > 0 && atomic_load(&nic->waiting)) {
        atomic_fetch_add(&nic->moved, 1);
        sm_futex_wake(nic->p, &nic->moved);
    }
    return n;
}

static void *helper(void *adapter) {
    sm_nic *nic = adapter;
    uint64_t calls = 0;
    int64_t ns = LEFT_NS;
    int at_once = nic->options.progress == SM_PROGRESS_THREAD, idle = 0;
    while (!atomic_load(&nic->closing)) {
        if (!atomic_load(&nic->left)) {
            for (int i = 0; at_once && i < SPINS && !atomic_load(&nic->left); i++) sm_pause();
            sm_futex_sleep(nic->p, &nic->left, 0, INT64_MAX / 2);
            ns = LEFT_NS, idle = 0;
            continue;
        }
        if (!at_once || idle) nap(ns);
        idle = help(nic, &calls) <= 0;
        ns = !idle ? LEFT_NS : ns < NAP_MAX_NS ? ns * 2 : NAP_MAX_NS;
    }
    return NULL;
}

static int start_helper(sm_nic *nic) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    nic->has_helper = !pthread_create(&nic->helper, NULL, helper, nic);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !nic->has_helper;
}

/* Spaces: the heap of PE i is number i, all memory of this process number n. */
static int prepare(sm_nic *nic) {
    sm_pe *p = nic->p;
    for (int pe = 0; pe < p->n; pe++) {
        if (sm_net_space(nic->net, p->heap[pe], p->heap_bytes) != pe) return -1;
        sm_net_wakes(nic->net, pe, p, pe);
    }
    if (sm_net_space(nic->net, NULL, UINT64_MAX) != p->n) return -1;
    for (int q = 0; q < SM_QUEUES; q++)
        if ((nic->queues[q] = sm_net_queue(nic->net, -1, 0, 0)) < 0) return -1;
    return 0;
}

sm_nic *sm_nic_open(sm_pe *p, const sm_nic_options *options) {
    sm_nic *nic = calloc(1, sizeof *nic);
    if (!nic) return NULL;
    nic->p = p;
    nic->options = *options;
    nic->state = options->seed;
    nic->usual = options->progress;
    nic->counts = options->counts ? options->counts : &nic->own;
    pthread_mutex_init(&nic->lock, NULL);
    nic->net = sm_net_open(options->profile, FLIGHT_MAX);
    if (!nic->net || prepare(nic) || (options->progress != SM_PROGRESS_MANUAL && start_helper(nic))) {
        if (nic->net) sm_net_close(nic->net);
        free(nic);
        return NULL;
    }
    nic->net->order = nic->counts->drawn;
    nic->net->passed = nic->counts->passed;
    nic->counts->opened++;
    p->nic = nic;
    choose_loop(nic);
    return nic;
}

void sm_nic_close(sm_nic *nic) {
    atomic_store(&nic->closing, 1);
    atomic_store(&nic->p->detour, 0);
    nic->p->nic = NULL;
    if (nic->has_helper) {
        atomic_store(&nic->left, 1);
        sm_futex_wake(nic->p, &nic->left);
        pthread_join(nic->helper, NULL);
    }
    sm_net_close(nic->net);
    for (int64_t i = 0; i < nic->n_pairs; i++) {
        free(nic->pairs[i].ids);
        free(nic->pairs[i].numbers);
        free(nic->pairs[i].heads);
    }
    free(nic->pairs);
    free(nic->segments);
    free(nic->arenas);
    pthread_mutex_destroy(&nic->lock);
    free(nic);
}

sm_net *sm_nic_net(sm_nic *nic) { return nic->net; }

void sm_nic_fence(sm_nic *nic, int q) {
    sm_nic_enter(nic);
    sm_nic_fetch(nic);
    sm_net_fence(nic->net, nic->p->me, nic->queues[q], q == 0);
    sm_nic_leave(nic);
}

int sm_nic_paid(sm_nic *nic, const void *debt) {
    const sm_debt *d = debt;
    return !sm_net_owes(nic->net, nic->p->me, d->queue, d->target, (unsigned)d->stage, (unsigned)d->kinds);
}

int sm_nic_complete(sm_nic *nic, int q, int target, int stage, int kinds, int64_t timeout_ns) {
    sm_debt d = {nic->queues[q], target, stage, kinds};
    sm_nic_enter(nic);
    int status = sm_nic_until(nic, sm_nic_paid, &d, timeout_ns);
    sm_nic_leave(nic);
    return status;
}

void sm_nic_stand(sm_nic *nic, int stands) {
    sm_nic_enter(nic);
    nic->options.progress = stands ? SM_PROGRESS_MANUAL : nic->usual;
    sm_nic_leave(nic);
}

int64_t sm_nic_step(sm_nic *nic, int64_t n) {
    sm_nic_enter(nic);
    int64_t done = sm_nic_drive(nic, n);
    sm_nic_leave(nic);
    return done;
}

void sm_nic_counts_read(sm_nic *nic, sm_nic_counts *out) {
    pthread_mutex_lock(&nic->lock);
    *out = *nic->counts;
    out->in_flight = nic->net->n_flight;
    pthread_mutex_unlock(&nic->lock);
}

sm_nic_counts *sm_nic_counts_at(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;
    if (fd < 0) return NULL;
    void *at = MAP_FAILED;
    if (!fstat(fd, &about) && about.st_size >= (off_t)sizeof(sm_nic_counts))
        at = mmap(NULL, sizeof(sm_nic_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}
