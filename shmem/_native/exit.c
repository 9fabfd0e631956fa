/* How a PE leaves. Python's own exit hooks don't know the exit status (SystemExit is gone by then), and a rank that ends
 * with a failure while its peers wait would leave them hanging. glibc's on_exit handler knows the status and runs after
 * Python is finalised: with a failure it aborts the job; otherwise it waits for the peers (the barrier of an implicit
 * finalize) and finalizes MPI. MPI is called through addresses taken from the library that mpi4py loaded. A failure
 * before MPI was started replaces this process by a Python that starts MPI (its peers sit in MPI_Init) and aborts. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>


enum { EXIT_IDLE, EXIT_RUNNING, EXIT_FINALIZED, EXIT_QUIET };  /* before init, after it, after finalize, no MPI call */

static struct {
    int pid, state, done;
    char python[1024], *text;
    sm_pe *pe;
    int (*abort)(uintptr_t, int);
    int (*finalize)(void);
    int (*finalized)(int *);
    uintptr_t comm;
    uint64_t call;                          /* fingerprint of finalize */
    int64_t timeout_ns;
} leave;

static int under_launcher(void) {
    return getenv("PMI_RANK") || getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK");
}

static void abort_before_start(int status) {
    const char *size = getenv("PMI_SIZE");
    if (!under_launcher() || getenv("SHMEMU_STATUS_FILE") || (size && atoi(size) == 1)) return;
    char code[512];                         /* MPICH's file in /dev/shm would be left (shmem/bootstrap.py) */
    snprintf(code, sizeof code,
             "import os, re\nfrom mpi4py import MPI\n"
             "for name in set(re.findall('/dev/shm/mpich_shm_[0-9a-z_]+$', open('/proc/self/maps').read(), re.M)):\n"
             "    try: os.unlink(name)\n"
             "    except OSError: pass\n"
             "MPI.COMM_WORLD.Abort(%d)\n", status);
    fflush(NULL);
    alarm(30);                              /* peers that never start MPI: don't wait for them for ever */
    execl(leave.python, leave.python, "-c", code, (char *)NULL);
}

void sm_let_read(void) {
    struct timespec pause = {0, 1000000};
    for (int fd = 1; fd <= 2; fd++) {
        struct stat st;
        int left = 0;
        if (fstat(fd, &st) || !S_ISFIFO(st.st_mode)) continue;
        for (int i = 0; i < 1000 && !ioctl(fd, FIONREAD, &left) && left; i++) nanosleep(&pause, NULL);
    }
}

static void abort_job(int status) {
    fflush(NULL);
    sm_let_read();
    leave.abort(leave.comm, status);
    _exit(status);                          /* MPICH's may return, having told its launcher */
}

static int meet(uint64_t call) {
    int64_t end = sm_now_ns() + leave.timeout_ns;
    atomic_store(&leave.pe->visits[0].owner, 0);        /* no other thread of Python's goes on with it */
    int status = sm_barrier(leave.pe, 0, 0, leave.pe->n, call, leave.timeout_ns);
    while (status == SM_INTERRUPTED && sm_now_ns() < end)
        status = sm_barrier(leave.pe, 0, 0, leave.pe->n, call, end - sm_now_ns());
    return status;
}

/* Nonzero: the job can't end together with its peers. */
static int wait_for_peers(void) {
    int status = meet(leave.call);
    if (status == SM_OK || status == SM_DIED) return status;
    if (status == SM_MISMATCH) {            /* the peers report it: show them this PE's call (shmem/barriers.py) */
        snprintf(leave.pe->head[leave.pe->me]->text, SM_TEXT, "finalize() at the end of the program");
        if (meet(0) == SM_OK) meet(0);
        sleep(2);                           /* one that has printed it aborts the job; this PE only if none does */
    } else {
        uint32_t mine = sm_entered(leave.pe, leave.pe->me, 0);
        fprintf(stderr, "PE %d: waited %.0f s for all PEs in finalize() at the end of the program; no arrival of PE",
                leave.pe->me, (double)leave.timeout_ns / 1e9);
        for (int i = 0; i < leave.pe->n; i++)
            if (sm_entered(leave.pe, i, 0) < mine) fprintf(stderr, " %d", i);
        fputc('\n', stderr);
    }
    abort_job(1);
    return status;
}

static void at_exit(int status, void *unused) {
    (void)unused;
    int ended = 0;
    if (getpid() != leave.pid || leave.state == EXIT_QUIET || leave.done) return;
    leave.done = 1;
    if (!leave.finalized) {
        if (status) abort_before_start(status);
        return;
    }
    leave.finalized(&ended);
    if (!status && leave.text) fputs(leave.text, stderr);
    if (ended) return;                      /* by the program, and so by all PEs: nobody is left to meet or to abort */
    if (leave.pe && leave.pe->survive && (status || sm_find_dead(leave.pe))) {
        sm_set_alive(leave.pe, status ? SM_DEAD : SM_ENDED);
        return;                             /* no MPI call after a death */
    }
    if (status && !(leave.pe && leave.pe->n == 1)) abort_job(status);
    int alone = leave.state == EXIT_RUNNING && wait_for_peers();
    if (leave.pe) sm_set_alive(leave.pe, SM_ENDED);
    if (!alone) leave.finalize();
}

void sm_exit_register(const char *python) {
    if (leave.pid == getpid()) return;
    leave.pid = getpid();
    snprintf(leave.python, sizeof leave.python, "%s", python);
    on_exit(at_exit, NULL);
}

void sm_exit_mpi(uint64_t abort, uint64_t finalize, uint64_t finalized, uint64_t comm) {
    leave.abort = (int (*)(uintptr_t, int))(uintptr_t)abort;
    leave.finalize = (int (*)(void))(uintptr_t)finalize;
    leave.finalized = (int (*)(int *))(uintptr_t)finalized;
    leave.comm = (uintptr_t)comm;
    leave.pid = getpid();
    on_exit(at_exit, NULL);                 /* handlers run last in, first out: this one before MPI's own */
}

void sm_exit_arm(sm_pe *p, uint64_t call, int64_t timeout_ns) {
    leave.pe = p;
    leave.call = call;
    leave.timeout_ns = timeout_ns;
    leave.state = EXIT_RUNNING;
}

void sm_exit_state(int state) { leave.state = state; }

void sm_exit_say(const char *text) {
    free(leave.text);
    leave.text = strdup(text);
}

int sm_exit_comes(void) { return leave.finalized && !leave.done; }
