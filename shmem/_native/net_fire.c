/* What the events of a request do. */
#include "net.h"

#include <string.h>

/* The word of an atomic as it was, in the data of its request. */
static void keep_old(sm_req *r, uint64_t old) {
    r->ndata = sm_net_size(&r->w.at);
    memcpy(r->data, &old, r->ndata);
}

/* All places one behind the other, the first of them and those of `rest`. */
static void read_source(sm_net *net, sm_req *r) {
    uint8_t *to = r->data;
    for (int64_t i = -1; i < r->w.rests; i++) {
        const sm_place *place = i < 0 ? &r->w.source : &r->rest[i];
        sm_net_read_own(net, r->w.pe, place, to);
        to += sm_net_size(place);
    }
    r->ndata = (uint64_t)(to - r->data);
    r->read = 1;
}

static void fetch(sm_net *net, sm_req *r) {
    uint64_t old = 0;
    sm_net_load_bytes((uint8_t *)&old, sm_net_at(net, &r->w.at), sm_net_size(&r->w.at));
    keep_old(r, old);
    r->fetched = 1;
}

static void place_atomic(sm_net *net, sm_req *r) {
    uint64_t value = 0;
    if (!r->split) {
        keep_old(r, sm_net_atomic(net, &r->w.at, &r->w.update));
        return;
    }
    memcpy(&value, r->data, r->ndata);
    value = sm_net_updated(value, &r->w.update);
    sm_net_write(net, &r->w.at, (const uint8_t *)&value);
}

static void read_unit(sm_net *net, sm_req *r, uint64_t lo, uint64_t hi) {
    sm_place there = {r->w.at.space, r->w.at.lo + lo, r->w.at.lo + hi};
    uint64_t size = sm_net_size(&r->w.at);
    if (r->ndata < size) memset(r->data + r->ndata, 0, size - r->ndata);
    r->ndata = size;
    if (net->profile.program_order) sm_net_read_own(net, r->w.pe, &there, r->data + lo);
    else sm_net_load_bytes(r->data + lo, sm_net_at(net, &there), hi - lo);
}

static void write_unit(sm_net *net, sm_req *r, uint64_t lo, uint64_t hi) {
    sm_place there = {r->w.at.space, r->w.at.lo + lo, r->w.at.lo + hi};
    sm_net_place(net, &there, r->data + lo);
}

static void place(sm_net *net, sm_req *r, uint64_t unit) {
    uint64_t lo, hi;
    sm_net_unit(r, unit, &lo, &hi);
    if (r->w.kind == SM_KIND_ATOMIC) place_atomic(net, r);
    else if (r->w.kind == SM_KIND_READ) read_unit(net, r, lo, hi);
    else if (r->w.kind != SM_KIND_SEND || r->receive >= 0) write_unit(net, r, lo, hi);
    sm_net_placed(r)[unit >> 6] |= 1ull << (unit & 63);
    r->placed++;
}

static void again(sm_net *net, sm_req *r, uint64_t unit) {
    uint64_t lo, hi;
    sm_net_unit(r, unit, &lo, &hi);
    write_unit(net, r, lo, hi);
    sm_net_again(r)[unit >> 6] |= 1ull << (unit & 63);
    r->again++;
}

/* A unit of a result lies in one place. */
static void land(sm_net *net, sm_req *r, uint64_t unit) {
    uint64_t lo, hi, first;
    sm_net_unit(r, unit, &lo, &hi);
    const sm_place *piece = &r->w.result;
    for (first = lo; first >= sm_net_size(piece); piece = piece == &r->w.result ? r->rest : piece + 1)
        first -= sm_net_size(piece);
    sm_place there = {piece->space, piece->lo + first, piece->lo + first + (hi - lo)};
    sm_net_place(net, &there, r->data + lo);
    if (net->landings) sm_net_brought(net, r, &there);
    sm_net_landed(r)[unit >> 6] |= 1ull << (unit & 63);
    r->landed++;
}

