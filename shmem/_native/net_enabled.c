/* What may happen next, request by request in the order posted; doorbells on their way come first. */
#include "net.h"

typedef struct {
    sm_event *out;
    int64_t first, most, n;                 /* events first .. first + most - 1 are written, n were found */
    int no_faults;                          /* those are left out */
} sm_walk;

static int is_fault(int act) { return act == SM_ACT_GIVE_UP || act == SM_ACT_LOSE || act == SM_ACT_UNTOLD; }

static void give_event(sm_walk *walk, const sm_event *event) {
    if (walk->no_faults && is_fault(event->act)) return;
    if (walk->n >= walk->first && walk->n - walk->first < walk->most) walk->out[walk->n - walk->first] = *event;
    walk->n++;
}

static void give(sm_walk *walk, const sm_req *r, int act, int64_t unit) {
    sm_event event = {r->w.number, unit, r->w.pe, act};
    give_event(walk, &event);
}

/* Of 64 units: all that there are, and those that are left for an event. */
static uint64_t all_of(const sm_req *r, uint64_t w) {
    return w + 1 < r->words || !(r->units & 63) ? ~0ull : (1ull << (r->units & 63)) - 1;
}

static uint64_t left_of(const sm_req *r, int act, uint64_t w) {
    if (act == SM_ACT_PLACE) return all_of(r, w) & ~sm_net_placed(r)[w];
    if (act == SM_ACT_LAND) return sm_net_placed(r)[w] & ~sm_net_landed(r)[w];
    return all_of(r, w) & ~sm_net_again(r)[w];
}

/* The events of one kind for units, ascending. In an ordered request the first that is left is the only one. */
static void give_units(sm_walk *walk, const sm_req *r, int act) {
    int one = r->ascending && act != SM_ACT_LAND;
    for (uint64_t w = 0; w < r->words; w++) {
        uint64_t left = left_of(r, act, w);
        if (!left) continue;
        if (one) left &= -left;
        if (act == SM_ACT_AGAIN) left &= sm_net_placed(r)[w];
        int64_t n = __builtin_popcountll(left);
        if (walk->n + n <= walk->first || walk->n - walk->first >= walk->most) {
            walk->n += n;
        } else {
            for (; left; left &= left - 1) give(walk, r, act, (int64_t)(w * 64) + __builtin_ctzll(left));
        }
        if (one) return;
    }
}

/* Whether another atomic has read the word of this one and not yet placed the new value. */
static int busy(const sm_net *net, const sm_place *word) {
    SM_EACH(net, r) {
        const sm_place *at = &r->w.at;
        if (!r->split || !r->fetched || r->placed) continue;
        if (at->space == word->space && at->lo < word->hi && word->lo < at->hi) return 1;
    }
    return 0;
}

/* Whether all that a receive completion covers is placed, and what of it tells its target on this queue is told. */
static int may_tell(const sm_net *net, const sm_req *r) {
    int which = net->profile.covers;
    if (!sm_net_reached(r, SM_STAGE_PLACED)) return 0;
    if (which == SM_COVERS_OWN) return 1;
    SM_EACH(net, other) {
        if (other->w.pe != r->w.pe || other->w.number >= r->w.number || other->w.kind == SM_KIND_READ) continue;
        if (which == SM_COVERS_EARLIER && other->w.queue != r->w.queue) continue;
        if (!sm_net_reached(other, SM_STAGE_PLACED)) return 0;
        if (other->w.queue == r->w.queue && !other->told) return 0;
    }
    return 1;
}

static int complete(const sm_net *net, const sm_req *r, unsigned stage) {
    return !r->retired && sm_net_is_first(net, r) && sm_net_is_open(net, r, 1 << SM_STAGE_SOURCE) && sm_net_reached(r, stage);
}

/* The steps of one that has come to its target: units, the word, the result. 0: nothing else may happen to it. */
static int give_effects(const sm_net *net, sm_walk *walk, const sm_req *r) {
    int sets = r->w.kind == SM_KIND_ATOMIC && net->profile.halves && r->w.update.op == SM_OP_SET;
    if (r->placed != r->units) {
        if (sm_net_is_open(net, r, 1 << SM_STAGE_SOURCE | 1 << SM_STAGE_PLACED)) {
            if (!r->fetched) {
                if (!busy(net, &r->w.at)) give(walk, r, SM_ACT_FETCH, 0);
                return 0;
            }
            if (sets && busy(net, &r->w.at)) return 0;
            give_units(walk, r, SM_ACT_PLACE);
        }
    } else if (!r->worded && sm_net_is_open(net, r, 1 << SM_STAGE_SOURCE | 1 << SM_STAGE_PLACED)) {
        give(walk, r, SM_ACT_WORD, 0);
    }
    if (r->w.result.space >= 0 && sm_net_is_open(net, r, 1 << SM_STAGE_ANSWERED)) give_units(walk, r, SM_ACT_LAND);
    return 1;
}

