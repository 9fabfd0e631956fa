"""Whether bytes that a program takes for a message are that message, judged by who wrote them (`delivery.tags`).

Each byte is the message's, or it is lost: the message had come to it and something else lies over it, or a later
message of the same sender came first; or it is not there yet, whatever else is. With a lost byte the message is
clobbered, with none but missing ones it is stale, with some it is torn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ...delivery.facts import Touch
from ...delivery.requests import Place
from ...delivery.tags import Call, Written, told, written
from ...errors import AcceptError
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric

Is = Callable[[Call], bool]
HOW = {"torn": "is not whole", "stale": "is not there", "clobber": "was overwritten before it was read"}


def verdict(found: Iterable[Written], right: Is, later: Is) -> tuple[str, Written | None]:
    """The kind of failure, "" for none, and the bytes that tell it. right, later: whether a call is of the message that
    is expected, or of one that the same sender sent after it."""
    here = False
    missing: Written | None = None
    for part in found:
        mark = part.mark
        if mark.call is not None and right(mark.call):
            here = True
        elif (mark.call is not None and later(mark.call)) or any(right(call) for call in mark.calls()):
            return "clobber", part
        else:
            missing = missing or part
    if missing is None:
        return "", None
    return "torn" if here else "stale", missing


def failure(fabric: SimFabric, kind: str, what: str, wrong: Written) -> AcceptError:
    """What is raised for a verdict."""
    at, _, mark = wrong
    lies = "nothing was ever written" if mark.call is None else f"lies {mark.call}"
    taken = ", which was taken before" if kind == "stale" and mark.call is not None and mark.call.taken else ""
    return AcceptError(f"{what} {HOW[kind]}: at heap offset {at:#x} {lies}{taken}", kind=kind, pe=fabric.me)


def accept(fabric: SimFabric, places: Sequence[Place], sender: int, tag: int) -> None:
    """A step that looks at who wrote the bytes that a plain load of these places would give. Raises AcceptError unless
    all are of that message of that sender."""
    seen = [fabric.machine.plain(fabric.me, place) for place in places]
    touches = tuple(Touch(place, False, marks=True) for place in seen)

    def look() -> object:
        found = [part for place in seen for part in written(fabric.machine, fabric.me, place)]
        kind, wrong = verdict(
            found,
            lambda call: (call.pe, call.tag) == (sender, tag),
            lambda call: call.pe == sender and call.tag is not None and call.tag > tag,
        )
        if wrong is not None:
            raise failure(fabric, kind, f"message {tag} of PE {sender}", wrong)
        return told(found)

    if seen:
        fabric.do(Step("accept", look, touches=lambda: touches))
