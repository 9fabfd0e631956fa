"""What fence and quiet of the default context reach of queue pairs, and which of them tells of a failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmem
from shmem import nic
from shmem.check import explore
from shmem.delivery.profiles import varied
from shmem.errors import CompletionError

from .nic_pair import WORDS, Ends, of_pe_0

ORDERS = {  # profile: the fence reaches, and nothing else orders the two
    "udma": True, "rc_strict": True, "udma_engine_scoped": False,
}  # fmt: skip


def two_ways(first: str, second: str, order: str) -> Any:
    """Data by one way, what orders, a flag by another; PE 1 waits for the flag."""
    ends = Ends(words=2)
    other = nic.QueuePair(ends.there, ends.cq, index=1)
    if ends.me == 1:
        shmem.wait_until(ends.array[1:], "==", 1)
        return int(ends.array[0])
    ways = {
        "qp": lambda at: ends.qp.post(ends.write(1, at=at)),
        "unrung": lambda at: ends.qp.post(ends.write(1, at=at, doorbell=False)),
        "other": lambda at: other.post(ends.write(1, at=at)),
        "put": lambda at: shmem.put_nbi(ends.array[at : at + 1], np.ones(1, np.uint64), 1),
    }
    ways[first](0)
    if order == "fence":
        shmem.fence()
    elif order == "other context":
        context = shmem.ctx_create()
        shmem.fence(context)
        context.destroy()
    ways[second](1)
    if first == "unrung":
        ends.qp.doorbell()
    return None


def seen(profile: str, *args: str) -> set[Any]:
    report = explore(two_ways, 2, varied(profile, unit=8), args=args)
    assert (report.ok, report.complete) == (True, True)
    return {end[1] for end in report.outcomes}


@pytest.mark.parametrize("profile", ORDERS)
@pytest.mark.parametrize(("first", "second"), [("qp", "other"), ("put", "qp"), ("qp", "put")])
def test_fence_orders_whatever_way_it_goes(profile: str, first: str, second: str) -> None:
    assert seen(profile, first, second, "nothing") == {0, 1}
    assert seen(profile, first, second, "fence") == ({1} if ORDERS[profile] else {0, 1})


@pytest.mark.parametrize("args", [("unrung", "other", "fence"), ("qp", "other", "other context")])
def test_but_not_what_nobody_rang_for_nor_by_another_context(args: tuple[str, str, str]) -> None:
    assert seen("udma", *args) == {0, 1}


# ---- failures are told once ----


def raised(quiet: Any) -> Any:
    """The request that a quiet raises for."""
    try:
        quiet()
    except CompletionError as error:
        return error.wr_id
    return None


@pytest.mark.parametrize("order", ["shmem first", "pair first"])
def test_a_failure_is_told_by_one_quiet_only(order: str) -> None:
    """Whatever is flushed behind it was told with it; what is flushed later is told by the next one."""

    def body(ends: Ends) -> Any:
        quiets = [shmem.quiet, ends.qp.quiet]
        first, then = quiets if order == "shmem first" else reversed(quiets)
        ends.qp.post(ends.write(1, at=WORDS))
        ends.qp.post(ends.write(2, signaled=False))
        told = [raised(first), raised(then), raised(first)]
        ends.qp.post(ends.write(3))
        return [*told, raised(then), raised(first)], ends.qp.error and ends.qp.error.wr_id

    told, error = of_pe_0(body)
    assert told == [0, None, None, 2, None]
    assert error == 0


def test_completions_are_there_after_a_quiet_that_raised() -> None:
    def body(ends: Ends) -> Any:
        ends.qp.post(ends.write(1, at=WORDS))
        return raised(shmem.quiet), [(each.status, each.wr_id) for each in ends.cq.poll()], raised(ends.qp.quiet)

    assert of_pe_0(body) == (0, [("rem_access", 0)], None)
