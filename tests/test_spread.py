"""How the suite is shared out between pytest's workers."""

from __future__ import annotations

import pytest

from tests.launcher.spread import SINGLE, ranked, unit

CELLS = ["direct-1", "direct-2", "direct-16"]
FAULT = f"{SINGLE[0]}::test_fault[init-2]"


@pytest.mark.parametrize(
    ("nodeid", "wanted"),
    [
        ("tests/mpi/test_a.py::test_b[direct-1]", "direct-1"),
        ("tests/mpi/test_a.py::test_b[direct-16]", "direct-16"),
        ("tests/mpi/test_a.py::TestA::test_b[direct-1-6]", "direct-1"),
        ("tests/mpi/test_a.py::test_b[direct-2-int64-a::b[c]]", "direct-2"),
        ("tests/test_a.py::test_b", "tests/test_a.py"),
        ("tests/test_a.py::test_b[9-direct-1]", "tests/test_a.py"),
        (FAULT, FAULT),
    ],
)
def test_a_cell_is_one_unit_and_so_is_a_file_but_for_those_of_many_jobs(nodeid: str, wanted: str) -> None:
    assert unit(nodeid, CELLS) == wanted


def test_jobs_that_wait_run_beside_the_largest_units_and_the_smallest_come_last() -> None:
    sizes = {"tests/test_b.py": 2, "direct-1": 5, FAULT: 1, "tests/test_a.py": 7, "direct-2": 9, f"{SINGLE[1]}::x": 1}
    units = [name for name, size in sizes.items() for _ in range(size)]
    wanted = ["direct-2", "tests/test_a.py", FAULT, f"{SINGLE[1]}::x", "direct-1", "tests/test_b.py"]
    assert sorted(ranked(units), key=ranked(units).__getitem__) == wanted
