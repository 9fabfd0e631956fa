"""Collective routines on teams (OpenSHMEM 1.6, 9.10): broadcast, collect, all to all, reductions, scans.

Each is a plan of operation records (`plans`, `script`) that any fabric runs. What a PE contributes is shown in its
scratch memory behind the heap, so that a call needs one barrier; large contiguous arrays are read where they are,
between two.
"""

from .collect import collect
from .moves import alltoall, alltoalls, broadcast, fcollect
from .reductions import and_reduce, max_reduce, min_reduce, or_reduce, prod_reduce, reduce, sum_reduce, xor_reduce
from .scans import sum_exscan, sum_inscan

__all__ = [
    "alltoall", "alltoalls", "and_reduce", "broadcast", "collect", "fcollect", "max_reduce", "min_reduce", "or_reduce",
    "prod_reduce", "reduce", "sum_exscan", "sum_inscan", "sum_reduce", "xor_reduce",
]  # fmt: skip
