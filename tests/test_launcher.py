"""The launcher of the resident jobs, by what it says of suites that misbehave.

One inner suite of plain mpi4py tests runs once, at 3 PEs: between tests that are right stand some where a
PE fails, hangs, dies or says something else. Each must get its own result, and nothing may be left of any
job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from shmem import launch
from tests.launcher import processes, verdict
from tests.launcher.job import REPOSITORY

CONFTEST = """
import os, pathlib, pytest
from tests.launcher import cells, job, processes
pytest_plugins = ["tests.launcher.plugin"]
job.GRACE_S = 0.7
cells.TABLES["openmpi"] = cells.TABLES["mpich"]  # all tests in every cell, whatever MPI runs them

@pytest.fixture(autouse=True)
def note_shared_memory():
    from mpi4py import MPI
    with open(pathlib.Path(__file__).with_name("shm"), "a") as notes:
        notes.writelines(name + "\\n" for name in processes.shm_files([os.getpid()]))
"""

HEAD = """
import os, signal, threading
import pytest
from mpi4py import MPI

pytestmark = pytest.mark.mpi
WORLD = MPI.COMM_WORLD

def all_there():
    assert WORLD.allreduce(1) == WORLD.size == 3
"""

SUITE = (
    HEAD
    + """
def test_right_1():
    all_there()

def test_one_fails():
    print("words of the test")
    assert WORLD.rank != 1, "planted"
    WORLD.barrier()

def test_right_2():
    all_there()

def test_one_raises_after_a_collective():
    WORLD.barrier()
    if WORLD.rank == 2:
        raise KeyError("planted")

def test_all_fail():
    raise RuntimeError("planted everywhere")

def test_right_3():
    all_there()

@pytest.mark.deadline(1)
def test_one_hangs():
    if WORLD.rank == 2:
        threading.Event().wait()

def test_right_4():
    all_there()

def test_one_is_killed():
    if WORLD.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    WORLD.barrier()

def test_right_5():
    all_there()

@pytest.mark.deadline(1)
def test_one_is_stopped():
    if WORLD.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)

def test_one_leaves_with_0():
    if WORLD.rank == 0:
        os._exit(0)
    WORLD.barrier()

def test_right_6():
    all_there()

def wire(request):
    return next(p.wire for p in request.config.pluginmanager.get_plugins() if hasattr(p, "wire"))

@pytest.mark.deadline(1)
def test_one_reports_nothing(request):
    if WORLD.rank == 0:
        wire(request).send = lambda **message: True

def test_right_7():
    all_there()

def test_one_reports_another_test(request):
    if WORLD.rank == 2:
        real = wire(request)
        send = real.send
        real.send = lambda **message: send(**{**message, "id": "test_of_somebody_else"})

def test_right_8():
    all_there()

@pytest.mark.parametrize("whose", [f"of{WORLD.rank}"])
def test_unlike_parameters(whose):
    all_there()

def test_right_9():
    all_there()

def test_all_skip():
    pytest.skip("for a reason")

def test_one_skips():
    if WORLD.rank == 1:
        pytest.skip("alone")

@pytest.mark.xfail(reason="known", strict=True)
def test_all_fail_as_expected():
    assert False

@pytest.mark.mpi(min_size=4)
def test_needs_more():
    all_there()

@pytest.mark.parametrize("one", ["x", "y"])
@pytest.mark.parametrize("two", [1, 2])
def test_parameters(one, two, cell):
    assert cell.name == "direct-3"

class TestClass:
    def test_method(self):
        all_there()

def test_right_10():
    all_there()
"""
)

ENDS_BADLY = (
    HEAD
    + """
import atexit

def test_before_the_last():
    all_there()

def test_last():
    if WORLD.rank == 1:
        atexit.register(os._exit, 7)
"""
)

COLLECTS_BADLY = (
    HEAD
    + """
if WORLD.rank == 1:
    raise ImportError("not on this PE")

def test_it():
    all_there()
"""
)

LEAVES_MEMORY = """
import numpy as np
import pytest
import shmem

pytestmark = pytest.mark.mpi

def test_forgets():
    shmem.zeros(3, np.int32)
    shmem.free(shmem.ones(5))

def test_starts_with_an_empty_heap():
    assert shmem.heap_stats().blocks == 0

def test_forgets_on_one_pe_only():
    block = shmem.malloc(64)
    if shmem.my_pe() == 2:
        return
    shmem.runtime.current().heap.give_back(0)

def test_right():
    assert shmem.heap_stats().blocks == 0
