"""`shmemu run --fabric sim`: main programs whose PEs are tasks of one process, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from shmem import launch
from shmem.cli import main
from shmem.errors import ArgumentError

Run = Callable[..., tuple[int, str, str]]

HEAD = """\
import sys
import numpy as np
import shmem
me, n = shmem.my_pe(), shmem.n_pes()
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a program of this text, here: exit code, what it printed, what it said on stderr."""
    monkeypatch.chdir(tmp_path)

    def run(body: str, *arguments: str, options: tuple[str, ...] = (), n: int = 3) -> tuple[int, str, str]:
        Path("prog.py").write_text(HEAD + textwrap.dedent(body))
        code = main(["run", "--fabric", "sim", "-n", str(n), *options, "prog.py", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_each_pe_is_a_main_program_of_its_own(run: Run) -> None:
    body = """
    import __main__
    mine = me
    shmem.barrier_all()
    sys.argv[1] += str(me)
    shmem.barrier_all()
    assert mine == me and __main__.mine == me and sys.modules["__main__"] is __main__
    assert __name__ == "__main__" and __file__ == sys.argv[0] == "prog.py"
    print(me, n, sys.argv[1:])
    """
    code, out, err = run(body, "x", "--flag")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [f"{pe} 3 ['x{pe}', '--flag']" for pe in range(3)]


def test_the_process_is_left_as_it_was(run: Run) -> None:
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    assert run("sys.exit(1)")[0] == 1
    assert (sys.modules["__main__"], sys.argv, sys.path) == before


def test_its_folder_is_on_the_path(run: Run) -> None:
    Path("beside.py").write_text("value = 5\n")
    code, out, _ = run("import beside\nprint(beside.value)", n=1)
    assert (code, out) == (0, "5\n")


@pytest.mark.parametrize(
    ("last", "code", "says"),
    [
        ("pass", 0, ""),
        ("sys.exit(0) if me == 1 else None", 0, ""),
        ("sys.exit(3) if me == 1 else shmem.barrier_all()", 3, "shmemu: PE 1 ended with exit code 3\n"),
        ("sys.exit('bye') if me == 1 else None", 1, "PE 1: bye\nshmemu: PE 1 ended with exit code 1\n"),
        ("sys.exit(256 + 4)", 4, "shmemu: PE 0 ended with exit code 4\n"),
        ("shmem.global_exit(7) if me == 2 else shmem.barrier_all()", 7, "shmemu: PE 2 ended with exit code 7\n"),
        ("shmem.global_exit(0) if me == 2 else shmem.barrier_all()", 0, ""),
    ],
)
def test_how_a_program_leaves_is_the_exit_code(run: Run, last: str, code: int, says: str) -> None:
    found = run(last)
    assert (found[0], found[2]) == (code, says)


def test_a_failure_ends_the_job(run: Run) -> None:
    body = """
    word = shmem.zeros(1, np.int64)
    if me == 0:
        shmem.p(word, 1, 1)
        sys.exit(3)
    if me == 1:
        shmem.wait_until(word, "==", 1)
        print("went on")
    """
    assert run(body)[:2] == (3, "")


def test_an_exception_is_a_traceback_with_the_pe(run: Run) -> None:
    body = """
    def f():
        if me == 1:
            shmem.p(np.zeros(1), 1, 0)
        shmem.barrier_all()
    f()
    """
    code, _, err = run(body)
    lines = err.splitlines()
    assert code == 1
    assert lines[:2] == ["PE 1: Traceback (most recent call last):", 'PE 1:   File "prog.py", line 10, in <module>']
    assert 'PE 1:   File "prog.py", line 8, in f' in lines
    assert lines[-2].startswith("PE 1: shmem.errors.NotSymmetric: ")
    assert lines[-1] == "shmemu: PE 1 ended with exit code 1"
    assert not [line for line in lines if "shmem/" in line]


def test_a_program_that_does_not_compile(run: Run) -> None:
    code, _, err = run("x = = 1")
    assert (code, err.splitlines()[-1]) == (1, "shmemu: PE 0 ended with exit code 1")
    assert 'File "prog.py", line 5' in err
    assert "PE 0: SyntaxError: invalid syntax" in err


def test_a_deadlock_says_who_waits_where(run: Run) -> None:
    code, _, err = run("word = shmem.zeros(1, np.int64)\nif me == 1:\n    shmem.wait_until(word, '==', 1)\n")
    assert code == 1
    assert err.splitlines() == [
        "PE 0 has ended its program and waits for the others in finalize",
        "PE 1 waits in wait at prog.py:7",
        "PE 2 has ended its program and waits for the others in finalize",
        "shmemu: deadlock: nothing can happen any more, and not all PEs have ended",
    ]


def test_what_was_not_freed_is_told(run: Run) -> None:
    code, _, err = run("kept = shmem.malloc(24)")
    assert code == 0
    assert err == "PE 0: 1 symmetric allocation was not freed:\n  malloc(24) at prog.py:5\n"


LATE = """
data, flag = shmem.malloc(8), shmem.malloc(8)
data, flag = (shmem.fromalloc(each, 1, np.int64) for each in (data, flag))
if me == 0:
    shmem.p(data, 7, 1)
    shmem.p(flag, 1, 1)
