"""Posted receives: what is sent takes the next one, and they go with their queue pair.

A failure that puts a queue pair into the state ERROR flushes its receives with the completion that tells of it, in the
order posted, and those that are posted later at once. Which receive is next is a place that a search knows of
(`places`): to post, to take, to find none, to flush and to drop touch it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from .completions import Completion, Receive, ReceiveQueue
from .queues import QueueState
from .requests import Key, Kind, Place, Request

if TYPE_CHECKING:
    from .machine import Machine

ALL = 1 << 62


def places(taker: Hashable, first: int = 0, end: int = ALL) -> Place:
    """The receives of a queue from one number to another."""
    return Place(("receives", taker), first, end)


def accept(machine: Machine, request: Request, unit: int) -> None:
    """A request takes the next receive at its target."""
    request.accepted = True
    if request.taker is not None:
        _take(machine, request, machine.takers[request.taker])
    elif request.target in machine.receives:
        machine.receives[request.target] -= 1


def _take(machine: Machine, request: Request, taker: ReceiveQueue) -> None:
    """Takes a posted buffer; what is sent goes there, if it fits."""
    receive, size = taker.take(), request.at.hi - request.at.lo
    request.receive = receive.number
    if request.kind is not Kind.SEND:
        return
    space, lo, hi = receive.place
    if size > hi - lo:
        machine.tell(taker.cq, Completion("loc_len", request.key, request.queue, size, receive=receive.number))
        machine.queue_pairs[request.queue].doom(request, "rem_inv_req", machine.flight)
    else:
        request.at = Place(space, lo, lo + size)
        request.cut(machine.profile.unit)


def give_up(machine: Machine, request: Request, unit: int) -> None:
    """There is none: the request fails, or goes on waiting."""
    queue = machine.queue_pairs[request.queue]
    if queue.patient:
        request.denied = True
    else:
        queue.doom(request, "rnr_retry", machine.flight)


def flushes(machine: Machine, queue: QueueState) -> ReceiveQueue | None:
    """The receives that would be flushed if a failure of this queue pair were told now."""
    return None if queue.failed or queue.on_error != "error" else machine.takers.get(queue.receives)


def flush(machine: Machine, pair: Hashable, key: Key) -> None:
    """A queue pair has failed, as the completion of a request tells."""
    taker = machine.takers.get(machine.queue_pairs[pair].receives)
    if taker is not None and taker.failed is None:
        taker.failed = pair, key
        for receive in taker.drop():
            _tell(machine, taker, receive)


def post(machine: Machine, taker: ReceiveQueue, receive: Receive) -> None:
    """Posts a buffer."""
    if taker.failed is None:
        taker.posted.append(receive)
    else:
        _tell(machine, taker, receive)


def _tell(machine: Machine, taker: ReceiveQueue, receive: Receive) -> None:
    assert taker.failed is not None
    pair, key = taker.failed
    machine.tell(taker.cq, Completion("flush", key, pair, 0, receive=receive.number))


def in_use(machine: Machine, taker: Hashable) -> bool:
    """Whether something has taken a receive that will be told of, and was not yet."""
    return any(
        each.taker == taker and each.accepted and not each.told and not each.bad
        and not machine.queue_pairs[each.queue].rests(each.key, False)
        for each in machine.flight.values()
    )  # fmt: skip
