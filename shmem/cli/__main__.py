"""`python -m shmem.cli`: the command where its script is not on PATH."""

from __future__ import annotations

import sys

from . import main

sys.exit(main())
