"""Which call of a PE writes what: the names that ghost tags have (`delivery.tags`), and the message they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...delivery.requests import Request
from ...delivery.tags import Call
from ...memory import caller

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
        task = self._task
        if self._job.clock is not None:  # nobody judges messages there, and no story is told
            return
        if task.call is None:
            task.call = self._job.tags.call(self._me, what, caller(), task.tag)
        request.call = task.call
        task.call.places += [place for place in (request.at, request.word, request.result) if place is not None]
        self._job.lines[request.key] = task.call.where

    def store(self, what: str) -> Call:
        """What a plain store is part of."""
        task = self._task
        if task.tag is None or what != "store":
            return self._job.tags.stores(self._me)
        return self._job.tags.call(self._me, what, caller(), task.tag)
