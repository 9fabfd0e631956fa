"""Programs that touch arrays, and what runs them on a tracked array and on its plain twin."""

import pytest

pytest.register_assert_rewrite("tests.tracked.twins")
