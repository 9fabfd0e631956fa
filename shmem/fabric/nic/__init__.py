"""The `nic` fabric: processes of one host whose transfers are requests of an emulated adapter, under a delivery profile
and a seed."""

from __future__ import annotations

from .fabric import Delivery as Delivery
from .fabric import NicFabric as NicFabric
