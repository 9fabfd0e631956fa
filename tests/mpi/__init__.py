"""Tests that run on several PEs: each in every cell (fabric, number of PEs) that has room for it."""

import pytest

pytest.register_assert_rewrite("tests.mpi.team_checks")
