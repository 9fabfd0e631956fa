/* A watchdog for waits that have no limit of their own and hold the GIL, as MPI_Init does: a thread that says on stderr what
 * this process waits for, and in the end ends it, unless it is called off. It runs no Python. */
#include "core.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
    pthread_t thread;
    int called_off;                         /* an eventfd; below 0: nobody watches */
    char *notice, *end;
    int64_t notice_ns, end_ns;
} dog = {.called_off = -1};

/* Sleeps until a time, or until called off: then 1. */
static int sleep_until(int64_t until_ns) {
    struct pollfd word = {.fd = dog.called_off, .events = POLLIN};
    for (int64_t left; (left = until_ns - sm_now_ns()) > 0;) {
        int64_t ms = left / 1000000 + 1;
        if (poll(&word, 1, ms < 1000000 ? (int)ms : 1000000) > 0) return 1;
    }
    return 0;
}

static void say(const char *text) {
    for (size_t left = strlen(text); left;) {
        ssize_t n = write(STDERR_FILENO, text, left);
        if (n < 0 && errno != EINTR) return;
        if (n > 0) text += n, left -= (size_t)n;
    }
}

/* MPICH's file in shared memory, which would be left (shmem/bootstrap.py). */
static void unlink_shared(void) {
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strstr(line, "/dev/shm/mpich_shm_");
        if (!name) continue;
        name[strcspn(name, " \n")] = 0;
        unlink(name);
    }
    if (maps) fclose(maps);
}

/* Tells MPICH's launcher what MPI_Abort would tell it: one that only sees a process end prints a banner about a crash. */
static void end_job(void) {
    static const char abort_job[] = "cmd=abort exitcode=1\n";
    const char *fd = getenv("PMI_FD");
    if (fd && write(atoi(fd), abort_job, sizeof abort_job - 1) > 0) sleep(1);
}

static void *watch(void *unused) {
    (void)unused;
    if (dog.notice_ns < dog.end_ns) {
        if (sleep_until(dog.notice_ns)) return NULL;
        say(dog.notice);
    }
    if (sleep_until(dog.end_ns)) return NULL;
    say(dog.end);
    unlink_shared();
    sm_let_read();
    end_job();
    _exit(1);
}

int sm_watch(const char *notice, int64_t notice_ns, const char *end, int64_t end_ns) {
    int64_t now = sm_now_ns();
    sigset_t all, before;
    if (dog.called_off >= 0 || (dog.called_off = eventfd(0, EFD_CLOEXEC)) < 0) return -1;
    dog.notice = strdup(notice);
    dog.end = strdup(end);
    dog.notice_ns = now + notice_ns;
    dog.end_ns = end_ns > INT64_MAX - now ? INT64_MAX : now + end_ns;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);    /* signals are Python's: its main thread shall get them */
    int failed = !dog.notice || !dog.end || pthread_create(&dog.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return 0;
    close(dog.called_off);
    dog.called_off = -1;
    return -1;
}

void sm_unwatch(void) {
    uint64_t one = 1;
    if (dog.called_off < 0) return;
    while (write(dog.called_off, &one, sizeof one) < 0 && errno == EINTR) continue;
    pthread_join(dog.thread, NULL);
    close(dog.called_off);
    dog.called_off = -1;
    free(dog.notice);
    free(dog.end);
}
