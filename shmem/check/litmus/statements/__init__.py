"""What the statements of the language do: for each verb a method that gives the steps of one statement."""

from __future__ import annotations

from ....delivery.profiles import Profile
from ..model import Layout, Step
from ..syntax import Test
from .queue_pairs import QueuePairs

__all__ = ["compiled"]


def compiled(test: Test, profile: Profile, layout: Layout, pe: int) -> list[Step]:
    """The steps of a PE's program. Raises Impossible for what the profile has no way to do."""
    given = test.programs.get(pe, ())
    return [step for each in given for step in QueuePairs(test, profile, layout, pe, each).steps()]
