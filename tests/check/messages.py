"""Messages with tags that several tests send, and in which ways programs like these can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shmem
from shmem.check.exploration import explore
from shmem.check.report import Report

ME, SENDER, OTHER = 0, 1, 2
Act = tuple[int, int | None, int, int]  # a PE writes words [first, end), as part of a message or not


def after(acts: tuple[Act, ...]) -> None:
    """One act after the other; then PE 0 takes two words for message 5 of PE 1."""
    box = shmem.zeros(2, np.uint64)
    for pe, number, first, end in acts:
        if shmem.my_pe() == pe:
            words = np.zeros(end - first, np.uint64)  # what was there already
            if number is not None:
                with shmem.check.tagged(number):
                    shmem.put(box[first:end], words, ME)
            elif pe == ME:
                box[first:end] = words
            else:
                shmem.put(box[first:end], words, ME)
        shmem.barrier_all()
    if shmem.my_pe() == ME:
        shmem.check.accept(box, (SENDER, 5))


def header_first(again: bool) -> None:
    """The first word is the length; then the whole message is read, with that word once more."""
    slot = shmem.zeros(16, np.uint8)
    if shmem.my_pe() == 0:
        shmem.put_lines(slot, np.array([1, 7], np.uint32), 1, shmem.LL, 3)
    else:
        n = int(shmem.poll_lines(slot, shmem.LL, 3, 1, np.uint32)[0])
        assert shmem.poll_lines(slot, shmem.LL, 3, 1 + n, np.uint32)[1] == 7
        if again:
            shmem.poll_lines(slot, shmem.LL, 3, 2, np.uint32)


def kinds(program: Callable[..., Any], *args: Any, pes: int = 2, profile: Any = "tso", **options: Any) -> list[str]:
    """How the program can fail."""
    report: Report = explore(program, pes, profile, args=args, keep_going=True, **options)
    assert report.complete, report
    return sorted({failure.kind for failure in report.failures})
