/* What an engine does, and when: for timelines. */
#include "net.h"

#include <stdlib.h>

int sm_net_log(sm_net *net, uint64_t most) {
    net->log = malloc(most * sizeof *net->log);
    net->log_room = most;
    return net->log ? 0 : SM_NET_NO_MEMORY;
}

void sm_net_mark(sm_net *net, const sm_req *r, int act, const sm_place *place) {
    if (net->n_log == net->log_room) {
        net->log_full = 1;
        return;
    }
    net->log[net->n_log++] = (sm_mark){
        .ns = sm_now_ns(), .number = r->w.number, .space = place->space, .lo = place->lo, .hi = place->hi,
        .wr_id = r->w.wr_id, .act = act, .target = r->w.target, .queue = r->w.queue, .kind = r->w.kind,
    };
}

const sm_mark *sm_net_logged(const sm_net *net, uint64_t *n, int *more) {
    *n = net->n_log;
    *more = net->log_full;
    return net->log;
}
