"""Events of the expert-parallel layer: what a call returns to say when it is done.

Every call is synchronous so far: it returns when its results are there, with an EventOverlap that holds no
event. As upstream there is nothing to wait for then, and waiting all the same raises.
"""

from __future__ import annotations

from types import TracebackType

from shmem.errors import EventError


class EventOverlap:
    """The event of one dispatch or combine.

    Of a synchronous call `event` is None and every kind of wait raises EventError (an AssertionError);
    leaving a `with` block over it waits for nothing. `extra_tensors` stay alive as long as this object does.
    """

    def __init__(self, event: object = None, extra_tensors: tuple[object, ...] | None = None) -> None:
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self, release_handle: bool = False) -> object:
        """Waits for the event on the caller's current stream. Raises EventError: there is none."""
        raise EventError("this call was synchronous: its results are complete, and there is no event to wait for")

    def wait(self) -> object:
        """The same as `current_stream_wait()`."""
        return self.current_stream_wait()

    def __call__(self, release_handle: bool = False) -> object:
        return self.current_stream_wait(release_handle)

    def __enter__(self) -> EventOverlap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.event is not None:
            self.current_stream_wait()
