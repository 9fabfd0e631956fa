/* Opening and closing a PE's view of the job, the map of live heap granules, and who is alive. A segment's header is
 * zero when MPI hands it out (fresh shared memory); only sm_announce writes to it before the first barrier. */
#include "core.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>


uint64_t sm_head_bytes(void) { return (sizeof(sm_head) + 4095) / 4096 * 4096; }

/* Linux: a length of 0 asks mremap for a second mapping of the same shared pages. */
static int map_at(char *at, uint64_t from, uint64_t nbytes) {
    void *got = from ? mremap((void *)(uintptr_t)from, 0, nbytes, MREMAP_MAYMOVE | MREMAP_FIXED, at)
                     : mmap(at, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return got != at;
}

uint64_t sm_map_segment(uint64_t head, uint64_t head_bytes, uint64_t heap, uint64_t heap_bytes) {
    char *at = mmap(NULL, head_bytes + heap_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    if (map_at(at, head, head_bytes) || map_at(at + head_bytes, heap, heap_bytes)) {
        munmap(at, head_bytes + heap_bytes);
        return 0;
    }
    return (uint64_t)(uintptr_t)at;
}

void sm_unmap_heap(void *heap) {
    const sm_head *h = (const sm_head *)(const void *)((char *)heap - sm_head_bytes());
    munmap(heap, h->heap_bytes);
}

static uint64_t map_bytes(const sm_pe *p) { return (p->heap_bytes / SM_GRANULE + 63) / 64 * 8 + 8; }

static uint64_t cache_bytes(void) {
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : 32u << 20;
}

sm_pe *sm_open(int me, int n, const uint64_t *segments, uint64_t heap_bytes, int cores, int survive) {
    sm_pe *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->me = me;
    p->n = n;
    p->cores = cores;
    p->survive = survive;
    p->heap_bytes = heap_bytes;
    p->spin = n <= cores ? 2000 : 20;
    p->streaming_bytes = cache_bytes() / 2; /* source and target don't fit together */
    p->heap = calloc((size_t)n, sizeof *p->heap);
    p->head = calloc((size_t)n, sizeof *p->head);
    p->live = mmap(NULL, map_bytes(p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!p->heap || !p->head || p->live == MAP_FAILED) {
        if (p->live == MAP_FAILED) p->live = NULL;
        sm_close(p);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        if (!segments[i]) continue;
        p->head[i] = (sm_head *)(uintptr_t)segments[i];
        p->heap[i] = (char *)(uintptr_t)segments[i] + sm_head_bytes();
    }
    p->base = p->heap[me];
    return p;
}

void sm_retire(sm_pe *p) { madvise(p->live, map_bytes(p), MADV_DONTNEED); }

void sm_close(sm_pe *p) {
    if (!p) return;
    if (p->live) munmap(p->live, map_bytes(p));
    for (int slot = 0; slot < SM_SLOTS; slot++) free(p->members[slot]);
    free(p->heap);
    free(p->head);
    free(p);
}

/* Ticks since boot at which a process started (field 22 of its stat file) and its state letter; 0 if it is gone. */
static uint64_t started_at(int pid, char *state) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char *got = fgets(line, sizeof line, f);
    fclose(f);
    char *after = got ? strrchr(line, ')') : NULL;      /* the name in parentheses may hold anything */
    if (!after) return 0;
    unsigned long long ticks = 0;
    if (sscanf(after + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state,
               &ticks) != 2)
        return 0;
    return ticks;
}

void sm_announce(sm_pe *p) {
    sm_head *h = p->head[p->me];
    char state;
    h->heap_bytes = p->heap_bytes;
    h->pid = getpid();
    h->started = started_at(h->pid, &state);
    h->magic = SM_MAGIC;
    atomic_store(&h->alive, SM_ALIVE);
}

int sm_alive(const sm_pe *p, int pe) { return p->head[pe] ? (int)atomic_load(&p->head[pe]->alive) : SM_ALIVE; }

void sm_set_alive(sm_pe *p, int state) { atomic_store(&p->head[p->me]->alive, (uint32_t)state); }

int sm_any_dead(const sm_pe *p) { return p->any_dead; }

/* A batch of this many bytes goes past the cache: its rows are read once, by another PE, after the whole exchange.
 * (A virtual machine may report a last-level cache that it shares with many others: hence the cap.) */
uint64_t sm_bulk_bytes(const sm_pe *p) {
    uint64_t share = p->streaming_bytes / (uint64_t)p->n;
    return share < 1u << 20 ? share : 1u << 20;
}

/* A collective of this many bytes on every PE goes past the cache: fewer are read again by whoever got them, out of it. */
uint64_t sm_spill_bytes(const sm_pe *p) {
    uint64_t cache = 2 * p->streaming_bytes, most = 32u << 20;
    return (cache < most ? cache : most) / (uint64_t)p->n;
}

int sm_find_dead(sm_pe *p) {
    int dead = 0;
    for (int i = 0; i < p->n; i++) {
        sm_head *h = p->head[i];
        if (!h || i == p->me) continue;
        if (atomic_load(&h->alive) == SM_ALIVE) {
            char state = 'X';
            int gone = kill(h->pid, 0) != 0 && errno == ESRCH;
            if (!gone) gone = started_at(h->pid, &state) != h->started || state == 'Z' || state == 'X';
            if (gone) atomic_store(&h->alive, SM_DEAD);
        }
        dead += atomic_load(&h->alive) == SM_DEAD;
    }
    p->any_dead = dead;
    return dead;
}

void sm_mark_live(sm_pe *p, uint64_t off, uint64_t n, int live) {
    if (!n) return;
    p->frees += !live;
    for (uint64_t g = off / SM_GRANULE, end = (off + n - 1) / SM_GRANULE; g <= end;) {
        if (g % 64 == 0 && g + 63 <= end) {
            p->live[g / 64] = live ? ~0ull : 0;
            g += 64;
        } else {
            uint64_t bit = 1ull << (g % 64);
            p->live[g / 64] = live ? p->live[g / 64] | bit : p->live[g / 64] & ~bit;
            g++;
        }
    }
}

int sm_is_live(const sm_pe *p, uint64_t off, uint64_t n) {
    if (off > p->heap_bytes || n > p->heap_bytes - off) return 0;
    if (!n) return 1;
    uint64_t a = off / SM_GRANULE, b = (off + n - 1) / SM_GRANULE;
    for (uint64_t w = a / 64; w <= b / 64; w++) {       /* every granule: a view may reach over a freed block */
        uint64_t mask = ~0ull;
        if (w == a / 64) mask &= ~0ull << (a % 64);
        if (w == b / 64) mask &= ~0ull >> (63 - b % 64);
        if ((p->live[w] & mask) != mask) return 0;
    }
    return 1;
}

void sm_counts_read(const sm_pe *p, sm_counts *out) {
    out->sleeps = atomic_load(&p->sleeps);
    out->wakes = atomic_load(&p->wakes);
    out->woken = atomic_load(&p->woken);
    out->missed = atomic_load(&p->missed);
}

void sm_set_cap(sm_pe *p, int64_t ns) { p->cap_ns = ns; }

void sm_set_viewed(sm_pe *p, int pe) {
    if (p->head[pe]) atomic_store(&p->head[pe]->viewed, 1);
}

char *sm_call_text(sm_pe *p, int pe) { return p->head[pe]->text; }
