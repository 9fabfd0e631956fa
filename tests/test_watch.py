"""Who failed first, and whether a job can go on: from the files of ranks, without a job.

A rank that lives has this process's number, one that has ended that of a process that was waited for.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from shmem.rank import start_time
from shmem.watch import Watch, exit_code, processes


@pytest.fixture(scope="module")
def ended() -> str:
    process = subprocess.Popen(["true"])
    process.wait()
    return f"pid {process.pid} 1"


ALIVE = f"pid {os.getpid()} {start_time(os.getpid())}"


def watch(folder: Path, *ranks: list[str]) -> Watch:
    """What a launcher sees of ranks that wrote these lines; a line without a time gets 0."""
    for pe, lines in enumerate(ranks):
        timed = [line if "@" in line else line + "@0" for line in lines]
        (folder / f"rank.{pe}").write_text("".join(line.replace("@", " ") + "\n" for line in timed))
    found = Watch(len(ranks), folder)
    found.look()  # learns the numbers of the processes,
    found.look()  # sees which of them have ended
    return found


def failed(found: Watch) -> tuple[int | None, int]:
    first = found.first_failed()
    return first.pe if first else None, exit_code(first)


def test_a_job_that_runs_has_no_failure(tmp_path: Path, ended: str) -> None:
    found = watch(tmp_path, [ALIVE, "init"], [ended, "init", "exit 0"])
    assert failed(found)[0] is None
    assert found.hopeless(survive=False) is None


def test_the_first_by_the_clock_counts(tmp_path: Path, ended: str) -> None:
    found = watch(tmp_path, [ended, "exit 1@30"], [ended, "exit -9@20"], [ended, "exit 3@25"], [ended])
    assert failed(found) == (1, 137)
    assert "was killed by SIGKILL" in str(found.hopeless(survive=False))


def test_the_first_line_of_a_rank_counts(tmp_path: Path, ended: str) -> None:
    assert failed(watch(tmp_path, [ended, "exit 3@20", "exit -9@30"])) == (0, 3)


def test_ranks_that_were_told_to_end_are_not_to_blame(tmp_path: Path, ended: str) -> None:
    termed = f"exit -{int(signal.SIGTERM)}@10"
    assert failed(watch(tmp_path, [ended, termed], [ended, "exit 5@20"], [ended, termed])) == (1, 5)
    assert failed(watch(tmp_path, [ALIVE], [ended, termed], [ALIVE])) == (1, 143)  # by nobody else, then


def test_one_that_disappeared_is_to_blame_if_nobody_told(tmp_path: Path, ended: str) -> None:
    assert failed(watch(tmp_path, [ALIVE], [ended], [ALIVE])) == (1, 1)
    assert failed(watch(tmp_path, [ended], [ALIVE, "exit 300@20"])) == (1, 44)


def test_a_line_that_is_not_finished_is_read_later(tmp_path: Path) -> None:
    found = watch(tmp_path, [ALIVE])
    with (tmp_path / "rank.0").open("a") as file:
        file.write("exit")
        file.flush()
        found.look()
        file.write(" 7 20\n")
    assert failed(found)[0] is None
    found.look()
    assert failed(found) == (0, 7)


def test_survivors_go_on_unless_mpi_did_not_start(tmp_path: Path, ended: str) -> None:
    found = watch(tmp_path, [ALIVE, "init"], [ended, "init", "exit -9"])
    assert found.hopeless(survive=True) is None
    assert found.hopeless(survive=False)
    assert watch(tmp_path, [ALIVE], [ended, "exit -9"]).hopeless(survive=True)


def test_a_job_without_ranks_is_over(tmp_path: Path, ended: str) -> None:
    found = watch(tmp_path, [ended, "init", "exit 0"], [ended, "init", "exit 0"])
    assert "mpiexec has not" in str(found.hopeless(survive=True))
    (tmp_path / "rank.1").unlink()
    assert watch(tmp_path, [ended, "init", "exit 0"], []).hopeless(survive=True) is None


def test_processes_of_a_job_carry_its_status_file(tmp_path: Path) -> None:
    env = {**os.environ, "SHMEMU_STATUS_FILE": str(tmp_path / "status")}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=env) as process:
        assert list(processes(tmp_path / "status")) == [process.pid]
        assert list(processes(tmp_path / "stat")) == []
