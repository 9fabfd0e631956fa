"""Runs programs one after the other, each between an init and a finalize, so that each has streams of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import shmem


def main() -> None:
    for path in sys.argv[1:]:
        shmem.init(heap_size="1M")
        names = {"__name__": "program"}
        exec(compile(Path(path).read_text(), path, "exec"), names)
        names["program"]()
        shmem.finalize()


main()
