"""What a run that failed said of it."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^PE (\d+)[^:\n]*: ((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*)?)$", re.MULTILINE)


def failed(output: str, code: int) -> tuple[int | None, str]:
    """Which PE raised what: the last line of the first traceback; else None, and what the launcher said last."""
    start = output.find(_TRACEBACK)
    if start >= 0 and (found := _RAISED.search(output, start + len(_TRACEBACK))):
        return int(found[1]), found[2]
    said = [line for line in output.splitlines() if line.startswith("shmemu: ")]
    return None, said[-1].removeprefix("shmemu: ") if said else f"exit code {code}"
