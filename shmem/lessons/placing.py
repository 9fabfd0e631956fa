"""Files of lessons in a folder of their own, where they are run: lines of the package itself are in no story."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..check.loading import load


@contextlib.contextmanager
def loaded(name: str, text: str) -> Iterator[tuple[Callable[..., Any], Path]]:
    """The function `main` of a file with that text, and the file, as long as it is needed.

    Raises ArgumentError if it can't be imported; then the message names the file as `name`.
    """
    before = list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(os.path.realpath(folder)) / name
        file.write_text(text, encoding="utf-8")
        try:
            with contextlib.chdir(folder) if hasattr(contextlib, "chdir") else _within(folder):
                function = load(f"{name}::main")
            yield function, file
        finally:
            sys.path[:] = before
            sys.modules.pop(f"shmemu_check_{file.stem}", None)


@contextlib.contextmanager
def _within(folder: str) -> Iterator[None]:
    """As `contextlib.chdir` of Python 3.11."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
