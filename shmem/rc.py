"""`shmem.rc`: the run-time configuration of shmem4py, accepted for its programs.

shmem starts lazily and always provides THREAD_MULTIPLE, and exit finalizes; so none of these settings changes anything
but the check that they are spelled right.
"""

from __future__ import annotations

import os
from typing import Any

_FIELDS: dict[str, Any] = {"initialize": True, "threads": False, "thread_level": "multiple", "finalize": None}
_FLAGS = {"1": True, "yes": True, "on": True, "true": True, "0": False, "no": False, "off": False, "false": False}


class Rc:
    """Settings `initialize`, `threads`, `thread_level`, `finalize`; also `rc(initialize=False, ...)`. shmem4py.

    Defaults from SHMEM4PY_RC_INITIALIZE and so on. Another name raises TypeError.
    """

    initialize: bool
    threads: bool
    thread_level: str
    finalize: bool | None

    def __init__(self) -> None:
        for name, default in _FIELDS.items():
            text = os.environ.get(f"SHMEM4PY_RC_{name.upper()}", "").lower()
            setattr(self, name, _FLAGS.get(text, text) if text else default)

    def __call__(self, **settings: Any) -> None:
        """Sets several at once."""
        for name in settings:
            self._check(name)
        for name, value in settings.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        self._check(name)
        super().__setattr__(name, value)

    @staticmethod
    def _check(name: str) -> None:
        if name not in _FIELDS:
            raise TypeError(f"shmem.rc has no setting {name!r}: {', '.join(_FIELDS)}")

    def __repr__(self) -> str:
        return "<shmem.rc>"


rc = Rc()
