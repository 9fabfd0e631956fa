"""A thread of a program is none of its PEs: nobody could say when it runs, so what it does is never passed over."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import numpy as np
import pytest

import shmem
from shmem.check import explore

USES: dict[str, Callable[[np.ndarray], object]] = {
    "store": lambda word: word.__setitem__(0, 1),
    "load": lambda word: word.tolist(),
    "p": lambda word: shmem.p(word, 1, 0),
    "put_nbi": lambda word: shmem.put_nbi(word, np.ones(1, np.int64), 0),
    "barrier": lambda word: shmem.barrier_all(),
    "fence": lambda word: shmem.fence(),
    "quiet": lambda word: shmem.quiet(),
}


@pytest.mark.parametrize("profile", ["openshmem", "srd"])
@pytest.mark.parametrize("name", USES)
def test_what_a_thread_does_with_shmem_fails_its_pe(name: str, profile: str) -> None:
    def program() -> None:
        word = shmem.zeros(1, np.int64)

        def quietly() -> None:
            with contextlib.suppress(Exception):
                USES[name](word)

        thread = threading.Thread(target=quietly)
        thread.start()
        thread.join()

    report = explore(program, 1, profile)
    assert [failure.kind for failure in report.failures] == ["exception"]
    assert "a thread of the program used shmem" in report.failures[0].text


def test_a_thread_that_does_not_is_no_failure() -> None:
    def program() -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(3))
        thread.start()
        thread.join()
        return found[0]

    report = explore(program, 2)
    assert (report.ok, report.complete, dict(report.outcomes)) == (True, True, {(3, 3): 1})
