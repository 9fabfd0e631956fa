"""Every test directory shares the launcher of the resident jobs (`tests/launcher`)."""

from __future__ import annotations

import os
import signal

pytest_plugins = ["tests.launcher.plugin"]

# Each of hundreds of jobs would start a thread of NumPy's linear algebra for every core, in each of its processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell has what it runs in the background ignore interrupts, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
