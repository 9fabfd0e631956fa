"""How bytes travel: one interface (`interface.py`), one module a fabric. `shmem` submits records and knows no
fabric."""

from __future__ import annotations

from .interface import Caps, Fabric, Level, Status

__all__ = ["Caps", "Fabric", "Level", "Status"]
