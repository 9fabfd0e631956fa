"""All planted bugs: importing this registers them."""

from __future__ import annotations

from . import planted_requests as planted_requests
from . import planted_tags as planted_tags
from . import planted_together as planted_together
from . import planted_turns as planted_turns
from . import planted_unordered as planted_unordered
from .planted import PLANTED as PLANTED
from .planted import Planted as Planted
