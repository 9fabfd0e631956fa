"""The distribution: what is in it, what its build says where something is missing, and its command.

Builds run in a copy of the tree, since setuptools writes beside setup.py. Nothing is compiled here: that the C core
compiles is shown by every test that uses it.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path

import pytest

import shmem
from shmem import cli

ROOT = Path(__file__).parent.parent
PACKAGES = ("shmem", "protocols", "moe_ep")
MODULE = "shmemu_pytest.py"  # beside them: pytest imports it in every run
DEADLINE_S = 60.0


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources that a build reads, without what an earlier one left."""
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", MODULE):
        shutil.copy(ROOT / name, tmp_path)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


def setup(tree: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "setup.py", "-q", *args]
    environment = {**os.environ, **env}
    return subprocess.run(line, cwd=tree, capture_output=True, text=True, timeout=DEADLINE_S, env=environment)


def sources(*suffixes: str) -> set[str]:
    """Paths of the packages' files with these suffixes, and the module."""
    found = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in suffixes)
    return {str(path.relative_to(ROOT)) for path in found} | {MODULE}


# -- contents --------------------------------------------------------------------------------------------


def test_the_sdist_has_all_that_a_build_needs(tree: Path) -> None:
    done = setup(tree, "sdist", CC="nonsense")  # and needs no compiler for that
    assert done.returncode == 0, done.stderr
    with tarfile.open(tree / "dist" / f"shmemu-{version('shmemu')}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
        *sources(".py", ".c", ".h", ".typed", ".txt", ".md"),
    }
    assert wanted - names == set()


def test_the_wheel_has_every_module_and_the_data_but_no_tests(tree: Path) -> None:
    done = setup(tree, "build_py", "--build-lib", "built")
    assert done.returncode == 0, done.stderr
    built = {str(path.relative_to(tree / "built")) for path in (tree / "built").rglob("*") if path.is_file()}
    tool = {"shmem/_native/build.py"}
    assert sources(".py", ".typed", ".pyi", ".txt", ".md") - tool - built == set()
    assert {path.split("/")[0] for path in built} == {*PACKAGES, MODULE}
    assert {f"{name}/py.typed" for name in PACKAGES} <= built


def test_one_build_serves_every_python() -> None:
    from shmem._native import _core, _hot

    assert Path(_core.__file__).name == "_core.abi3.so"
    assert Path(_hot.__file__).name == "_hot.abi3.so"


def test_the_version_is_one() -> None:
    assert shmem.__version__ == version("shmemu")
    assert f'version = "{shmem.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## {shmem.__version__}" in (ROOT / "CHANGELOG.md").read_text()


# -- what a build needs ----------------------------------------------------------------------------------


@pytest.fixture
def missing() -> Callable[[], str | None]:
    function: Callable[[], str | None] = runpy.run_path(str(ROOT / "shmem" / "_native" / "build.py"))["missing"]
    return function


def test_nothing_is_missing_here(missing: Callable[[], str | None]) -> None:
    assert missing() is None


def test_a_missing_compiler_is_named(
    missing: Callable[[], str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "nonsense-cc -O2")
    assert "'nonsense-cc' named by the variable CC is missing: unset CC" in str(missing())
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "is missing" in str(missing())
    assert "apt-get install gcc" in str(missing())


def test_missing_headers_are_named(
    missing: Callable[[], str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert f"no {tmp_path}/Python.h" in str(missing())
    assert "apt-get install python3-dev" in str(missing())


def test_a_compiler_that_compiles_nothing_is_named(
    missing: Callable[[], str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cc: fatal error: no cc1' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert "can't build a C11 program (cc: fatal error: no cc1)" in str(missing())


def test_another_machine_is_refused(missing: Callable[[], str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux on x86_64 or aarch64, and this is darwin" in str(missing())


@pytest.mark.parametrize("command", ["bdist_wheel", "build_ext", "editable_wheel"])
def test_a_build_without_a_compiler_prints_one_sentence(tree: Path, command: str) -> None:
    done = setup(tree, command, CC="nonsense-cc")
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("shmemu can't be built here: the C compiler 'nonsense-cc'")


# -- the command -----------------------------------------------------------------------------------------


def shmemu(*args: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "shmem.cli", *args]
    return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S)


def test_the_commands_are_entry_points_and_the_help_lists_them() -> None:
    names = {entry.name for entry in entry_points(group=cli.GROUP)}
    assert {"run", "demo", "litmus", "check", "lesson"} <= names
    done = shmemu("--help")
    assert done.returncode == 0
    assert names <= set(done.stdout.split())
    assert "Not available" not in done.stdout


def test_the_version_is_printed() -> None:
    done = shmemu("--version")
    assert (done.returncode, done.stdout) == (0, f"shmemu {version('shmemu')}\n")


def test_a_command_imports_neither_mpi_nor_the_other_commands() -> None:
    code = "import sys\nfrom shmem.cli import build\nbuild(['run'])\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S)
    loaded = set(done.stdout.split())
    assert "shmem.cli.run" in loaded, done.stderr
    assert not {"mpi4py", "moe_ep", "torch", "rich.progress"} & loaded


def test_a_broken_command_is_one_line_and_the_others_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = next(entry for entry in entry_points(group=cli.GROUP) if entry.name == "run")
    broken = EntryPoint("gone", "no_such_module:register", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [broken, run])

    assert cli.main(["gone", "--seed", "1", "file"]) == 2
    reason = "ModuleNotFoundError: No module named 'no_such_module'"
    assert capsys.readouterr().err == f"shmemu gone is not available: {reason}\n"

    assert cli.main(["--help"]) == 0
    listing = capsys.readouterr().out
    assert "Not available" in listing
    assert "Run a Python program" in listing

    assert cli.main(["run", "-n", "1", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "shmemu: there is no program nowhere.py\n"


def test_the_program_of_the_readme_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "hello.py").write_text(program)
    done = shmemu("run", "-n", "4", str(tmp_path / "hello.py"))
    expected = [f"PE {pe} of 4 got [{' '.join([str((pe - 1) % 4)] * 4)}]" for pe in range(4)]
    assert sorted(done.stdout.splitlines()) == expected, done.stderr


# -- the Makefile ----------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_refuses_an_unknown_mpi_in_one_sentence() -> None:
    done = subprocess.run(["make", "-n", "demo", "MPI=lam"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "MPI=lam: it may be mpich or openmpi" in done.stderr
