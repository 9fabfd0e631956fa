/* Messages as lines that carry a flag: the one kernel that stores them and the one that waits for them, for every
 * format that a layout describes. Each cell is stored by one aligned 8-byte atomic store and loaded by one such load;
 * where the layout wants it, the cells with the flag come last, with release. Nobody is woken by a line, so its reader
 * spins briefly and then naps, ever longer: a nap adds at most a 32nd to the time waited so far, or 50 us.
 * The last bytes of a payload are padded with zeros. Little-endian, like both machines that this is built for. */
#include "core.h"
#include "nic.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define SLICE_NS 100000000                  /* Python looks for signals and deadlines after so much waiting */
#define NAP_MIN_NS 50000
#define NAP_MAX_NS 1000000
#define NAP_SHARE 32

enum { SM_ORDER_ANY, SM_FLAG_LAST };
enum { SM_SAME_LOAD, SM_FLAG_FIRST, SM_RELOAD, SM_SINGLE_PASS };
enum { FLAGS = 1, DATA = 2 };

typedef _Atomic uint64_t cell;

static uint64_t lines_of(const sm_lines *l, uint64_t n) { return (n + l->data - 1) / l->data; }

/* Line i of a message of n bytes: where it is, and how many bytes are left for it and those behind it. A last line may
 * end early: its cells behind the payload move up by `cut`. */
typedef struct { char *line; uint64_t have, cut; } place;

static place line_at(const sm_lines *l, char *first, uint64_t n, uint64_t i) {
    place at = {first + i * l->step, n > i * l->data ? n - i * l->data : 0, 0};
    if (l->tail && at.have < l->data) at.cut = l->data - (at.have + l->tail - 1) / l->tail * l->tail;
    return at;
}

static cell *cells_at(const sm_lines *l, uint32_t r, place at) {
    return (cell *)(void *)(at.line + l->cells[r].at - (r ? at.cut : 0));
}

static uint64_t cells_in(const sm_lines *l, uint32_t r, place at) { return l->cells[r].n - (r ? 0 : at.cut / 8); }

/* Whether every cell stands for itself and the next line follows at once: a message is then one run of equal cells. */
static int one_run(const sm_lines *l) { return l->runs == 1 && l->step == l->line && l->order == SM_ORDER_ANY; }

/* How many of `width` payload bytes from `start` on exist. */
static uint64_t part(uint64_t have, uint64_t start, uint64_t width) {
    return start >= have ? 0 : have - start < width ? have - start : width;
}

#define WHOLE_CELLS(width) for (; i < n && start + (width) <= have; i++, start += (width))

static void put_run(const sm_cells *c, cell *to, uint64_t n, const char *data, uint64_t have, uint64_t flag,
                    int release) {
    uint64_t start = c->start, bits = flag * c->unit, i = 0;
    if (c->width == 8)
        WHOLE_CELLS(8) {
            uint64_t v;
            memcpy(&v, data + start, 8);
            atomic_store_explicit(&to[i], v, memory_order_relaxed);
        }
    else if (c->width == 4 && !release)
        WHOLE_CELLS(4) {
            uint32_t v;
            memcpy(&v, data + start, 4);
            atomic_store_explicit(&to[i], (uint64_t)v << 8 * c->shift | bits, memory_order_relaxed);
        }
    for (; i < n; i++, start += c->width) {
        uint64_t v = 0, len = part(have, start, c->width);
        if (len) memcpy(&v, data + start, len);
        v = v << 8 * c->shift | bits;
        if (release)
            atomic_store_explicit(&to[i], v, memory_order_release);
        else
            atomic_store_explicit(&to[i], v, memory_order_relaxed);
    }
}

uint64_t sm_line_bytes(const sm_lines *l, uint64_t n, uint64_t i) { return l->line - line_at(l, NULL, n, i).cut; }

void sm_put_lines(sm_pe *p, const sm_op *op) { sm_write_lines(op, p->heap[op->pe] + op->dst); }

void sm_write_lines(const sm_op *op, char *first) {
    const sm_lines *l = (const sm_lines *)(uintptr_t)op->aux;
    const char *data = (const char *)(uintptr_t)op->src;
    int last = l->order == SM_FLAG_LAST;
    if (one_run(l)) {
        put_run(l->cells, (cell *)(void *)first, op->cond * l->cells->n, data, op->n, op->value, 0);
        return;
    }
    for (uint64_t i = 0; i < op->cond; i++, data += l->data) {
        place at = line_at(l, first, op->n, i);
        for (int pass = 0; pass <= last; pass++)
            for (uint32_t r = 0; r < l->runs; r++) {
                int release = last && l->cells[r].mask;
                if (release == pass)
                    put_run(&l->cells[r], cells_at(l, r, at), cells_in(l, r, at), data, at.have, op->value, release);
            }
    }
}

/* Looks at cells once, from the first: those of a run whose payload begins at `start`. FLAGS: flags are compared. DATA:
 * payload goes to `out`, from the same loads. Returns how many it passed before one whose flag was not there. */
