"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file under another name first, and gives it its own when all is in it. Raises OSError."""
    whole = Path(path)
    part = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, whole)
    finally:
        part.unlink(missing_ok=True)
