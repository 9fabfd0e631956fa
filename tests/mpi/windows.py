"""Exceptions at every place at which CPython may run a signal handler: what a handler raises, without the chance.

Those places are the entries of functions, the returns of C functions and the ends of loops. `interrupted` raises at the
k-th one that a call comes to in the code of `shmem`, so a test that counts k up has seen all of them.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import shmem

PACKAGE = str(Path(shmem.__file__).parent)
ENTRY = "RESUME"
_code: dict[CodeType, bytes] = {}


class Interrupt(BaseException):
    """Raised at the place asked for."""


class _Tracer:
    def __init__(self, k: int) -> None:
        self.left = k
        self.last: dict[FrameType, str] = {}  # the instruction that a frame has run

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        frame.f_trace_opcodes = name.startswith(PACKAGE) and name.endswith(".py")  # not what records calls in the tests
        frame.f_trace_lines = False
        self.last[frame] = ENTRY
        return self.step

    def step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "return" and frame.f_back is not None:
            self.last.pop(frame, None)
            self.last.pop(frame.f_back, None)  # no handler runs on the return of a Python function
        if event == "opcode":
            now = dis.opname[_code.setdefault(frame.f_code, frame.f_code.co_code)[frame.f_lasti]]
            if now in (ENTRY, "MAKE_CELL", "COPY_FREE_VARS"):
                return self.step
            before = self.last.pop(frame, "")
            self.last[frame] = now
            if before.startswith(("CALL", ENTRY, "JUMP_BACKWARD")):
                self.left -= 1
                if self.left == 0:
                    raise Interrupt
        return self.step


def interrupted(k: int, call: Callable[[], object]) -> bool:
    """Calls, and raises Interrupt at the k-th place (from 1 on); False if the call has fewer. Its own errors are
    raised."""
    tracer, before = _Tracer(k), sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    except Interrupt:
        pass
    finally:
        sys.settrace(before)
    return tracer.left <= 0
