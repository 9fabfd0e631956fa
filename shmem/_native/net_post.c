/* Posting: a request is cut into units and learns what it has to wait for. And how far a request is. */
#include "net.h"

#include <string.h>

static int in_pieces(const sm_req *r) { return r->w.result.space >= 0 && r->w.rests > 0; }

/* The end of a unit, as an offset from at.lo, which may lie beyond the end of all. */
static uint64_t unit_end(const sm_req *r, uint64_t i) {
    return in_pieces(r) ? r->cuts[i] : (r->w.at.lo / r->unit + i + 1) * r->unit - r->w.at.lo;
}

void sm_net_unit(const sm_req *r, uint64_t i, uint64_t *lo, uint64_t *hi) {
    *lo = i ? unit_end(r, i - 1) : 0;
    *hi = i + 1 < r->units ? unit_end(r, i) : sm_net_size(&r->w.at);
}

/* The end of the piece of a result that holds an offset, where it lies in several places; else of all. */
static uint64_t piece_end(const sm_req *r, uint64_t at) {
    uint64_t end = sm_net_size(&r->w.result);
    for (int64_t i = 0; at >= end && i < r->w.rests; i++) end += sm_net_size(&r->rest[i]);
    return end > at ? end : UINT64_MAX;
}

static int cut_pieces(sm_req *r, uint64_t size) {
    for (uint64_t end = 0; end < size; r->units++) {
        uint64_t next = end + r->unit - (r->w.at.lo + end) % r->unit, border = piece_end(r, end);
        end = next < border ? next : border;
        if (end > size) end = size;
        if (sm_net_grow((void **)&r->cuts, &r->cuts_room, r->units + 1, sizeof *r->cuts)) return SM_NET_NO_MEMORY;
        r->cuts[r->units] = end;
    }
    return 0;
}

/* How many bytes lie between two cuts: a unit, or so many that there are not too many parts. */
static uint64_t part_of(const sm_net *net, const sm_req *r) {
    uint64_t unit = net->profile.unit, most = net->profile.pieces, lo = r->w.at.lo, hi = r->w.at.hi;
    if (r->w.kind == SM_KIND_ATOMIC || most == 1) return 1ull << 62;
    if (!most || hi == lo || (hi - 1) / unit - lo / unit < most) return unit;
    return (hi - lo + unit * (most - 1) - 1) / (unit * (most - 1)) * unit;     /* the cuts are at multiples: one part more */
}

/* Cuts a request at multiples of the unit, and at the borders of the places of its result. An atomic is one unit. */
int sm_net_cut(sm_net *net, sm_req *r) {
    const sm_place *at = &r->w.at;
    r->unit = part_of(net, r);
    r->units = 0;
    if (in_pieces(r) && cut_pieces(r, sm_net_size(at))) return SM_NET_NO_MEMORY;
    if (!in_pieces(r) && at->lo < at->hi) r->units = (at->hi - 1) / r->unit - at->lo / r->unit + 1;
    r->words = (r->units + 63) / 64;
    r->placed = r->landed = r->again = 0;
    if (sm_net_grow((void **)&r->bits, &r->bits_room, 3 * r->words, sizeof *r->bits)) return SM_NET_NO_MEMORY;
    if (r->words) memset(r->bits, 0, 3 * r->words * sizeof *r->bits);
    return 0;
}

int sm_net_reached(const sm_req *r, unsigned stage) {
    if (stage == SM_STAGE_SOURCE) return r->read;
    if (stage == SM_STAGE_ACCEPTED) return r->accepted;
    if (stage == SM_STAGE_RETIRED) return r->retired;
    int placed = r->accepted && r->placed == r->units && r->worded;
    if (stage == SM_STAGE_PLACED || !placed) return placed;
    return (r->w.result.space < 0 || r->landed == r->units) && (!r->repeats || r->again == r->units);
}

/* Whether nothing keeps a request from some stages. */
int sm_net_is_open(const sm_net *net, const sm_req *r, unsigned stages) {
    for (int64_t i = r->ngates - 1; i >= 0; i--) {           /* the last one is likely to be the last to open */
        const sm_gate *g = &r->gates[i];
        if (!(stages >> g->mine & 1)) continue;
        const sm_req *other = &net->reqs[g->slot];
        if (!other->in_flight || other->w.number != g->number || other->w.pe != g->pe) continue;
        if (!sm_net_reached(other, g->stage)) return 0;
    }
    return 1;
}

