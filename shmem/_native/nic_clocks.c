/* When bytes change on a recorded run: an adapter places what its PE has posted later, and holds the locks of the entries
 * concerned meanwhile (clocks.c). Its own time runs beside that of the program: it is never before the post of what lands,
 * and the program is never before it once a call has returned. */
#include "nic.h"

#include <stdlib.h>

int sm_nic_clocked(sm_nic *nic) {
    nic->net->landings = calloc(1, sizeof *nic->net->landings);
    if (!nic->net->landings) return SM_NO_MEMORY;
    nic->net->landings->p = nic->p;
    return SM_OK;
}

/* A record is posted next: its number, above 0. */
uint64_t sm_nic_begin(sm_nic *nic, uint64_t now) {
    sm_nic_enter(nic);
    sm_landings *l = nic->net->landings;
    if (now > l->now) l->now = now;
    uint64_t number = ++l->op;
    sm_nic_leave(nic);
    return number;
}

/* The later of two times: the program's, and that of what has landed. */
uint64_t sm_nic_now(sm_nic *nic, uint64_t now) {
    sm_nic_enter(nic);
    uint64_t time = nic->net->landings->now;
    sm_nic_leave(nic);
    return time > now ? time : now;
}

static void note(sm_landings *l, const sm_landing *landing) {
    if (sm_net_grow((void **)&l->list, &l->room, l->n + 1, sizeof *l->list)) l->lost = 1;
    else l->list[l->n++] = *landing;
}

/* What changes a heap. */
int sm_net_timed(sm_net *net, sm_req *r, const sm_event *event, const sm_place *place,
                 int (*happens)(sm_net *net, sm_req *r, const sm_event *event)) {
    sm_landings *l = net->landings;
    uint64_t entries;
    l->now = sm_clocks_enter(l->p, (int)place->space, place->lo, sm_net_size(place), l->now, &entries);
    sm_landing landing = {l->now, r->w.wr_id, place->lo, place->hi, (int32_t)place->space, event->act};
    int done = happens(net, r, event);
    sm_clocks_leave(l->p, (int)place->space, entries);
    note(l, &landing);
    return done;
}

void sm_net_brought(sm_net *net, const sm_req *r, const sm_place *place) {
    sm_landings *l = net->landings;
    uint64_t at = (uint64_t)(uintptr_t)sm_net_at(net, place);
    sm_landing landing = {l->now, r->w.wr_id, at, at + sm_net_size(place), -1, SM_ACT_LAND};
    note(l, &landing);
}

int64_t sm_nic_landed(sm_nic *nic, sm_landing *out, int64_t most, uint64_t *now) {
    sm_nic_enter(nic);
    sm_landings *l = nic->net->landings;
    int64_t n = 0;
    while (n < most && l->taken < l->n) out[n++] = l->list[l->taken++];
    if (l->taken == l->n) l->taken = l->n = 0;
    if (l->now > *now) *now = l->now;
    if (l->lost) n = SM_NO_MEMORY;
    sm_nic_leave(nic);
    return n;
}
