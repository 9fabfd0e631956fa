"""Expert parallelism on symmetric memory: the dispatch and combine of DeepEP, on CPU, exact to the bit.

`EPBuffer` moves tokens to the ranks that own their experts and back; `EPHandle` keeps what a dispatch learnt,
and `EventOverlap` says when a call is done. `moe_ep.reference` is the single-process oracle of their results.
"""

from __future__ import annotations

from .buffer import EPBuffer
from .events import EventOverlap
from .handle import EPHandle
from .traffic import Traffic

__all__ = ["EPBuffer", "EPHandle", "EventOverlap", "Traffic"]