static int over(const sm_req *r) { return r->retired && r->told && r->read && sm_net_reached(r, SM_STAGE_ANSWERED); }

void sm_net_end(sm_net *net, sm_req *r) {
    if (!r->in_flight || !over(r)) return;
    sm_net_unlink(net, r);
    if (sm_net_has(r, SM_REQ_KEEP)) {           /* until its result is taken */
        r->next = net->answers;
        net->answers = (int32_t)(r - net->reqs);
    } else {
        sm_net_free_slot(net, r);
    }
}

int64_t sm_net_answer(sm_net *net, int32_t *pe, int64_t *number, void *out, int64_t most) {
    if (net->answers < 0) return SM_NET_NONE;
    sm_req *r = &net->reqs[net->answers];
    int64_t n = (int64_t)r->ndata;
    if (n > most) return n;
    *pe = r->w.pe;
    *number = r->w.number;
    if (n) memcpy(out, r->data, (size_t)n);
    net->answers = r->next;
    sm_net_free_slot(net, r);
    return n;
}

/* The column of the tables for two requests to one target. */
static unsigned column(const sm_req *first, const sm_req *second) {
    const sm_request *a = &first->w, *b = &second->w;
    unsigned found = 0;
    if (a->queue == b->queue) found |= SM_IF_QUEUE;
    if (a->stripe == b->stripe) found |= SM_IF_STRIPE;
    if (a->at.lo < b->at.hi && b->at.lo < a->at.hi) found |= SM_IF_OVERLAP;
    if (b->target == b->pe) found |= SM_IF_OWN;
    if (first->fenced) found |= SM_IF_FENCED;
    if (first->spread && sm_net_has(second, SM_REQ_DEFAULT)) found |= SM_IF_SPREAD;
    if (sm_net_has(first, SM_REQ_NEEDS_RECEIVE)) found |= SM_IF_RECEIVE;
    if (sm_net_has(second, SM_REQ_FENCE)) found |= SM_IF_FENCE;
    if (b->order == SM_ORDER_STRONG && a->order != SM_ORDER_NONE) found |= SM_IF_STRONG;
    if (b->word.space >= 0 && b->put >= 0 && a->put == b->put) found |= SM_IF_PUT;
    return found;
}

static uint64_t between(const sm_net *net, const sm_req *first, const sm_req *second) {
    int kinds = first->w.kind * 5 + second->w.kind;
    if (first->w.target != second->w.target) return net->profile.apart[kinds];
    return net->profile.rules[kinds * SM_IF_ALL + (int)column(first, second)];
}

static int find_gates(sm_net *net, sm_req *r) {
    r->ngates = 0;
    int plain = !sm_net_has(r, SM_REQ_FENCE) && r->w.order != SM_ORDER_STRONG && r->w.put < 0;
    if (plain && net->is_free[r->w.kind] && !net->n_special) return 0;
    SM_EACH(net, other) {
        if (other->w.pe != r->w.pe) continue;
        for (uint64_t rules = between(net, other, r); rules & 0xff; rules >>= 8) {
            unsigned stage = ((rules & 0xff) - 1) / 5, mine = ((rules & 0xff) - 1) % 5;
            if (sm_net_reached(other, stage)) continue;
            uint64_t room = (uint64_t)r->gates_room;
            int32_t slot = (int32_t)(other - net->reqs);
            if (sm_net_grow((void **)&r->gates, &room, (uint64_t)r->ngates + 1, sizeof *r->gates)) return SM_NET_NO_MEMORY;
            r->gates_room = (int64_t)room;
            r->gates[r->ngates++] = (sm_gate){other->w.number, other->w.pe, slot, stage, mine};
        }
    }
    return 0;
}

