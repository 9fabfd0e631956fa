/* Loads, stores and atomics of the delivery engine in real memory. A unit of at most 8 aligned bytes is one release
 * store; a longer one is several, ascending: who reads it while they are made sees a beginning of it. */
#include "net.h"

#include <string.h>

/* The bytes of the largest aligned piece at an address, of at most 8 and of at most n. */
static uint64_t piece(const char *at, uint64_t n) {
    uint64_t size = 8;
    while (size > n || ((uintptr_t)at & (size - 1))) size >>= 1;
    return size;
}

#define PUT(T)                                                                \
    do {                                                                      \
        T v;                                                                  \
        memcpy(&v, from, sizeof v);                                           \
        atomic_store_explicit((_Atomic T *)to, v, memory_order_release);      \
    } while (0)

#define TAKE(T)                                                                                  \
    do {                                                                                         \
        T v = atomic_load_explicit((const _Atomic T *)from, memory_order_acquire);               \
        memcpy(to, &v, sizeof v);                                                                \
    } while (0)

static void store_bytes(char *to, const uint8_t *from, uint64_t n) {
    for (uint64_t size; n; to += size, from += size, n -= size) {
        size = piece(to, n);
        if (size == 8) PUT(uint64_t);
        else if (size == 4) PUT(uint32_t);
        else if (size == 2) PUT(uint16_t);
        else PUT(uint8_t);
    }
}

#define BULK 256                            /* from so many bytes on, they are copied in blocks */

void sm_net_load_bytes(uint8_t *to, const char *from, uint64_t n) {
    if (n >= BULK) {
        atomic_thread_fence(memory_order_acquire);
        sm_copy(to, from, n, 0);
        return;
    }
    for (uint64_t size; n; to += size, from += size, n -= size) {
        size = piece(from, n);
        if (size == 8) TAKE(uint64_t);
        else if (size == 4) TAKE(uint32_t);
        else if (size == 2) TAKE(uint16_t);
        else TAKE(uint8_t);
    }
}

uint64_t sm_net_updated(uint64_t old, const sm_update *update) {
    uint64_t value = update->value;
    switch (update->op) {
    case SM_OP_SET: case SM_OP_SWAP: break;
    case SM_OP_ADD: value = old + value; break;
    case SM_OP_COMPARE_SWAP: value = old == update->cond ? value : old; break;
    case SM_OP_AND: value = old & value; break;
    case SM_OP_OR: value = old | value; break;
    case SM_OP_XOR: value = old ^ value; break;
    default: value = old;
    }
    return update->width == 4 ? (uint32_t)value : value;
}

#define AMO(T)                                                                                   \
    do {                                                                                         \
        _Atomic T *w = (_Atomic T *)word;                                                        \
        T v = (T)update->value, old = (T)update->cond;                                           \
        switch (update->op) {                                                                    \
        case SM_OP_SET: case SM_OP_SWAP: return atomic_exchange(w, v);                           \
        case SM_OP_ADD: return atomic_fetch_add(w, v);                                           \
        case SM_OP_AND: return atomic_fetch_and(w, v);                                           \
        case SM_OP_OR: return atomic_fetch_or(w, v);                                             \
        case SM_OP_XOR: return atomic_fetch_xor(w, v);                                           \
        case SM_OP_COMPARE_SWAP: atomic_compare_exchange_strong(w, &old, v); return old;         \
        default: return atomic_load(w);                                                          \
        }                                                                                        \
    } while (0)

static uint64_t atomic(char *word, const sm_update *update) {
    if (update->width == 4) AMO(uint32_t);
    AMO(uint64_t);
}

static void wake(const sm_net *net, const sm_place *place) {
    const sm_space *space = &net->spaces[place->space];
    if (space->waker) sm_wake(space->waker, space->pe, place->lo, sm_net_size(place));
}

void sm_net_write(const sm_net *net, const sm_place *place, const uint8_t *from) {
    store_bytes(sm_net_at(net, place), from, sm_net_size(place));
    wake(net, place);
}

/* Units of a request, many of them perhaps: where none is above 8 bytes, in whatever order is fast. */
void sm_net_place(const sm_net *net, const sm_place *place, const uint8_t *from) {
    uint64_t n = sm_net_size(place);
    if (n < BULK || net->profile.unit > 8 || net->profile.ascending) {
        sm_net_write(net, place, from);
        return;
    }
    atomic_thread_fence(memory_order_release);
    sm_copy(sm_net_at(net, place), from, n, 0);
    wake(net, place);
}

uint64_t sm_net_atomic(const sm_net *net, const sm_place *place, const sm_update *update) {
    uint64_t old = atomic(sm_net_at(net, place), update);
    if (update->op != SM_OP_FETCH) wake(net, place);
    return old;
}

/* Whether a place lies in a space that there is. */
int sm_net_fits(const sm_net *net, const sm_place *place) {
    if (place->space < 0 || place->space >= net->nspaces || place->lo > place->hi) return 0;
    return place->hi <= net->spaces[place->space].bytes;
}

/* Whether it is an aligned word of 4 or 8 bytes. */
int sm_net_fits_word(const sm_net *net, const sm_place *place, const sm_update *update) {
    uint32_t width = update->width;
    if (!sm_net_fits(net, place) || (width != 4 && width != 8) || sm_net_size(place) != width) return 0;
    return !((uintptr_t)sm_net_at(net, place) & (width - 1));
}

/* Lays what a request brings over bytes of its target, where they overlap. */
static void overlay(uint8_t *out, const sm_place *place, const sm_req *r) {
    const sm_place *at = &r->w.at;
    uint64_t lo = place->lo > at->lo ? place->lo : at->lo, hi = place->hi < at->hi ? place->hi : at->hi;
    if (lo < hi) memcpy(out + (lo - place->lo), r->data + (lo - at->lo), hi - lo);
}

static int forwards(const sm_net *net, const sm_req *r) {
    int mine = r->w.kind == SM_KIND_STORE || (net->profile.program_order && r->w.kind == SM_KIND_WRITE);
    return mine && r->read && !r->w.bad && !sm_net_reached(r, SM_STAGE_PLACED);
}

/* What a PE sees of memory: its own stores that are still to be placed are there already. */
void sm_net_read_own(sm_net *net, int pe, const sm_place *place, uint8_t *out) {
    sm_net_load_bytes(out, sm_net_at(net, place), sm_net_size(place));
    if (!net->profile.forwarding) return;
    SM_EACH(net, r)
        if (r->w.pe == pe && r->w.at.space == place->space && forwards(net, r)) overlay(out, place, r);
}

int sm_net_look(sm_net *net, int pe, const sm_place *place, void *out) {
    if (!sm_net_fits(net, place)) return SM_NET_BAD;
    sm_net_read_own(net, pe, place, out);
    return 0;
}
