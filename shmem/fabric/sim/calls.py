"""Which call of a PE writes what: the names that ghost tags have (`delivery.tags`), and the message they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...delivery.requests import Request
from ...delivery.tags import Call, Message
from ...memory import caller
from .inbox import note

if TYPE_CHECKING:
    from .tasks import Job, Task


class Calls:
    """The calls of one PE."""

    def __init__(self, job: Job, me: int) -> None:
        self._job, self._me = job, me

    @property
    def _task(self) -> Task:
        task = self._job.running
        assert task is not None
        return task

    @property
    def tag(self) -> int | None:
        """The message of this PE that what the running task writes is part of (`shmem.check.tagged`)."""
        return self._task.tag

    @tag.setter
    def tag(self, tag: int | None) -> None:
        self._task.tag = tag

    def begin(self) -> None:
        """What the running task posts from here on is another call."""
        self._task.call = None

    def sign(self, request: Request, what: str) -> None:
        """A request is part of the call that the running task is in."""
        task, tags = self._task, self._job.tags
        if tags is None:
            return
        call = task.call
        if call is None:
            call = task.call = tags.call(self._me, what, caller(), task.tag)
        request.call = call
        call.places += [place for place in (request.at, request.word, request.result) if place is not None]
        self._job.lines[request.key] = call.where

    def lines(self, message: Message, pe: int) -> None:
        """The call that the running task is in puts lines to a PE."""
        if (call := self._task.call) is not None:
            note(self._job.sent, pe, call, message)

    def store(self, what: str) -> Call | None:
        """What a plain store is part of."""
        task, tags = self._task, self._job.tags
        if tags is None:
            return None
        if task.tag is None or what != "store":
            return tags.stores(self._me)
        return tags.call(self._me, what, caller(), task.tag)
