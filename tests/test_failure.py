"""A PE that fails ends the job, soon and with a name, and leaves nothing; or, if asked, only itself.

Each way to fail, at each place where the others rely on the failing PE, at 2 and at 4 PEs, under `shmemu run` and under
plain mpiexec. Every pair of (place, way) runs once, launchers in turn, each way at 4 PEs in one place; with
SHMEMU_TEST_CELLS=full in all four ways. The time is measured from the fault, which the failing PE notes, to the end of
the last process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shmem import launch
from tests.launcher import processes
from tests.launcher.cells import FULL
from tests.launcher.program import Job, left_in_shm, run_job

PROGRAMS = Path(__file__).parent / "failure_programs"
PLACES = ("init", "barrier", "wait", "collective", "finalize", "end")
WAYS = ("exception", "sys.exit", "SystemExit", "os._exit", "SIGKILL", "SIGSTOP", "skip", "other")
LAUNCHERS = ("run", "mpiexec")
# Nobody is told of these at once: the others' deadline is what ends the job.
SILENT = ("SIGSTOP", "skip")
WITHIN_S = 5.0


def cases() -> Iterator[tuple[str, str, int, str]]:
    for i, place in enumerate(PLACES):
        for k, way in enumerate(WAYS):
            for n in (2, 4) if FULL else [4 if i == (k + 1) % len(PLACES) else 2]:
                for launcher in LAUNCHERS if FULL else [LAUNCHERS[(i + k // 2) % 2]]:
                    if (place, way) == ("init", "skip"):
                        continue  # there is nothing before init that one could skip
                    if place == "init" and way in ("SIGKILL", "os._exit"):
                        launcher = "run"  # nobody can notice that under plain mpiexec: MPI knows nothing of it yet
                    if (place, way) == ("init", "SIGSTOP") and launch.find().kind == "openmpi":
                        launcher = "run"  # Open MPI's mpiexec may wait for ever then, with all its processes gone
                    yield place, way, n, launcher


def names_the_culprit(job: Job, place: str, way: str, n: int, launcher: str) -> None:
    """What the user reads: the traceback of the PE, or which PE it was, as far as anybody can know."""
    last = n - 1
    if way == "exception":
        assert f"PE {last}: ValueError: planted" in job.text
        assert f"PE {last}: Traceback (most recent call last):" in job.text
        assert "in raise_error" in job.text
    elif way == "other" and place != "wait":
        assert "SymmetryError" in job.text
        assert f"PE {last}: {'init(heap_size=2097152' if place == 'init' else 'zeros((3,), float64)'}" in job.text
    elif way in SILENT and place in ("barrier", "collective", "finalize", "end"):
        assert f"no arrival of PE {last}" in job.text
    elif launcher == "run" and way not in SILENT and way != "other":
        assert f"PE {last}" in job.text


def fault(job: Job, folder: Path) -> float:
    """When the failing PE was about to fail."""
    assert (folder / "fault").exists(), job.text
    return float((folder / "fault").read_text())


@pytest.mark.parametrize(("place", "way", "n", "launcher"), sorted(set(cases())))
def test_fault_ends_the_job(tmp_path: Path, place: str, way: str, n: int, launcher: str) -> None:
    quiet = way in SILENT or (place, way) == ("wait", "other")
    program = (str(PROGRAMS / "fails.py"), place, way, str(tmp_path))
    job = run_job(n, launcher, tmp_path, *program, SHMEMU_TIMEOUT_S="2" if quiet else "20")
    fault_s = fault(job, tmp_path)
    assert job.code != 0, job.text
    assert job.left == []
    if (place, way, launcher) == ("init", "SIGSTOP", "mpiexec"):
        processes.remove(job.shm)  # MPICH's own, made in MPI_Init, which no PE left: shmem never had a say
    assert left_in_shm(job) == []
    assert job.ended_s - fault_s < WITHIN_S, job.text
    assert not list(tmp_path.glob("passed.*")) or place == "end", job.text
    if way in ("sys.exit", "SystemExit"):
        assert job.code == 3, job.text
    names_the_culprit(job, place, way, n, launcher)


def exits() -> Iterator[tuple[str, int, str]]:
    """(place, PEs, who starts MPI): those that the cases above leave out, which start MPI by shmem."""
    above = set(cases())
    for place, few in dict.fromkeys(PLACES, (2, 4)).items() if FULL else (("barrier", (2,)), ("wait", (4,))):
        for n in few:
            yield place, n, "mpi4py-first"
            if (place, "SystemExit", n, "mpiexec") not in above:
                yield place, n, "shmem-first"
    if not FULL:
        yield "init", 2, "mpi4py-first"


@pytest.mark.parametrize(("place", "n", "order"), list(exits()))
def test_system_exit_under_plain_mpiexec_ends_the_job_with_its_status(
    tmp_path: Path, place: str, n: int, order: str
) -> None:
    """mpi4py finalizes MPI where it started it, and would wait there for PEs that wait for the one that left."""
    job = run_job(n, "mpiexec", tmp_path, str(PROGRAMS / "fails.py"), place, "SystemExit", str(tmp_path), order)
    fault_s = fault(job, tmp_path)
    assert (job.code, job.left, left_in_shm(job)) == (3, [], []), job.text
    assert job.ended_s - fault_s < WITHIN_S, job.text
    assert not list(tmp_path.glob("passed.*")) or place == "end", job.text


@pytest.mark.parametrize("order", ["mpi4py-first", "shmem-first"])
def test_a_failing_exit_lists_no_leaks(tmp_path: Path, order: str) -> None:
    """A lone PE: nobody ends it, and it has allocated something; the list would only hide why it failed."""
    program = (str(PROGRAMS / "fails.py"), "wait", "SystemExit", str(tmp_path), order)
    job = run_job(1, "mpiexec", tmp_path, *program)
    assert job.code == 3, job.text
    assert "not freed" not in job.text


@pytest.mark.parametrize("n", [2, 4] if FULL else [2])
@pytest.mark.parametrize("status", ["0", "None"])
@pytest.mark.parametrize("order", ["mpi4py-first", "shmem-first"])
def test_system_exit_without_a_failure_ends_well(tmp_path: Path, n: int, status: str, order: str) -> None:
    job = run_job(n, "mpiexec", tmp_path, str(PROGRAMS / "ends_well.py"), str(tmp_path), order, status)
    assert (job.code, job.left, left_in_shm(job)) == (0, [], []), job.text
    assert len(list(tmp_path.glob("passed.*"))) == n


JOBS = [(n, launcher) for n in (1, 2, 4) for launcher in LAUNCHERS] if FULL else [(2, "run"), (4, "mpiexec")]


@pytest.mark.parametrize(("n", "launcher"), JOBS)
def test_a_job_without_fault_ends_well(tmp_path: Path, n: int, launcher: str) -> None:
    """The counterpart: the same means see nothing wrong, so they do not see it everywhere."""
    job = run_job(n, launcher, tmp_path, str(PROGRAMS / "ends_well.py"), str(tmp_path))
    assert (job.code, job.left, left_in_shm(job)) == (0, [], []), job.text
    assert len(list(tmp_path.glob("passed.*"))) == n


# A lone survivor once: two tell each other everything that three do.
SURVIVED = ("barrier", "collective", "wait", "lines")
LOSSES = [(place, n) for place in SURVIVED for n in ((2, 4) if FULL else (2,) if place == "barrier" else (3,))]


@pytest.mark.parametrize(("place", "n"), LOSSES)
def test_survivors_are_told_and_go_on(tmp_path: Path, place: str, n: int) -> None:
    job = run_job(n, "run", tmp_path, str(PROGRAMS / "survives.py"), place, str(tmp_path), survive=True)
    last = n - 1
    for pe in range(last):
        died = f"PeerDied {last} {pe}"
        told = (tmp_path / f"told.{pe}").read_text().split("\n")
        names = ("first", "put to the dead", "get from the dead", "atomic on the dead", "again")
        assert told[:5] == [f"{name}: {died}" for name in names], job.text
        assert told[5] == "wait for the living: None"
        assert told[6] == f"sum {sum(range(1, last + 1))}, puts {[10 * other + pe for other in range(last)]}"
    assert (job.left, left_in_shm(job)) == ([], [])
    assert f"PE {last}" in job.text


@pytest.mark.parametrize("role", ["queued", "holder"])
def test_a_lock_outlives_who_waits_for_it_and_not_its_holder(tmp_path: Path, role: str) -> None:
    job = run_job(3, "run", tmp_path, str(PROGRAMS / "locks_survive.py"), role, str(tmp_path), survive=True)
    for pe in (0, 2):
        died = f"PeerDied 1 {pe}"
        told = (tmp_path / f"told.{pe}").read_text().split("\n")
        again = "None" if role == "queued" else died
        clear = ["clear: None"] if (role, pe) == ("queued", 0) else []
        assert told == [f"first: {died}", *clear, f"again: {again}"], job.text
    assert (job.left, left_in_shm(job)) == ([], [])


@pytest.mark.parametrize("n", [2, 4] if FULL else [3])
def test_teams_of_the_living_go_on(tmp_path: Path, n: int) -> None:
    job = run_job(n, "run", tmp_path, str(PROGRAMS / "teams_survive.py"), str(tmp_path), survive=True)
    last = n - 1
    for pe in range(last):
        died = f"PeerDied {last} {pe}"
        told = (tmp_path / f"told.{pe}").read_text().split("\n")
        assert told == [
            "the team of the living: None",
            f"the team of all: {died}",
            f"a split of it: {died}",
            f"living: {50 * last}",
            f"part: {tuple(range(last))[::-1]}",
            f"destroying the team of all: {died}",
            "gone: None",
        ], job.text
    assert (job.left, left_in_shm(job)) == ([], [])


def test_failure_in_a_thread_ends_the_job(tmp_path: Path) -> None:
    job = run_job(2, "mpiexec", tmp_path, str(PROGRAMS / "thread_fails.py"), str(tmp_path))
    fault_s = fault(job, tmp_path)
    assert job.code != 0
    assert job.ended_s - fault_s < WITHIN_S
    assert "PE 1: ValueError: planted in a thread" in job.text
    assert (job.left, left_in_shm(job)) == ([], [])


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_global_exit_ends_all_pes_with_its_status(tmp_path: Path, launcher: str) -> None:
    job = run_job(3, launcher, tmp_path, str(PROGRAMS / "leaves.py"))
    assert job.code == 7, job.text
    assert "PE 2 leaves" in job.text
    assert (job.left, left_in_shm(job)) == ([], [])


EXIT = "sys.exit('no such file\\nat all')"
TEXTS = {
    "sys.exit": f"import sys\nimport shmem\nif shmem.my_pe() == 1: {EXIT}\nshmem.barrier_all()",
    "before init": f"import sys\nimport shmem\nif shmem.failure.rank_text() == 'PE 1': {EXIT}\nshmem.init()",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("where", TEXTS)
def test_the_text_of_an_exit_names_the_pe(tmp_path: Path, where: str, launcher: str) -> None:
    program = tmp_path / "exits.py"
    program.write_text(TEXTS[where])
    job = run_job(2, launcher, tmp_path, str(program))
    assert job.code == 1
    lines = job.text.splitlines()
    assert "PE 1: no such file" in lines
    assert "PE 1: at all" in lines
    assert "no such file" not in lines
    assert "at all" not in lines


def test_an_exit_that_is_caught_has_its_text(tmp_path: Path) -> None:
    program = tmp_path / "catches.py"
    program.write_text(
        "import sys\nimport shmem\n"
        "for status in ('text', 3, None, ('a',)):\n"
        "    try: sys.exit(status)\n"
        "    except SystemExit as error: assert error.code == status and f'{error.code!r}' == repr(status)\n"
    )
    job = run_job(2, "mpiexec", tmp_path, str(program))
    assert (job.code, job.text) == (0, "")
