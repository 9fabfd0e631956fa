"""Options of DeepEP V2.5 that this version does not support, and rules among options, each refused by name.

An option is accepted at the value at which it changes nothing; any other value raises ArgumentError, rather
than being ignored.
"""

from __future__ import annotations

from typing import Any

import shmem
from shmem.errors import ArgumentError

from .handle import EPHandle


def refuse(**options: tuple[object, object]) -> None:
    """Raises ArgumentError for the first option (name = (value, default)) that is not at its default."""
    for name, (value, default) in options.items():
        if value != default:
            raise ArgumentError(f"{name}={value!r} is not supported by this version; leave it at {default!r}")


def check_streams(previous: object, asynchronous: bool, on_comm: bool, deferred: bool) -> None:
    """The rules for the four options of overlap, which are all off so far."""
    if deferred and not asynchronous:
        raise ArgumentError("defer_epilogue=True requires async_with_compute_stream=True")
    if previous is not None and not on_comm:
        raise ArgumentError("previous_event requires allocate_on_comm_stream=True")
    refuse(async_with_compute_stream=(asynchronous, False), allocate_on_comm_stream=(on_comm, False))


def check_cpu_sync(do_cpu_sync: bool | None, handle: EPHandle | None) -> None:
    """None means True without a handle and False with one; the opposites are refused."""
    if handle is not None and do_cpu_sync:
        raise ArgumentError("do_cpu_sync=True excludes a handle: a cached dispatch exchanges no counts")
    if handle is None:
        refuse(do_cpu_sync=(True if do_cpu_sync is None else do_cpu_sync, True))


def count_workers(num_sms: int, num_qps: int, num_allocated_qps: int) -> int:
    """`num_sms` rounded up to even. Worker and queue counts are checked; they change nothing here."""
    if num_sms < 0 or not 0 <= num_qps <= num_allocated_qps:
        raise ArgumentError(f"num_sms={num_sms} must be >= 0, num_qps={num_qps} in 0..{num_allocated_qps}")
    return num_sms + num_sms % 2


def check_group(group: Any, num_ranks: int, rank: int) -> None:
    """Raises ArgumentError unless `group` is all PEs in the order of their numbers."""
    if group is shmem.TEAM_WORLD:
        return
    if not (hasattr(group, "Get_size") and hasattr(group, "Get_rank")):
        raise ArgumentError(f"group is None, shmem.TEAM_WORLD or an mpi4py communicator, not {group!r}")
    if (group.Get_size(), group.Get_rank()) != (num_ranks, rank):
        raise ArgumentError(
            f"this PE is {group.Get_rank()} of {group.Get_size()} in the group and {rank} of {num_ranks} in "
            "the job: this version supports groups of all PEs in their order"
        )