static int receive(sm_net *net, sm_req *r) {
    int cq = -1;
    if (r->w.taker >= 0) cq = net->takers[r->w.taker].cq;
    else if (r->w.target < net->npes) cq = net->pes[r->w.target].cq;
    r->told = 1;
    sm_cqe told = {
        .number = r->w.number, .receive = r->receive, .pe = r->w.pe, .queue = r->w.queue, .status = SM_STATUS_OK,
        .opcode = SM_RECEIVE,
        .has_immediate = sm_net_has(r, SM_REQ_IMMEDIATE), .nbytes = sm_net_size(&r->w.at), .immediate = r->w.immediate,
    };
    if (cq < 0) return SM_NET_NONE;
    if (r->holds) {
        told.queue = net->takers[r->w.taker].ring->pair;
        sm_net_told(r, &net->takers[r->w.taker]);
    }
    return sm_net_tell(net, cq, &told);
}

/* The events whose unit is one of the request's. */
static int of_units(int act) { return act == SM_ACT_PLACE || act == SM_ACT_LAND || act == SM_ACT_AGAIN; }

static int do_event(sm_net *net, sm_req *r, const sm_event *event) {
    uint64_t unit = (uint64_t)event->unit;
    switch (event->act) {
    case SM_ACT_ACCEPT: return sm_net_accept(net, r);
    case SM_ACT_SOURCE: read_source(net, r); return 0;
    case SM_ACT_FETCH: fetch(net, r); return 0;
    case SM_ACT_PLACE: place(net, r, unit); return 0;
    case SM_ACT_WORD: sm_net_atomic(net, &r->w.word, &r->w.word_update); r->worded = 1; return 0;
    case SM_ACT_LAND: land(net, r, unit); return 0;
    case SM_ACT_RECEIVE: return receive(net, r);
    case SM_ACT_RETIRE: return sm_net_retire(net, r);
    case SM_ACT_GIVE_UP: sm_net_give_up(net, r); return 0;
    case SM_ACT_AGAIN: again(net, r, unit); return 0;
    case SM_ACT_UNTOLD: return sm_net_untold(net, r);
    case SM_ACT_ADMIT: sm_net_admit(net, r); return 0;
    default: return SM_NET_BAD;
    }
}

/* The bytes that an event is about. */
static sm_place place_of(const sm_req *r, const sm_event *event) {
    sm_place place = event->act == SM_ACT_WORD ? r->w.word : r->w.at;
    if (of_units(event->act)) {
        uint64_t lo, hi;
        sm_net_unit(r, (uint64_t)event->unit, &lo, &hi);
        place = (sm_place){r->w.at.space, r->w.at.lo + lo, r->w.at.lo + hi};
    }
    return place;
}

static int happens(sm_net *net, sm_req *r, const sm_event *event) {
    if (!net->log && !net->landings) return do_event(net, r, event);
    sm_place place = place_of(r, event);
    if (net->log) sm_net_mark(net, r, event->act, &place);
    int changes = event->act == SM_ACT_PLACE || event->act == SM_ACT_AGAIN || event->act == SM_ACT_WORD;
    if (net->landings && changes && r->w.kind != SM_KIND_READ && place.space < net->landings->p->n)
        return sm_net_timed(net, r, event, &place, do_event);
    return do_event(net, r, event);
}

int sm_net_fire(sm_net *net, const sm_event *event) {
    if (event->act == SM_ACT_BELL || event->act == SM_ACT_LOSE) return sm_net_bell(net, event);
    sm_req *r = sm_net_find(net, event->pe, event->number);
    if (!r) return SM_NET_NONE;
    if (of_units(event->act) && (event->unit < 0 || (uint64_t)event->unit >= r->units)) return SM_NET_BAD;
    net->told_others = event->act == SM_ACT_WORD || (event->act == SM_ACT_PLACE && r->w.kind == SM_KIND_ATOMIC);
    int done = happens(net, r, event);
    if (done == 1) {                        /* it failed: nothing of it is still to come */
        sm_net_unlink(net, r);
        sm_net_free_slot(net, r);
        return 0;
    }
    sm_net_end(net, r);
    return done;
}
