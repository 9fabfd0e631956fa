"""Every test directory shares the launcher of the resident jobs (`tests/launcher`)."""

from __future__ import annotations

pytest_plugins = ["tests.launcher.plugin"]
