"""What SHMEMU_LOG asks for: the steps of a PE's life on stderr, one line each, through Python's `logging`.

The logger is `shmemu`; its lines begin with the PE. Only what is not hot says something here: start and end,
allocations, teams, contexts, streams. `logging` is imported where `info` or `debug` is asked for, and nowhere else: it
costs every PE 10 ms.
"""

from __future__ import annotations

from typing import Any

NAME = "shmemu"
SPOKEN = ("debug", "info")  # the levels at which something is said here

_logger: Any = None  # None: nobody wants to know


def begin(level: str) -> None:
    """Logs from `level` on, one of those of SHMEMU_LOG."""
    global _logger
    if level not in SPOKEN:
        _logger = None
    elif _logger is None:
        _logger = _made()
    if _logger is not None:
        _logger.setLevel(level.upper())


def debug(text: str, *values: object) -> None:
    """A step on the way: what was made or ended, with its numbers. `text % values` is the line."""
    if _logger is not None:
        _logger.debug(text, *values)


def info(text: str, *values: object) -> None:
    """A step that a user waits for: the start and the end."""
    if _logger is not None:
        _logger.info(text, *values)


def _made() -> Any:
    import logging
    import sys

    class Lines(logging.Handler):
        """Whole lines, each with the PE that runs here, in one write, to whatever sys.stderr is by then."""

        def emit(self, record: logging.LogRecord) -> None:
            if sys.stderr is not None:
                sys.stderr.write(f"{_who()}: {record.levelname.lower()}: {record.getMessage()}\n")
                sys.stderr.flush()

    logger = logging.getLogger(NAME)
    logger.propagate = False  # a program's own handlers would say all twice
    logger.addHandler(Lines())
    return logger


def _who() -> str:
    from . import failure, runtime

    here = runtime.started()
    return failure.rank_text() if here is None else f"PE {here.me}"
