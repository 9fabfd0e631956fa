/* Fences, what a quiet waits for, and segments, which may end before a request comes to them. */
#include "net.h"

static int changes(const sm_req *r) { return r->w.kind != SM_KIND_READ; }

/* Whether the program has rung for a request, if it must. */
static int asked(const sm_net *net, const sm_req *r) {
    return !sm_net_has(r, SM_REQ_RING) || r->w.number <= net->queues[r->w.queue].asked;
}

void sm_net_fence(sm_net *net, int pe, int queue, int is_default) {
    SM_EACH(net, r) {
        int store = r->w.kind == SM_KIND_STORE;
        if (r->w.pe != pe || !(store || r->w.queue == queue || (is_default && sm_net_has(r, SM_REQ_RING)))) continue;
        int before = sm_net_is_special(r);
        if (!net->profile.engine_scoped || store) r->fenced = 1;
        r->spread = r->fenced && is_default && asked(net, r);
        net->n_special += sm_net_is_special(r) - before;
    }
}

int64_t sm_net_unfinished(const sm_net *net, int pe, int queue, int target) {
    int missed = net->profile.engine_scoped && target < 0;
    int64_t n = 0;
    SM_EACH(net, r) {
        int mine = !missed && r->w.queue == queue && (target < 0 || r->w.target == target);
        n += r->w.pe == pe && (mine || r->w.kind == SM_KIND_STORE) && !sm_net_reached(r, SM_STAGE_ANSWERED);
    }
    return n;
}

int sm_net_owes(const sm_net *net, int pe, int queue, int target, unsigned stage, unsigned kinds) {
    if (net->profile.engine_scoped && target < 0) return 0;
    SM_EACH(net, r) {
        if (r->w.pe != pe || r->w.queue != queue || !(kinds >> r->w.kind & 1) || (target >= 0 && r->w.target != target)) continue;
        if (!sm_net_reached(r, stage)) return 1;
    }
    return 0;
}

int sm_net_left(const sm_net *net, int pe, int target) {
    SM_EACH(net, r) {
        if (r->w.pe != pe || !sm_net_has(r, SM_REQ_RING) || (target >= 0 && r->w.target != target)) continue;
        if (r->retired ? !sm_net_reached(r, SM_STAGE_ANSWERED) : !sm_net_rests(net, r, 1)) return 1;
    }
    return 0;
}

/* Whether a store of a PE that takes effect at once still has to wait for what a fence has put before it. */
int sm_net_holds_back(const sm_net *net, int pe, int target) {
    SM_EACH(net, r) {
        if (r->w.pe != pe || r->w.target != target || !r->fenced || !changes(r)) continue;
        if (!sm_net_reached(r, SM_STAGE_PLACED)) return 1;
    }
    return 0;
}

/* Whether a segment that a request goes to has ended. */
int sm_net_ended(const sm_net *net, const sm_req *r) {
    for (int i = 0; i < 2; i++) {
        uint8_t over = 0;
        if (r->w.segments[i] >= 0) sm_net_load_bytes(&over, net->spaces[r->w.segments[i]].base, 1);
        if (over) return 1;
    }
    return 0;
}

/* Whether a request has come to its target: those that take a receive before it have one, which may never be there, and
 * on an ordered machine all that it waits for. */
static int there(const sm_net *net, const sm_req *r) {
    for (int64_t i = 0; i < r->ngates; i++) {
        const sm_req *other = sm_net_find(net, r->gates[i].pe, r->gates[i].number);
        if (!other || !(net->profile.program_order || sm_net_has(other, SM_REQ_NEEDS_RECEIVE))) continue;
        if (!sm_net_reached(other, net->profile.program_order ? r->gates[i].stage : SM_STAGE_ACCEPTED)) return 0;
    }
    return 1;
}

/* Whether those before it on its queue pair have been looked at, where that has an order. */
static int in_turn(const sm_net *net, const sm_req *r) {
    const sm_queue *q = &net->queues[r->w.queue];
    for (int64_t i = 0; net->profile.in_turn && i < q->waiting.n; i++) {
        int64_t number = sm_net_item_at(&q->waiting, i)->number;
        if (number >= r->w.number) break;
        const sm_req *other = sm_net_find(net, q->pe, number);
        if (other && !other->admitted && !other->w.bad) return 0;
    }
    return 1;
}

int sm_net_may_admit(const sm_net *net, const sm_req *r) {
    if (r->w.segments[0] < 0 && r->w.segments[1] < 0) return 0;
    if (r->admitted && (r->accepted || !sm_net_ended(net, r))) return 0;
    return in_turn(net, r) && there(net, r);
}

void sm_net_admit(sm_net *net, sm_req *r) {
    if (net->p ? !sm_net_let_in(net, r) : sm_net_ended(net, r)) sm_net_doom(net, r, SM_STATUS_REM_ACCESS);
    else r->admitted = 1;
}

/* Whether something that was let into a segment has still to be placed. */
int sm_net_segment_used(const sm_net *net, int64_t space) {
    SM_EACH(net, r) {
        if (r->w.segments[0] != space && r->w.segments[1] != space) continue;
        int over = sm_net_reached(r, SM_STAGE_PLACED) && (!r->repeats || r->again == r->units);
        if (r->admitted && r->accepted && !r->w.bad && !over && !sm_net_rests(net, r, 0)) return 1;
    }
    return 0;
}