"""


@dataclass
class Run:
    """What an inner pytest said, by test."""

    text: str
    code: int
    outcomes: dict[str, str]
    failures: dict[str, str]
    left: list[int]
    shm: list[str]


def run(folder: Path, *arguments: str, cells: str = "direct-3", **files: str) -> Run:
    """Runs pytest in a folder with these files; a word in the environment marks all its processes."""
    for name, content in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(content)
    word = uuid.uuid4().hex
    environment = {"PYTHONPATH": str(REPOSITORY), "SHMEMU_TEST_CELLS": cells, "INNER_RUN": word}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=report.xml", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes, failures = {}, {}
    report = folder / "report.xml"
    for case in ET.parse(report).iter("testcase") if report.exists() else ():
        name = case.attrib["name"]
        said = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[name] = said[0] if said else "passed"
        failures[name] = "".join(f"{child.get('message')}\n{child.text}" for child in case)
    notes = folder / "shm"
    shm = sorted(set(notes.read_text().split())) if notes.exists() else []
    return Run(done.stdout + done.stderr, done.returncode, outcomes, failures, processes.with_word(word), shm)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("suite"), test_suite=SUITE)


def says(suite: Run, test: str, *words: str) -> None:
    name = test if test.endswith("]") else f"{test}[direct-3]"
    assert suite.outcomes[name] == "failure", suite.text
    for word in words:
        assert word in suite.failures[name], suite.failures[name]


@pytest.mark.parametrize("number", range(1, 11))
def test_tests_between_faults_run_and_pass(suite: Run, number: int) -> None:
    assert suite.outcomes[f"test_right_{number}[direct-3]"] == "passed", suite.text


def test_failure_of_one_names_it_and_shows_where_the_others_are(suite: Run) -> None:
    says(suite, "test_one_fails", "PE 1 of 3: AssertionError: planted", "PEs 0, 2 of 3: no report")
    assert "in test_one_fails" in suite.failures["test_one_fails[direct-3]"]
    assert "words of the test" in suite.text


def test_exception_after_the_last_collective_is_no_pass(suite: Run) -> None:
    says(suite, "test_one_raises_after_a_collective", "PE 2 of 3: KeyError: 'planted'")


def test_pes_that_say_the_same_share_a_paragraph(suite: Run) -> None:
    says(suite, "test_all_fail", "PEs 0, 1, 2 of 3: RuntimeError: planted everywhere")
    assert suite.failures["test_all_fail[direct-3]"].count("raise RuntimeError") == 1


def test_deadline_shows_the_stack_of_the_one_that_hangs(suite: Run) -> None:
    says(suite, "test_one_hangs", "PE 2 of 3: no report within 1", "in test_one_hangs", "threading.py")


def test_death_is_named(suite: Run) -> None:
    says(suite, "test_one_is_killed", "PE 1 of 3 ended without a report")
    says(suite, "test_one_leaves_with_0", "PE 0 of 3 ended without a report")


def test_stopped_rank_is_noticed_and_ended(suite: Run) -> None:
    says(suite, "test_one_is_stopped", "PE 1 of 3: no report")


def test_fewer_reports_than_pes_fail(suite: Run) -> None:
    says(suite, "test_one_reports_nothing", "PE 0 of 3: no report within 1")


def test_reports_of_different_tests_fail(suite: Run) -> None:
    says(suite, "test_one_reports_another_test", "PE 2 of 3: test_of_somebody_else")


def test_pes_compare_ids_before_a_test(suite: Run) -> None:
    says(suite, "test_unlike_parameters[direct-3-of0]", "PE 1: has no such test", "PE 2: has no such test")


def test_skips_and_expected_failures(suite: Run) -> None:
    assert suite.outcomes["test_all_skip[direct-3]"] == "skipped"
    assert "for a reason" in suite.failures["test_all_skip[direct-3]"]
    assert suite.outcomes["test_all_fail_as_expected[direct-3]"] == "skipped"
    says(suite, "test_one_skips", "do not agree", "1: 'skipped'")


def test_items_are_those_of_the_cell(suite: Run) -> None:
    assert not any(name.startswith("test_needs_more") for name in suite.outcomes)
    wanted = {f"test_parameters[direct-3-{two}-{one}]" for two in (1, 2) for one in "xy"}
    passed = {name for name, said in suite.outcomes.items() if said == "passed"}
    assert wanted | {"test_method[direct-3]"} <= passed


def test_failures_print_the_command_that_repeats_them(suite: Run) -> None:
    command = "SHMEMU_TEST_CELLS=direct-3 python -m pytest 'test_suite.py::test_one_fails[direct-3]'"
    assert command in suite.text
    assert suite.code == 1


def test_nothing_is_left(suite: Run) -> None:
    assert suite.left == []
    assert suite.shm, "the ranks had mapped no shared memory: this test sees nothing"
    assert [name for name in suite.shm if os.path.exists(name)] == []


def test_one_test_by_its_id_and_in_every_cell(tmp_path: Path) -> None:
    chosen = ("test_suite.py::test_parameters[direct-3-2-y]", "test_suite.py::test_all_skip")
    few = run(tmp_path, *chosen, cells="direct-1,direct-3", test_suite=SUITE)
    everywhere = {f"test_all_skip[direct-{n}]": "skipped" for n in (1, 3)}
    assert few.outcomes == {"test_parameters[direct-3-2-y]": "passed", **everywhere}


def test_stops_at_the_first_failure(tmp_path: Path) -> None:
    first = run(tmp_path, "-x", "-k", "right_1 or right_2 or test_all_fail", test_suite=SUITE)
    wanted = ["test_right_1", "test_right_2", "test_all_fail"]
    assert list(first.outcomes) == [f"{name}[direct-3]" for name in wanted]
    assert (first.outcomes["test_all_fail[direct-3]"], first.code, first.left) == ("failure", 1, [])


@pytest.fixture(scope="module")
def leak(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Tests that leave memory, then a file whose last test makes the job end badly."""
    folder = tmp_path_factory.mktemp("leak")
    return run(folder, "test_leaves.py", "test_ends.py", test_leaves=LEAVES_MEMORY, test_ends=ENDS_BADLY)


