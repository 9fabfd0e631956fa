"""The start of MPI where it can't go well: one sentence a job, or a PE, says what is wrong, and the job ends."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shmem import failure, launch
from tests.launcher.program import left_in_shm, run_job

KIND = launch.find().kind
OTHERS = {  # what the ranks of the other MPI's launcher see
    "mpich": {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "{pe}"},
    "openmpi": {"HYDI_CONTROL_FD": "7", "PMI_SIZE": "3", "PMI_RANK": "{pe}"},
}
NAMES = {"mpich": "MPICH", "openmpi": "Open MPI"}
START = "import shmem\nshmem.init()\nprint('started')"


def ranks(program: str, variables: dict[str, str]) -> tuple[list[int], str]:
    """Three processes of one parent, as a launcher would start them: their exit codes, and all that they print."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(launch.OF_A_RANK)}
    started = []
    for pe in range(3):
        own = {name: value.format(pe=pe) for name, value in variables.items()}
        process = subprocess.Popen(
            [sys.executable, "-c", program], env={**environment, **own}, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(process)
    texts = [process.communicate(timeout=60)[0] for process in started]
    return [process.returncode for process in started], "".join(texts)


def test_the_launcher_of_another_mpi_is_told_once() -> None:
    codes, text = ranks(START, OTHERS[KIND])
    assert codes == [1, 1, 1]
    (line,) = text.splitlines()
    other = NAMES["openmpi" if KIND == "mpich" else "mpich"]
    assert line[:4] in ("PE 0", "PE 1", "PE 2")
    assert line[4:].startswith(f": StateError: the mpiexec of {other} started this, but mpi4py loaded {NAMES[KIND]} ")
    assert f"use the mpiexec of {NAMES[KIND]}" in line


def test_who_finds_it_told_waits_until_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it ends the job, with the one that has the name and has printed nothing yet."""
    monkeypatch.setenv("SHMEMU_STATUS_FILE", f"of no job {os.getpid()}")
    assert not failure._told_already()
    name, order = failure._told.pop(), []
    with name:
        other = threading.Thread(target=lambda: order.append(failure._told_already()))
        other.start()
        name.settimeout(20)
        comer, _ = name.accept()
        order.append("said")
        comer.close()
        other.join()
    assert order == ["said", True]


def test_the_error_can_be_caught() -> None:
    caught = "import shmem\ntry: shmem.init()\nexcept shmem.StateError as error: print(len(str(error).split()) > 10)"
    codes, text = ranks(caught, OTHERS[KIND])
    assert (codes, text) == ([0, 0, 0], "True\n" * 3)


def test_a_launcher_without_a_library_is_told_once(tmp_path: Path) -> None:
    job = run_job(2, "mpiexec", tmp_path, "-c", START, MPI4PY_LIBMPI=str(tmp_path / "none.so"))
    assert job.code != 0
    told = [line for line in job.text.splitlines() if line.startswith("PE ")]
    assert len(told) == 1
    assert "StateError: a launcher of MPI started this, but no MPI library is found" in told[0]
    assert job.left == []


NEVER = """
import os, signal, sys
import shmem
if shmem.failure.rank_text() == "PE 1":
    signal.pause()
shmem.init()
"""


@pytest.mark.parametrize("launcher", ["run", "mpiexec"])
def test_a_pe_that_never_starts_is_waited_for_with_a_limit(tmp_path: Path, launcher: str) -> None:
    program = tmp_path / "never.py"
    program.write_text(NEVER)
    job = run_job(3, launcher, tmp_path, str(program), SHMEMU_TIMEOUT_S="1")
    assert job.code != 0
    assert job.left == []
    assert left_in_shm(job) == [] or KIND == "openmpi"
    told = [line for line in job.text.splitlines() if line.startswith("PE ")]
    awaited = (
        "waited 1 s for all 3 PEs of the job in the start of MPI; some have not come: each must start shmem, or MPI"
    )
    assert told, job.text
    assert set(told) <= {f"PE 0: {awaited}", f"PE 2: {awaited}"}
    assert "Thread 0x" not in job.text
    assert launcher == "run" or KIND == "openmpi" or job.text.splitlines() == told


WATCHED = """
import ctypes, sys
from shmem._native import _core
_core.lib.sm_watch(b"notice\\n", 1, b"end\\n", {end})
if "off" in sys.argv:
    _core.lib.sm_unwatch()
    _core.lib.sm_watch(b"again\\n", 10**18, b"never\\n", 2 * 10**18)
    _core.lib.sm_unwatch()
else:
    ctypes.PyDLL(None).pause()  # holds the GIL for ever
"""


def watched(end_ns: int, *words: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PMI_FD"}
    command = [sys.executable, "-c", WATCHED.format(end=end_ns), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_the_watchdog_ends_a_process_that_holds_the_interpreter() -> None:
    assert watched(1000000) == (1, "notice\nend\n")
    assert watched(1) == (1, "end\n")


def test_the_watchdog_is_called_off_and_called_again() -> None:
    code, text = watched(10**18, "off")
    assert code == 0
    assert text in ("notice\n", "")  # as may be: its time had come


def test_the_watchdog_aborts_the_job_when_its_words_were_read() -> None:
    """MPICH's launcher takes the abort from one pipe, words from another, and forwards none after it."""
    reader, writer = os.pipe()
    command = [sys.executable, "-c", WATCHED.format(end=1)]
    environment = {**os.environ, "PMI_FD": str(writer)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, pass_fds=[writer]) as process:
        os.close(writer)
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 60)[0]
        assert not select.select([reader], [], [], 0.2)[0]  # it waits a second, in a thousand naps
        assert process.stderr.read(4) == b"end\n"
        assert os.read(reader, 100) == b"cmd=abort exitcode=1\n"
    os.close(reader)
    assert process.returncode == 1