static uint64_t look_run(const sm_cells *c, cell *from, uint64_t n, uint64_t start, char *out, uint64_t have,
                         uint64_t flag, int what) {
    uint64_t mask = what & FLAGS ? c->mask : 0, bits = flag * c->unit & mask, width = what & DATA ? c->width : 0, i = 0;
    if (width == 8)
        WHOLE_CELLS(8) {
            uint64_t v = atomic_load_explicit(&from[i], memory_order_relaxed);
            memcpy(out + start, &v, 8);
        }
    else if (width == 4)
        WHOLE_CELLS(4) {
            uint64_t v = atomic_load_explicit(&from[i], memory_order_acquire);
            if ((v & mask) != bits) return i;
            v >>= 8 * c->shift;
            memcpy(out + start, &v, 4);
        }
    for (; i < n; i++, start += c->width) {
        uint64_t v = atomic_load_explicit(&from[i], memory_order_acquire), len = part(have, start, width);
        if ((v & mask) != bits) return i;
        v >>= 8 * c->shift;
        if (len) memcpy(out + start, &v, len);
    }
    return n;
}

/* Looks at a line once, at the cells that matter for `what`. Returns whether all flags compared were there. */
static int look(const sm_lines *l, place at, char *out, uint64_t flag, int what) {
    for (uint32_t r = 0; r < l->runs; r++) {
        const sm_cells *c = &l->cells[r];
        if (!((what & FLAGS && c->mask) || (what & DATA && c->width))) continue;
        uint64_t n = cells_in(l, r, at);
        if (look_run(c, cells_at(l, r, at), n, c->start, out, at.have, flag, what) < n) return 0;
    }
    return 1;
}

typedef struct { int64_t entered, since, looked, end; int spin, spins, dead; } patience;

/* One more step of waiting; SM_OK when it is time to look again. A thread that naps keeps its timers sharp from then
 * on: with the default slack a nap of 50 us lasts 100. */
static int bide(sm_pe *p, patience *t) {
    static _Thread_local int sharp;
    if (t->spins++ < t->spin) {
        sm_pause();
        return SM_OK;
    }
    if (p->detour && sm_nic_progress(p->nic)) return SM_OK;
    int64_t now = sm_now_ns();
    if (!t->since) t->since = now;
    if (now >= t->end) return SM_TIMEOUT;
    if (p->survive && now - t->looked >= SLICE_NS / 2) {
        t->looked = now;
        if (sm_find_dead(p) > t->dead) return SM_DIED;
    }
    if (now - t->entered >= SLICE_NS) return SM_INTERRUPTED;
    if (!sharp) sharp = 1 + prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    int64_t nap = (now - t->since) / NAP_SHARE;
    nap = nap < NAP_MIN_NS ? NAP_MIN_NS : nap > NAP_MAX_NS ? NAP_MAX_NS : nap;
    if (nap > t->end - now) nap = t->end - now;
    struct timespec sleep = {0, nap};
    return nanosleep(&sleep, NULL) && errno == EINTR ? SM_INTERRUPTED : SM_OK;
}

static int poll_run(sm_pe *p, const sm_lines *l, cell *from, const sm_op *op, char *out, patience *t) {
    const sm_cells *c = l->cells;
    uint64_t n = lines_of(l, op->n) * c->n;
    for (uint64_t i = 0;;) {
        uint64_t passed = look_run(c, from + i, n - i, i * c->width, out, op->n, op->value, FLAGS | DATA);
        if ((i += passed) == n) return SM_OK;
        if (passed) t->spins = 0, t->since = 0;
        int status = bide(p, t);
        if (status) return status;
    }
}

static int poll_group(sm_pe *p, const sm_lines *l, char *first, uint64_t i, uint64_t end, const sm_op *op,
                      patience *t) {
    char *out = (char *)(uintptr_t)op->dst;
    int before = l->reader == SM_FLAG_FIRST ? FLAGS : FLAGS | DATA, again = before == FLAGS || l->reader == SM_RELOAD;
    for (uint64_t k = i; k < end; k++) {
        place at = line_at(l, first, op->n, k);
        while (!look(l, at, out + k * l->data, op->value, before)) {
            int status = bide(p, t);
            if (status) return status;
        }
        t->spins = 0, t->since = 0;
    }
    for (uint64_t k = i; again && k < end; k++)
        look(l, line_at(l, first, op->n, k), out + k * l->data, op->value, DATA);
    return SM_OK;
}

/* Waits for the message from its first line on, whatever an earlier call has seen: lines that are there stay. */
int sm_poll_lines(sm_pe *p, const sm_op *op, int64_t timeout_ns) {
    const sm_lines *l = (const sm_lines *)(uintptr_t)op->aux;
    char *first = p->base + op->src;
    uint64_t lines = lines_of(l, op->n), group = l->group ? l->group : lines;
    int64_t now = sm_now_ns(), last = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
    patience t = {now, 0, now, last, timeout_ns > 0 ? p->spin : 0, 0, p->any_dead};
    if (one_run(l)) return poll_run(p, l, (cell *)(void *)first, op, (char *)(uintptr_t)op->dst, &t);
    int status = SM_OK;
    for (uint64_t i = 0; i < lines && !status; i += group)
        status = poll_group(p, l, first, i, lines - i < group ? lines : i + group, op, &t);
    return status;
}