def test_job_that_ends_badly_fails_its_last_test(leak: Run) -> None:
    assert list(leak.outcomes)[-2:] == ["test_before_the_last[direct-3]", "test_last[direct-3]"]
    assert leak.outcomes["test_before_the_last[direct-3]"] == "passed", leak.text
    says(leak, "test_last", "the job ended with code")


def test_test_that_leaves_memory_fails_and_the_job_goes_on(leak: Run) -> None:
    says(leak, "test_forgets", "PEs 0, 1, 2 of 3: ", "zeros((3,), int32) at ", "test_leaves.py:9")
    assert "ones(" not in leak.failures["test_forgets[direct-3]"]
    assert leak.outcomes["test_starts_with_an_empty_heap[direct-3]"] == "passed"


def test_memory_left_on_one_pe_names_it_and_ends_the_job(leak: Run) -> None:
    says(leak, "test_forgets_on_one_pe_only", "PE 2 of 3: ", "malloc(64) at ")
    assert leak.outcomes["test_right[direct-3]"] == "passed"


def test_module_that_one_rank_cannot_import(tmp_path: Path) -> None:
    bad = run(tmp_path, test_collects=COLLECTS_BADLY)
    says(bad, "test_it", "PE 1: has no such test", "not on this PE")


def test_same_tests_run_under_mpiexec(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    program = ["-m", "pytest", "-q", "--with-mpi", "-p", "no:cacheprovider", "-k", "right or method"]
    environment = {**launch.environment(3), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        launch.command(3, [sys.executable, *program]),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("11 passed") == 3, done.stdout + done.stderr


def test_processes_are_found_and_ended(tmp_path: Path) -> None:
    """A process that ignores SIGTERM, its stopped child, and the file of /dev/shm that they have mapped."""
    word = uuid.uuid4().hex
    shared = Path("/dev/shm") / f"shmemu_test_{word}"
    program = (
        "import mmap, os, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"file = open({str(shared)!r}, 'w+b'); file.truncate(4096); held = mmap.mmap(file.fileno(), 4096)\n"
        "os.kill(os.getpid(), signal.SIGSTOP) if os.fork() == 0 else print('ready', flush=True)\n"
        "signal.pause()"
    )
    command, env = [sys.executable, "-c", program], {**os.environ, "WORD": word}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    pids: list[int] = []
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        pids = processes.below(process.pid)
        assert len(pids) == 2
        assert sorted(pids) == sorted(processes.with_word(word))
        assert processes.shm_files(pids) == {str(shared)}
        held = [one for pid in pids if (one := processes.hold(pid))]
        assert all(one.running() for one in held)
        process.terminate()
        assert processes.end(held) == []
        assert not any(one.running() for one in held)
        assert processes.with_word(word) == []
        assert processes.shm_files(pids) == set()
    finally:
        for pid in processes.with_word(word):
            os.kill(pid, signal.SIGKILL)
        process.communicate()
        processes.remove([str(shared), str(shared)])
    assert not shared.exists()


def test_a_verdict_needs_a_pass_of_every_pe() -> None:
    passed = {"id": "t", "outcome": "passed", "text": "", "crash": "", "reason": "", "expected": False}
    passed |= {"sections": [], "duration": 0.0, "leaked": []}
    assert verdict.merge(verdict.Heard("t", 2, {0: passed, 1: passed})).outcome == "passed"
    assert verdict.merge(verdict.Heard("t", 3, {0: passed, 1: passed})).outcome == "failed"
    assert verdict.merge(verdict.Heard("u", 2, {0: passed, 1: passed})).outcome == "failed"
    assert verdict.merge(verdict.Heard("t", 2, {0: passed}, gone=[1])).ends_job


def test_a_job_goes_on_only_after_equal_leaks() -> None:
    leaked = {"id": "t", "outcome": "failed", "text": "", "crash": "Leak", "sections": [], "duration": 0.0}
    one, other = {**leaked, "leaked": ["zeros(3)"]}, {**leaked, "leaked": ["zeros(4)"]}
    assert not verdict.merge(verdict.Heard("t", 2, {0: one, 1: one})).ends_job
    assert verdict.merge(verdict.Heard("t", 2, {0: one, 1: other})).ends_job
    assert verdict.merge(verdict.Heard("t", 3, {0: one, 1: one})).ends_job
    assert verdict.merge(verdict.Heard("t", 1, {0: {**leaked, "leaked": []}})).ends_job