/* What of a request means nothing: places that do not exist, words that are none, data of another length. */
static int malformed(const sm_net *net, const sm_request *w) {
    int brings = w->kind == SM_KIND_STORE || w->kind == SM_KIND_WRITE || w->kind == SM_KIND_SEND;
    uint64_t size = sm_net_size(&w->at), given = w->ndata;
    const sm_place *buffer = w->source.space >= 0 ? &w->source : &w->result;
    int ring = (w->flags & SM_REQ_RING) != 0;
    if (w->kind < 0 || w->kind > SM_KIND_SEND || w->at.lo > w->at.hi || w->rests < 0 || w->rests > SM_RESTS) return 1;
    if (w->queue < 0 || w->queue >= net->nqueues || net->queues[w->queue].ring != ring) return 1;
    if (w->taker >= net->ntakers) return 1;
    if (w->pe < 0 || w->target < 0 || ((w->flags & SM_REQ_KEEP) && ring)) return 1;
    if (w->bad) return !ring;
    if (w->kind != SM_KIND_SEND && !sm_net_fits(net, &w->at)) return 1;
    if (w->kind == SM_KIND_ATOMIC && !sm_net_fits_word(net, &w->at, &w->update)) return 1;
    if (w->word.space >= 0 && !sm_net_fits_word(net, &w->word, &w->word_update)) return 1;
    if (buffer->space >= 0) {
        if (!sm_net_fits(net, buffer)) return 1;
        given = sm_net_size(buffer);
        for (int64_t i = 0; i < w->rests; given += sm_net_size(&w->rest[i++]))
            if (!sm_net_fits(net, &w->rest[i])) return 1;
    }
    for (int i = 0; i < 2; i++)
        if (w->segments[i] >= net->nspaces) return 1;
    return (brings || buffer->space >= 0) && given != size;
}

static void begin(sm_net *net, sm_req *r) {
    const sm_request *w = &r->w;
    int redone = net->profile.lost_ack && w->kind == SM_KIND_READ, atomic = w->kind == SM_KIND_ATOMIC;
    int ring = sm_net_has(r, SM_REQ_RING), whole = w->update.op == SM_OP_SET || w->update.op == SM_OP_FETCH;
    r->ascending = (sm_net_has(r, SM_REQ_ASCENDING) || net->profile.ascending) && !redone;
    r->read = w->source.space < 0;
    r->worded = w->word.space < 0;
    r->split = atomic && net->profile.halves && !whole;
    r->fetched = !r->split;
    r->repeats = net->profile.repeat && w->kind == SM_KIND_WRITE;
    r->retired = !ring;
    r->told = !(ring && sm_net_has(r, SM_REQ_TELLS));
    r->accepted = !(ring && sm_net_has(r, SM_REQ_NEEDS_RECEIVE));
    r->rung = sm_net_has(r, SM_REQ_RUNG);
    r->admitted = sm_net_has(r, SM_REQ_ADMITTED);
    r->denied = r->fenced = r->spread = r->let_in = r->holds = r->passed = 0;
    r->receive = -1;
    r->since = 0;
}

int sm_net_post(sm_net *net, const sm_request *request) {
    if (malformed(net, request)) return SM_NET_BAD;
    int slot = sm_net_slot(net);
    if (slot < 0) return SM_NET_NO_MEMORY;
    sm_req *r = &net->reqs[slot];
    r->w = *request;
    r->w.data = NULL;
    r->w.rest = NULL;                       /* in `rest`, which moves with the pool */
    if (request->rests) memcpy(r->rest, request->rest, (size_t)request->rests * sizeof(sm_place));
    r->ndata = request->ndata;
    uint64_t room = request->bad ? request->ndata : sm_net_size(&r->w.at);
    if (sm_net_grow((void **)&r->data, &r->data_room, room, 1) || sm_net_cut(net, r) || find_gates(net, r)) goto no_memory;
    if (request->ndata) memcpy(r->data, request->data, request->ndata);
    begin(net, r);
    if (sm_net_has(r, SM_REQ_RING) && sm_net_add(net, r)) goto no_memory;
    sm_net_link(net, slot);
    if (net->log) sm_net_mark(net, r, SM_LOG_POSTED, &r->w.at);
    if (!r->units) sm_net_end(net, r);
    return 0;
no_memory:
    sm_net_free_slot(net, r);
    return SM_NET_NO_MEMORY;
}
