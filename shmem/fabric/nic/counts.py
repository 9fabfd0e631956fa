"""What the adapters of a job have done, kept where its launcher finds it, however their PEs ended.

A launcher that wants to know makes an empty file for each PE beside the status file (`ask`) before the job begins. An
adapter maps its own (`counted`) and counts in there; after the end the launcher reads them (`told`). Imports no NumPy.
"""

from __future__ import annotations

import os
import struct
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fabric import NicFabric

_LAYOUT = struct.Struct("=6Qq")  # sm_nic_counts


@dataclass(frozen=True)
class Counts:
    """Of one PE. opened: adapters so far; posted: requests; fired: events, helped: of them by the adapter's thread;
    drawn: a digest of the events in their order; passed: requests that had an event before one posted earlier was over.
    """

    opened: int = 0
    posted: int = 0
    fired: int = 0
    helped: int = 0
    drawn: int = 0
    passed: int = 0
    in_flight: int = 0


def _file(folder: Path, pe: int) -> Path:
    return folder / f"counts.{pe}"


def ask(folder: Path, n: int) -> None:
    """Says in the folder of a job's status file that its n adapters are to count there."""
    for pe in range(n):
        _file(folder, pe).write_bytes(_LAYOUT.pack(*astuple(Counts())))


def counted(fabric: NicFabric, status_file: str | None) -> Any:
    """The memory in which the adapter of a PE counts, while its process lives; NULL where no launcher asked."""
    if not status_file:
        return fabric.ffi.NULL
    return fabric.lib.sm_nic_counts_at(os.fsencode(_file(Path(status_file).parent, fabric.me)))


def told(folder: Path, n: int) -> dict[int, Counts]:
    """What the adapters of a job that has ended counted, by PE: of those that there were."""
    found = {}
    for pe in range(n):
        if os.path.exists(path := _file(folder, pe)):
            counts = Counts(*_LAYOUT.unpack(path.read_bytes()))
            if counts.opened:
                found[pe] = counts
    return found
