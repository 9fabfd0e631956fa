"""The barest peers: cffi functions (API mode) that store 8 bytes or wait for them, compiled when a benchmark runs.

They are what a Python program could do at best with a shared window and no library: no checks, no wake-up of sleepers.
`store_many` is the C loop over many such stores, each to an address of its own.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

NAME = "shmemu_bench_bare"
DECLARATIONS = """
void store(uint64_t address, uint64_t value);
void await_value(uint64_t address, uint64_t value);
void store_many(uint64_t addresses, uint64_t values, uint64_t n);
"""
SOURCE = """
#include <stdatomic.h>
#include <stdint.h>
static void store(uint64_t address, uint64_t value) {
    atomic_store_explicit((_Atomic uint64_t *)address, value, memory_order_release);
}
static void await_value(uint64_t address, uint64_t value) {
    while (atomic_load_explicit((_Atomic uint64_t *)address, memory_order_acquire) != value)
        ;
}
static void store_many(uint64_t addresses, uint64_t values, uint64_t n) {
    const uint64_t *to = (const uint64_t *)addresses, *what = (const uint64_t *)values;
    for (uint64_t i = 0; i < n; i++)
        store(to[i], what[i]);
}
"""


def build(folder: str) -> None:
    """Compiles the functions into a folder."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(DECLARATIONS)
    ffi.set_source(NAME, SOURCE, extra_compile_args=["-O3", "-std=c11"])
    ffi.compile(tmpdir=folder, verbose=False)


def load(folder: str) -> Any:
    """The functions that `build` compiled."""
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(NAME).lib
    finally:
        sys.path.remove(folder)