static void next_events(sm_net *net, sm_walk *walk, const sm_req *r) {
    int ring = sm_net_has(r, SM_REQ_RING), special = ring ? sm_net_special(net, r) : 0;
    if (special) {
        if (special > 1) give(walk, r, SM_ACT_RETIRE, 0);
        return;
    }
    if (sm_net_may_admit(net, r)) give(walk, r, SM_ACT_ADMIT, 0);
    if (!r->accepted) {
        if (!sm_net_is_open(net, r, 1 << SM_STAGE_SOURCE) || sm_net_ended(net, r)) return;
        if (sm_net_has_receive(net, r)) give(walk, r, SM_ACT_ACCEPT, 0);
        else if (!r->denied) give(walk, r, SM_ACT_GIVE_UP, 0);
        return;
    }
    if (!r->read) {
        if (sm_net_is_open(net, r, 1 << SM_STAGE_SOURCE)) give(walk, r, SM_ACT_SOURCE, 0);
        return;
    }
    if (r->repeats) give_units(walk, r, SM_ACT_AGAIN);
    if (!r->admitted || !give_effects(net, walk, r)) return;
    if (!r->told && may_tell(net, r)) give(walk, r, SM_ACT_RECEIVE, 0);
    if (ring && complete(net, r, net->profile.completes[r->w.kind])) give(walk, r, SM_ACT_RETIRE, 0);
    if (ring && net->profile.lost_ack && complete(net, r, net->profile.executes[r->w.kind]))
        give(walk, r, SM_ACT_UNTOLD, 0);
}

static void give_bells(const sm_queue *q, sm_walk *walk) {
    if (!q->bells.n) return;
    const sm_item *bell = sm_net_item_at(&q->bells, 0);
    sm_event event = {bell->number, bell->more, q->pe, SM_ACT_BELL};
    give_event(walk, &event);
    event.act = SM_ACT_LOSE;
    if (!q->lost) give_event(walk, &event);
}

/* All of them, or no more than are written. */
static void walk_all(sm_net *net, sm_walk *walk, int enough) {
    for (int64_t i = 0; net->profile.lost_doorbell && i < net->nqueues; i++) give_bells(&net->queues[i], walk);
    SM_EACH(net, r) {
        if (enough && walk->n >= walk->first + walk->most) return;
        next_events(net, walk, r);
    }
}

int64_t sm_net_enabled(sm_net *net, int64_t first, int64_t most, sm_event *out) {
    sm_walk walk = {out, first, most, 0, 0};
    walk_all(net, &walk, 0);
    return walk.n;
}

/* The next number of a generator (splitmix64). */
uint64_t sm_net_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Counts an event that was drawn, and is about to happen. */
static void count_event(sm_net *net, const sm_event *event) {
    uint64_t what = (uint64_t)event->number << 8 ^ (uint64_t)event->unit << 40 ^ (uint64_t)event->pe << 4 ^ (uint64_t)event->act;
    net->order ^= sm_net_draw(&what);
    net->order = sm_net_draw(&net->order);
    if (event->act == SM_ACT_BELL || event->act == SM_ACT_LOSE) return;
    sm_req *r = sm_net_find(net, event->pe, event->number);
    if (!r || r->passed || r->prev < 0) return;
    r->passed = 1;
    net->passed++;
}

uint64_t sm_net_drawn(const sm_net *net, uint64_t *passed) {
    *passed = net->passed;
    return net->order;
}

int64_t sm_net_step(sm_net *net, int64_t most, uint64_t *seed, int faults) {
    int64_t done = 0;
    for (; done < most; done++) {
        sm_event event;
        sm_walk count = {&event, 0, 1, 0, !faults};
        walk_all(net, &count, !seed);
        if (!count.n) break;
        if (seed) {
            sm_walk pick = {&event, (int64_t)(sm_net_draw(seed) % (uint64_t)count.n), 1, 0, !faults};
            walk_all(net, &pick, 1);
        }
        if (seed) count_event(net, &event);
        int code = sm_net_fire(net, &event);
        if (code) return code;
    }
    return done;
}