else:
    shmem.wait_until(flag, "==", 1)
    print(shmem.g(data, 1) == 7)
"""


def test_profile_and_seed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(*options: str) -> str:
        code, out, _ = run(LATE, n=2, options=options)
        assert code == 0
        return out

    assert printed("--profile", "srd") == "True\n"
    seeds = [printed("--profile", "srd", "--seed", str(seed)) for seed in range(12)]
    assert set(seeds) == {"True\n", "False\n"}
    assert [printed("--profile", "tso", "--seed", str(seed)) for seed in range(12)] == ["True\n"] * 12
    late = seeds.index("False\n")
    monkeypatch.setenv("SHMEMU_PROFILE", "srd")
    monkeypatch.setenv("SHMEMU_SEED", str(late))
    assert printed() == "False\n"
    assert printed("--profile", "tso") == "True\n"


def test_the_heap_has_the_size_that_was_asked_for(run: Run) -> None:
    assert run("print(shmem.heap_stats().size)", options=("--heap", "8k"), n=1)[1] == "8192\n"


# ---- other kinds of programs ----


def test_a_module_a_package_and_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack").mkdir()
    text = HEAD + "print(me, __name__, __package__, __file__, sys.argv[1:])\n"
    for name in ("single.py", "pack/__init__.py", "pack/__main__.py"):
        (tmp_path / name).write_text("" if "init" in name else text)
    for words, package, file in [
        (["-m", "single"], "", tmp_path / "single.py"),
        (["-m", "pack"], "pack", tmp_path / "pack/__main__.py"),
        (["-m", "pack.__main__"], "pack", tmp_path / "pack/__main__.py"),
        (["pack"], "", tmp_path / "pack/__main__.py"),
    ]:
        assert main(["run", "--fabric", "sim", "-n", "2", *words, "a"]) == 0
        out = capsys.readouterr().out
        assert sorted(out.splitlines()) == [f"{pe} __main__ {package} {file} ['a']" for pe in range(2)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-n", "2", "nowhere.py"], "there is no program nowhere.py"),
        (["-n", "2", "-m", "json.nowhere"], "there is no module json.nowhere"),
        (["-n", "2", "-m", "json"], "there is no module json, or it is a package without a __main__"),
        (["-n", "0", "-m", "this"], "at least one PE"),
        (["-n", "2", "--timeout", "0", "-m", "this"], "a timeout is"),
        (["-n", "2", "--survive", "-m", "this"], "--survive and --mpi are about processes"),
        (["-n", "2", "--mpi", "mpich", "-m", "this"], "--survive and --mpi are about processes"),
        (["-n", "2", "--profile", "nfs", "-m", "this"], "no profile 'nfs'"),
        (["-n", "2", "--seed", "-1", "-m", "this"], "SHMEMU_SEED=-1"),
        (
            ["-n", "2", "--fabric", "direct", "--seed", "1", "-m", "this"],
            "--profile and --seed are for --fabric sim and nic",
        ),
    ],
)
def test_wrong_use_is_a_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--fabric", "sim", *words]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert says in said.err


def test_a_timeout_ends_it_whatever_it_does(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(HEAD + "print('up', flush=True)\nwhile me == 1:\n    pass\n")
    line = [sys.executable, "-m", "shmem.cli", "run", "--fabric", "sim", "-n", "2", "--timeout", "0.5", "prog.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 124
    assert done.stderr == "shmemu: the job did not end within 0.5 s and was ended\n"


# ---- sim where there is none ----


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_a_process_by_itself_can_not_be_all_pes(way: str) -> None:
    code = "import shmem\ntry:\n    shmem.init(%s)\nexcept shmem.StateError as error:\n    print(error)"
    code %= "fabric='sim'" if way == "argument" else ""
    env = {**os.environ, **({"SHMEMU_FABRIC": "sim"} if way == "variable" else {})}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert "start the program with shmemu run --fabric sim" in done.stdout, done.stderr


def test_nor_can_one_under_mpiexec(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text("import shmem\nshmem.init(fabric='sim')\n")
    line = launch.command(2, [sys.executable, str(tmp_path / "prog.py")])
    done = subprocess.run(line, env=launch.environment(2), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "StateError: on the fabric sim one process has all PEs" in done.stderr


def test_nor_does_a_launcher_start_it(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no mpiexec can start them"):
        launch.run_job(2, ["-m", "this"], env={"SHMEMU_FABRIC": "sim"})


def test_a_program_on_sim_may_name_a_fabric(run: Run) -> None:
    code, out, err = run("shmem.init(fabric='sim')\nshmem.init(fabric='direct')\nprint(n)")
    assert (code, out, err) == (0, "3\n" * 3, "")
