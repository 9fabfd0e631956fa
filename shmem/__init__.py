"""OpenSHMEM for Python, emulated: symmetric heaps, one-sided communication, signals and barriers of PEs that are
processes of one machine.

The module is the namespace: `import shmem`, then `shmem.put(target, source, pe)`. Names and argument order follow
shmem4py where it has the routine. See README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import enums as _enums
from . import errors as _errors
from . import interop as interop
from .amo import (
    atomic_add,
    atomic_and,
    atomic_compare_swap,
    atomic_fetch,
    atomic_fetch_add,
    atomic_fetch_and,
    atomic_fetch_inc,
    atomic_fetch_op,
    atomic_fetch_or,
    atomic_fetch_xor,
    atomic_inc,
    atomic_op,
    atomic_or,
    atomic_set,
    atomic_swap,
    atomic_xor,
)
from .amo_nbi import (
    atomic_compare_swap_nbi,
    atomic_fetch_add_nbi,
    atomic_fetch_and_nbi,
    atomic_fetch_inc_nbi,
    atomic_fetch_nbi,
    atomic_fetch_op_nbi,
    atomic_fetch_or_nbi,
    atomic_fetch_xor_nbi,
    atomic_swap_nbi,
)
from .arrays import addr_accessible, array, del_array, empty, fromalloc, full, heap_stats, new_array, ones, ptr, zeros
from .barriers import barrier, barrier_all, sync, sync_all, team_sync
from .batch import Batch
from .collectives import (
    alltoall,
    alltoalls,
    and_reduce,
    broadcast,
    collect,
    fcollect,
    max_reduce,
    min_reduce,
    or_reduce,
    prod_reduce,
    reduce,
    sum_exscan,
    sum_inscan,
    sum_reduce,
    xor_reduce,
)
from .contexts import (
    CTX_DEFAULT,
    CTX_INVALID,
    Ctx,
    Session,
    ctx_create,
    ctx_destroy,
    ctx_get_team,
    ctx_session_start,
    ctx_session_stop,
    team_create_ctx,
)
from .enums import *  # noqa: F403
from .errors import *  # noqa: F403
from .failure import install as _install
from .heap import HeapStats
from .in_process import run
from .layout import BLOCK512, EAGER_TILE, EAGER_TILE_FIXED, LL, LL16, LL64, LL128, LLA2A, Layout, Order, Reader
from .lines import poll_lines, put_lines, test_lines
from .locks import Lock, clear_lock, del_lock, new_lock, set_lock, test_lock
from .many import put_many
from .memory import align, alloc, calloc, free, malloc, malloc_with_hints, realloc
from .mpi_start import launched as _launched
from .ordering import fence, flush_local, pe_quiet, quiet
from .rc import rc
from .rma import g, get, get_nbi, p, put, put_nbi
from .runtime import (
    finalize,
    global_exit,
    info_get_name,
    info_get_version,
    init,
    init_thread,
    initialized,
    my_pe,
    n_pes,
    pcontrol,
    pe_accessible,
    query_initialized,
    query_thread,
)
from .signals import (
    del_signal,
    new_signal,
    put_signal,
    put_signal_nbi,
    signal_add,
    signal_fetch,
    signal_set,
    signal_wait_until,
)
from .splits import team_destroy, team_from_pes, team_split_2d, team_split_strided
from .streams import Event, Stream
from .strided import ibget, ibput, iget, iput
from .teams import (
    TEAM_INVALID,
    TEAM_SHARED,
    TEAM_WORLD,
    Team,
    team_get_config,
    team_my_pe,
    team_n_pes,
    team_ptr,
    team_translate_pe,
)
from .virtual import compute, virtual_time
from .waiting import spin, test, wait_until
from .waitsets import (
    test_all,
    test_all_vector,
    test_any,
    test_any_vector,
    test_some,
    test_some_vector,
    wait_until_all,
    wait_until_all_vector,
    wait_until_any,
    wait_until_any_vector,
    wait_until_some,
    wait_until_some_vector,
)
from .workers import worker_barrier, workers

if _TYPE_CHECKING:
    from . import check as check

__version__ = "0.1.0"

__all__ = [
    "BLOCK512", "Batch", "CTX_DEFAULT", "CTX_INVALID", "Ctx", "EAGER_TILE", "EAGER_TILE_FIXED", "Event",
    "HeapStats", "LL", "LL128", "LL16", "LL64", "LLA2A", "Layout", "Lock", "Order", "Reader", "Session", "Stream",
    "TEAM_INVALID", "TEAM_SHARED", "TEAM_WORLD", "Team", "addr_accessible", "align", "alloc", "alltoall",
    "alltoalls", "and_reduce", "array", "atomic_add", "atomic_and", "atomic_compare_swap",
    "atomic_compare_swap_nbi", "atomic_fetch", "atomic_fetch_add", "atomic_fetch_add_nbi", "atomic_fetch_and",
    "atomic_fetch_and_nbi", "atomic_fetch_inc", "atomic_fetch_inc_nbi", "atomic_fetch_nbi", "atomic_fetch_op",
    "atomic_fetch_op_nbi", "atomic_fetch_or", "atomic_fetch_or_nbi", "atomic_fetch_xor", "atomic_fetch_xor_nbi",
    "atomic_inc", "atomic_op", "atomic_or", "atomic_set", "atomic_swap", "atomic_swap_nbi", "atomic_xor", "barrier",
    "barrier_all", "broadcast", "calloc", "clear_lock", "collect", "compute", "ctx_create", "ctx_destroy",
    "ctx_get_team", "ctx_session_start", "ctx_session_stop", "del_array", "del_lock", "del_signal", "empty", "fcollect",
    "fence", "finalize", "flush_local", "free", "fromalloc", "full", "g", "get", "get_nbi", "global_exit", "heap_stats",
    "ibget", "ibput", "iget", "info_get_name", "info_get_version", "init", "init_thread", "initialized", "iput",
    "malloc", "malloc_with_hints", "max_reduce", "min_reduce", "my_pe", "n_pes", "new_array", "new_lock", "new_signal",
    "ones", "or_reduce", "p", "pcontrol", "pe_accessible", "pe_quiet", "poll_lines", "prod_reduce", "ptr", "put",
    "put_lines", "put_many", "put_nbi", "put_signal", "put_signal_nbi", "query_initialized", "query_thread", "quiet",
    "rc", "realloc", "reduce", "run", "set_lock", "signal_add", "signal_fetch", "signal_set", "signal_wait_until",
    "spin", "sum_exscan", "sum_inscan", "sum_reduce", "sync", "sync_all", "team_create_ctx", "team_destroy",
    "team_from_pes", "team_get_config", "team_my_pe", "team_n_pes", "team_ptr", "team_split_2d", "team_split_strided",
    "team_sync", "team_translate_pe", "test", "test_all", "test_all_vector", "test_any", "test_any_vector",
    "test_lines", "test_lock", "test_some", "test_some_vector", "virtual_time", "wait_until", "wait_until_all",
    "wait_until_all_vector", "wait_until_any", "wait_until_any_vector", "wait_until_some", "wait_until_some_vector",
    "worker_barrier", "workers", "xor_reduce", "zeros",
    *_enums.__all__, *_errors.__all__,
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """`shmem.check` is there without an import of its own, once it is asked for."""
    if name != "check":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"{__name__}.check")


if _launched():
    _install()  # a rank that fails before init must not leave its peers waiting for it
