/* An engine: its pool of requests, its spaces, its copy, and what there is to see of it. */
#include "net.h"

#include <stdlib.h>
#include <string.h>

/* Room for `need` items of `size` bytes, at least doubled where that is not there. */
int sm_net_grow(void **memory, uint64_t *room, uint64_t need, uint64_t size) {
    if (need <= *room) return 0;
    uint64_t more = *room * 2 > need ? *room * 2 : need;
    void *made = realloc(*memory, more * size);
    if (!made) return SM_NET_NO_MEMORY;
    *memory = made;
    *room = more;
    return 0;
}

int sm_net_push(sm_fifo *f, sm_item item) {
    if (f->head && f->head + f->n >= f->room) {
        memmove(f->items, f->items + f->head, (size_t)f->n * sizeof(sm_item));
        f->head = 0;
    }
    uint64_t room = (uint64_t)f->room;
    if (sm_net_grow((void **)&f->items, &room, (uint64_t)(f->head + f->n + 1), sizeof(sm_item))) return SM_NET_NO_MEMORY;
    f->room = (int64_t)room;
    f->items[f->head + f->n++] = item;
    return 0;
}

void sm_net_pop(sm_fifo *f) {
    f->head = --f->n ? f->head + 1 : 0;
}

static unsigned bucket(int pe, int64_t number) { return (unsigned)(pe * 31 + number) % SM_HASH; }

sm_req *sm_net_find(const sm_net *net, int pe, int64_t number) {
    for (int32_t i = net->hash[bucket(pe, number)]; i >= 0; i = net->reqs[i].chain)
        if (net->reqs[i].w.number == number && net->reqs[i].w.pe == pe) return &net->reqs[i];
    return NULL;
}

static int add_slots(sm_net *net, int64_t slots) {
    sm_req *made = realloc(net->reqs, (size_t)slots * sizeof(sm_req));
    if (!made) return SM_NET_NO_MEMORY;
    memset(made + net->slots, 0, (size_t)(slots - net->slots) * sizeof(sm_req));
    for (int64_t i = slots - 1; i >= net->slots; i--) {
        made[i].next = net->spare;
        net->spare = (int32_t)i;
    }
    net->reqs = made;
    net->slots = slots;
    return 0;
}

int sm_net_slot(sm_net *net) {
    if (net->spare < 0 && add_slots(net, net->slots * 2)) return -1;
    int32_t slot = net->spare;
    net->spare = net->reqs[slot].next;
    net->reqs[slot].used = 1;
    return slot;
}

void sm_net_link(sm_net *net, int slot) {
    sm_req *r = &net->reqs[slot];
    r->prev = net->last;
    r->next = -1;
    if (net->last < 0) net->first = slot;
    else net->reqs[net->last].next = slot;
    net->last = slot;
    unsigned b = bucket(r->w.pe, r->w.number);
    r->chain = net->hash[b];
    net->hash[b] = slot;
    r->in_flight = 1;
    net->n_flight++;
    net->n_special += sm_net_is_special(r);
}

void sm_net_unlink(sm_net *net, sm_req *r) {
    int32_t slot = (int32_t)(r - net->reqs), *at = &net->hash[bucket(r->w.pe, r->w.number)];
    while (*at != slot) at = &net->reqs[*at].chain;
    *at = r->chain;
    if (r->let_in || r->holds) sm_net_let_out(net, r);
    if (r->prev < 0) net->first = r->next;
    else net->reqs[r->prev].next = r->next;
    if (r->next < 0) net->last = r->prev;
    else net->reqs[r->next].prev = r->prev;
    r->in_flight = 0;
    net->n_flight--;
    net->n_special -= sm_net_is_special(r);
}

void sm_net_free_slot(sm_net *net, sm_req *r) {
    r->used = 0;
    if (r->data_room > SM_KEPT) {
        free(r->data);
        r->data = NULL, r->data_room = 0;
    }
    r->next = net->spare;
    net->spare = (int32_t)(r - net->reqs);
}

/* Whether no rule says anything of two requests but for flags, fences and receives. */
static int is_free(const sm_net_profile *profile, int second) {
    uint64_t found = 0;
    for (int first = SM_KIND_STORE + 1; first < 5; first++) {
        found |= profile->apart[first * 5 + second];
        for (int seen = 0; seen <= (SM_IF_QUEUE | SM_IF_STRIPE | SM_IF_OVERLAP | SM_IF_OWN); seen++)
            found |= profile->rules[(first * 5 + second) * SM_IF_ALL + seen];
    }
    return !found;
}

sm_net *sm_net_open(const sm_net_profile *profile, int64_t requests) {
    sm_net *net = calloc(1, sizeof *net);
    if (!net) return NULL;
    net->profile = *profile;
    for (int kind = 0; kind < 5; kind++) net->is_free[kind] = (uint8_t)is_free(profile, kind);
    net->first = net->last = net->spare = net->answers = -1;
    for (int i = 0; i < SM_HASH; i++) net->hash[i] = -1;
    if (add_slots(net, requests > 0 ? requests : 1)) {
        free(net);
        return NULL;
    }
    return net;
}

static void free_queue(sm_queue *q) {
    free(q->waiting.items);
    free(q->held.items);
    free(q->silent.items);
    free(q->bells.items);
}

