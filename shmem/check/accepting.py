"""What a program says of its messages: which one it sends, and which one it takes bytes for.

On `sim` that is compared with who wrote the bytes; elsewhere these do nothing. Where a protocol is written once for all
fabrics, they stay in it.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..errors import ArgumentError, NotSymmetric
from ..runtime import current
from ..views import Array, check_array

if TYPE_CHECKING:
    from ..fabric.sim.fabric import SimFabric
    from ..runtime import PE


class Tag(NamedTuple):
    """A message: its sender, and its number there, which grows from message to message."""

    pe: int
    number: int


class tagged:  # noqa: N801
    """`with tagged(number):` what this PE writes inside, by put or any other call or by storing, is its message of that
    number: a step, an epoch, a round.

    number: an integer, larger than that of every message before. It holds for this PE or worker, for the workers that
    it starts inside and the batches that it launches. On other fabrics than `sim` it does nothing. Raises
    ArgumentError.
    """

    __slots__ = ("_before", "_number")

    def __init__(self, number: int) -> None:
        self._number = number
        self._before: int | None = None

    def __enter__(self) -> None:
        here = current()
        if here.fabric.caps.tags:
            fabric = cast("SimFabric", here.fabric)
            self._before = fabric.calls.tag
            fabric.calls.tag = _whole(self._number, "the number of a message", here)

    def __exit__(self, *error: object) -> None:
        here = current()
        if here.fabric.caps.tags:
            cast("SimFabric", here.fabric).calls.tag = self._before


def accept(view: Array, expected_tag: Tag | tuple[int, int]) -> None:
    """Says that the program takes the bytes of a symmetric view, as they are now, for a message: (sender, number).

    view: any view of a symmetric array, of another PE's as well (`ptr`). expected_tag: what the sender's `tagged` said.
    Call it where the bytes are read, before the sender is let go on. On `sim` it raises AcceptError, with the kind
    "torn", "stale" or "clobber", unless every byte is of that message, and else NotSymmetric, InvalidPE, ArgumentError;
    equal bytes do not help. It acquires nothing. On other fabrics it does nothing, and looks at no argument.
    """
    here = current()
    if not here.fabric.caps.tags:
        return
    from ..fabric.sim import verdicts

    try:
        sender, number = expected_tag
    except (TypeError, ValueError):
        raise ArgumentError(f"a message is (PE, number), not {expected_tag!r}", pe=here.me) from None
    there, wanted = here.check_pe(sender), _whole(number, "the number of a message", here)
    verdicts.accept(cast("SimFabric", here.fabric), _places(here, view), there, wanted)


def _whole(number: Any, name: str, here: PE) -> int:
    try:
        return index(number)
    except TypeError:
        raise ArgumentError(f"{name} is an integer, not {number!r}", pe=here.me) from None


def _places(here: PE, view: Array) -> list[Any]:
    """Where the bytes of a view are. Raises NotSymmetric."""
    from ..tracked.places import memory_order, ranges_of

    array = check_array(view, "view", here.me)
    plain = getattr(array, "_plain", array)
    heap = cast("SimFabric", here.fabric).heap
    found = [heap.find(at, nbytes) for at, nbytes in ranges_of(memory_order(plain).ascending(plain))]
    if None in found:
        raise NotSymmetric("view is not symmetric: a private copy has nothing beside its bytes", pe=here.me)
    return found
