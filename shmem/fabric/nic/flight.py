"""What is in flight at an adapter, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fabric import NicFabric

MOST = 5  # requests that are named


def _views(fabric: NicFabric) -> Iterator[Any]:
    """The requests of an adapter that are not over, each until the next one is asked for."""
    view, slot = fabric.ffi.new("sm_request_view *"), -1
    fabric.lib.sm_nic_enter(fabric.adapter)
    try:
        net = fabric.lib.sm_nic_net(fabric.adapter)
        while (slot := fabric.lib.sm_net_next(net, slot, view)) >= 0:
            yield view
    finally:
        fabric.lib.sm_nic_leave(fabric.adapter)


def of_pair(fabric: NicFabric, queue: int) -> list[int]:
    """The requests of one queue that are not retired, by their wr_ids."""
    return [int(view.wr_id) for view in _views(fabric) if view.queue == queue and not view.retired]


def described(fabric: NicFabric) -> str:
    """The requests of an adapter that are not over."""
    found = [f"a request for {view.at.hi - view.at.lo} bytes of PE {view.target}" for view in _views(fabric)]
    more = [f"and {len(found) - MOST} more"] if len(found) > MOST else []
    return "; ".join(found[:MOST] + more) or "nothing"
