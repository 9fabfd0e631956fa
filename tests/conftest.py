"""Every test directory shares the launcher of the resident jobs (`tests/launcher`)."""

from __future__ import annotations

import signal

pytest_plugins = ["tests.launcher.plugin"]

# A shell has what it runs in the background ignore interrupts, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
