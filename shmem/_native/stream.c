/* A stream: a thread of this PE that runs jobs (batches of records) one after the other while Python goes on. The thread
 * never touches Python; it sleeps on a futex while it has nothing to do and takes no signals, which are the main
 * thread's. A job that fails (deadline, differing calls, a dead peer) ends the stream's work: what was launched after it
 * relies on it, so it is not run but ends with SM_SKIPPED. Closing gives up what is not done: a job that waits ends at its
 * next slice of time. */
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define SLICE_NS 100000000

struct sm_stream {
    sm_pe *p;
    pthread_t thread;
    pthread_mutex_t lock;
    sm_job **jobs;                          /* a ring of `room` places */
    uint64_t head, tail, room;
    _Atomic uint32_t launched;              /* wake word of the thread */
    _Atomic int closing;
    int broken;
};

static void run_job(sm_stream *s, sm_job *job) {
    int64_t now = sm_now_ns(), end = job->timeout_ns > INT64_MAX - now ? INT64_MAX : now + job->timeout_ns;
    int status = atomic_load(&s->closing) ? SM_CANCELLED : s->broken ? SM_SKIPPED : SM_TIMEOUT;
    while (status == SM_TIMEOUT || status == SM_INTERRUPTED) {
        int64_t left = end - sm_now_ns();
        status = sm_run(s->p, job->q, job->ops, job->n, &job->done, left < SLICE_NS ? left > 0 ? left : 0 : SLICE_NS);
        if (left <= 0) break;
        int waits = status == SM_TIMEOUT || status == SM_INTERRUPTED;
        if (waits && atomic_load(&s->closing)) status = SM_CANCELLED;
    }
    if (status != SM_OK) sm_disown(s->p);
    job->status = status;
    s->broken |= status != SM_OK;
    _Atomic uint32_t *finished = (_Atomic uint32_t *)&job->finished;
    atomic_store(finished, 1);
    sm_futex_wake(s->p, finished);          /* the job may be gone now: the address alone is used */
}

static sm_job *next_job(sm_stream *s) {
    pthread_mutex_lock(&s->lock);
    sm_job *job = s->head < s->tail ? s->jobs[s->head++ % s->room] : NULL;
    pthread_mutex_unlock(&s->lock);
    return job;
}

static void *work(void *stream) {
    sm_stream *s = stream;
    for (;;) {
        uint32_t seen = atomic_load(&s->launched);
        sm_job *job = next_job(s);
        if (job) run_job(s, job);
        else if (atomic_load(&s->closing)) return NULL;
        else sm_futex_sleep(s->p, &s->launched, seen, INT64_MAX / 2);
    }
}

sm_stream *sm_stream_open(sm_pe *p) {
    sm_stream *s = calloc(1, sizeof *s);
    sigset_t all, before;
    if (!s) return NULL;
    s->p = p;
    s->room = 64;
    s->jobs = malloc(s->room * sizeof *s->jobs);
    pthread_mutex_init(&s->lock, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = !s->jobs || pthread_create(&s->thread, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return s;
    free(s->jobs);
    free(s);
    return NULL;
}

static int grow(sm_stream *s) {
    sm_job **more = malloc(2 * s->room * sizeof *more);
    if (!more) return -1;
    for (uint64_t i = s->head; i < s->tail; i++) more[i % (2 * s->room)] = s->jobs[i % s->room];
    free(s->jobs);
    s->jobs = more;
    s->room *= 2;
    return 0;
}

static void wake_thread(sm_stream *s) {
    atomic_fetch_add(&s->launched, 1);
    sm_futex_wake(s->p, &s->launched);
}

int sm_stream_launch(sm_stream *s, sm_job *job) {
    pthread_mutex_lock(&s->lock);
    int status = s->tail - s->head == s->room ? grow(s) : 0;
    if (!status) s->jobs[s->tail++ % s->room] = job;
    pthread_mutex_unlock(&s->lock);
    if (!status) wake_thread(s);
    return status;
}

int sm_job_wait(sm_pe *p, const sm_job *job, int64_t timeout_ns) {
    _Atomic uint32_t *finished = (_Atomic uint32_t *)&((sm_job *)(uintptr_t)job)->finished;
    int64_t now = sm_now_ns(), end = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns, entered = now;
    while (!atomic_load(finished)) {
        now = sm_now_ns();
        if (now >= end) return SM_TIMEOUT;
        if (now - entered >= SLICE_NS) return SM_INTERRUPTED;
        if (sm_futex_sleep(p, finished, 0, end - now < SLICE_NS ? end - now : SLICE_NS) == EINTR && !atomic_load(finished))
            return SM_INTERRUPTED;
    }
    return SM_OK;
}

void sm_stream_close(sm_stream *s) {
    atomic_store(&s->closing, 1);
    wake_thread(s);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    free(s->jobs);
    free(s);
}