void sm_net_close(sm_net *net) {
    for (int64_t i = 0; net->reqs && i < net->slots; i++) {
        free(net->reqs[i].bits);
        free(net->reqs[i].cuts);
        free(net->reqs[i].data);
        free(net->reqs[i].gates);
    }
    for (int64_t i = 0; net->queues && i < net->nqueues; i++) free_queue(&net->queues[i]);
    for (int64_t i = 0; net->cqs && i < net->ncqs; i++) free(net->cqs[i].entries);
    for (int64_t i = 0; net->takers && i < net->ntakers; i++) free(net->takers[i].posted.items);
    free(net->log);
    if (net->landings) free(net->landings->list);
    free(net->landings);
    free(net->reqs);
    free(net->spaces);
    free(net->queues);
    free(net->cqs);
    free(net->takers);
    free(net->pes);
    free(net);
}

/* `n` items of a buffer in memory of its own; NULL with *failed set where there is none. */
static void *twin(const void *memory, uint64_t n, uint64_t size, int *failed) {
    if (!memory) return NULL;
    void *made = malloc((n ? n : 1) * size);
    if (!made) *failed = 1;
    else memcpy(made, memory, n * size);
    return made;
}

static void twin_fifo(sm_fifo *f, int *failed) { f->items = twin(f->items, (uint64_t)f->room, sizeof(sm_item), failed); }

static void twin_slot(sm_req *r, int *failed) {
    r->bits = twin(r->bits, r->bits_room, sizeof *r->bits, failed);
    r->cuts = twin(r->cuts, r->cuts_room, sizeof *r->cuts, failed);
    r->data = twin(r->data, r->data_room, 1, failed);
    r->gates = twin(r->gates, (uint64_t)r->gates_room, sizeof *r->gates, failed);
}

sm_net *sm_net_copy(const sm_net *net) {
    int failed = 0;
    sm_net *made = twin(net, 1, sizeof *net, &failed);
    if (!made) return NULL;
    made->reqs = twin(net->reqs, (uint64_t)net->slots, sizeof *net->reqs, &failed);
    made->spaces = twin(net->spaces, (uint64_t)net->nspaces, sizeof *net->spaces, &failed);
    made->queues = twin(net->queues, (uint64_t)net->nqueues, sizeof *net->queues, &failed);
    made->cqs = twin(net->cqs, (uint64_t)net->ncqs, sizeof *net->cqs, &failed);
    made->takers = twin(net->takers, (uint64_t)net->ntakers, sizeof *net->takers, &failed);
    made->pes = twin(net->pes, (uint64_t)net->npes, sizeof *net->pes, &failed);
    for (int64_t i = 0; made->reqs && i < made->slots; i++) twin_slot(&made->reqs[i], &failed);
    for (int64_t i = 0; made->queues && i < made->nqueues; i++) {
        twin_fifo(&made->queues[i].waiting, &failed);
        twin_fifo(&made->queues[i].held, &failed);
        twin_fifo(&made->queues[i].silent, &failed);
        twin_fifo(&made->queues[i].bells, &failed);
    }
    for (int64_t i = 0; made->cqs && i < made->ncqs; i++)
        made->cqs[i].entries = twin(made->cqs[i].entries, (uint64_t)made->cqs[i].room, sizeof(sm_cqe), &failed);
    for (int64_t i = 0; made->takers && i < made->ntakers; i++) twin_fifo(&made->takers[i].posted, &failed);
    if (!failed) return made;
    sm_net_close(made);
    return NULL;
}

int64_t sm_net_space(sm_net *net, void *base, uint64_t bytes) {
    sm_space *made = realloc(net->spaces, (size_t)(net->nspaces + 1) * sizeof *made);
    if (!made) return SM_NET_NO_MEMORY;
    net->spaces = made;
    made[net->nspaces] = (sm_space){.base = base, .bytes = bytes};
    return net->nspaces++;
}

void sm_net_move(sm_net *net, int64_t space, void *base) { net->spaces[space].base = base; }

void sm_net_wakes(sm_net *net, int64_t space, sm_pe *p, int pe) {
    net->spaces[space].waker = p;
    net->spaces[space].pe = pe;
}

int64_t sm_net_next(const sm_net *net, int64_t slot, sm_request_view *out) {
    int32_t at = slot < 0 ? net->first : net->reqs[slot].next;
    if (at < 0) return -1;
    const sm_req *r = &net->reqs[at];
    *out = (sm_request_view){
        .number = r->w.number, .receive = r->receive, .pe = r->w.pe, .target = r->w.target, .at = r->w.at, .units = r->units, .ndata = r->ndata,
        .placed = sm_net_placed(r), .landed = sm_net_landed(r), .again = sm_net_again(r), .data = r->data,
        .gates = r->gates, .ngates = r->ngates, .bad = r->w.bad, .read = r->read, .rung = r->rung, .admitted = r->admitted,
        .accepted = r->accepted, .denied = r->denied, .fetched = r->fetched, .worded = r->worded, .told = r->told,
        .retired = r->retired, .fenced = r->fenced, .spread = r->spread, .ascending = r->ascending, .split = r->split,
        .repeats = r->repeats, .queue = r->w.queue, .wr_id = r->w.wr_id,
    };
    return at;
}
