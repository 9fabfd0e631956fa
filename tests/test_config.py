"""Environment variables: each value is parsed or refused by name; only the table knows a variable."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from shmem import config
from shmem.config import VARIABLES, format_size, parse_size, read
from shmem.errors import ArgumentError

ROOT = Path(__file__).parent.parent
BY_FIELD = {variable.field: variable for variable in VARIABLES}

DEFAULTS = {
    "fabric": "auto",
    "heap_size": 1 << 30,
    "heap_size_given": False,
    "timeout_s": 300.0,
    "check_symmetry": True,
    "hosts_emulated": 1,
    "on_death": "abort",
    "profile": "openshmem",
    "seed": None,
    "progress": "inline",
    "trace": None,
    "sanitize": None,
    "isa": "auto",
    "poison": False,
    "mpi": "auto",
    "out": "out",
    "log": "warning",
    "require": (),
    "test_cells": (),
    "test_seed": None,
    "werror": False,
    "expect_pes": None,
    "status_file": None,
}
GOOD = [
    ("fabric", "NIC", "nic"),
    ("heap_size", "512M", 512 << 20),
    ("timeout_s", "0.5", 0.5),
    ("timeout_s", "inf", math.inf),
    ("check_symmetry", "off", False),
    ("hosts_emulated", "2", 2),
    ("on_death", "survive", "survive"),
    ("profile", "udma", "udma"),
    ("seed", "0", 0),
    ("progress", "manual", "manual"),
    ("trace", "/tmp/Trace.json", "/tmp/Trace.json"),
    ("sanitize", "streams", "streams"),
    ("isa", "portable", "portable"),
    ("poison", " 1 ", True),
    ("mpi", "openmpi", "openmpi"),
    ("mpi", "/usr/bin/mpiexec.hydra", "/usr/bin/mpiexec.hydra"),
    ("out", "Results", "Results"),
    ("log", "debug", "debug"),
    ("require", "torch, hosts", ("torch", "hosts")),
    ("test_cells", "direct-2,direct-4", ("direct-2", "direct-4")),
    ("test_seed", "7", 7),
    ("werror", "yes", True),
    ("expect_pes", "4", 4),
    ("status_file", "/tmp/status", "/tmp/status"),
]
BAD = [
    ("fabric", "infiniband", "one of auto, direct, rma, nic, sim"),
    ("heap_size", "lots", "a number of bytes above 0"),
    ("heap_size", "0", "a number of bytes above 0"),
    ("heap_size", "-1M", "a number of bytes above 0"),
    ("timeout_s", "0", "a number of seconds above 0, or inf"),
    ("timeout_s", "-3", "a number of seconds above 0, or inf"),
    ("timeout_s", "nan", "a number of seconds above 0, or inf"),
    ("timeout_s", "20s", "a number of seconds above 0, or inf"),
    ("check_symmetry", "2", "0 or 1"),
    ("hosts_emulated", "0", "a whole number from 1 up"),
    ("hosts_emulated", "1.5", "a whole number from 1 up"),
    ("on_death", "ignore", "one of abort, survive"),
    ("seed", "-1", "a whole number from 0 up"),
    ("progress", "eager", "one of inline, thread, manual"),
    ("isa", "sse9", "one of auto, portable, avx2, neon"),
    ("poison", "maybe", "0 or 1"),
    ("mpi", "lam", "auto, mpich, openmpi or the path of an mpiexec"),
    ("log", "loud", "one of debug, info, warning, error"),
    ("require", "torch,cuda", "a list with commas of browser, hosts, torch, openmpi"),
    ("werror", "all", "0 or 1"),
    ("expect_pes", "many", "a whole number from 1 up"),
]


def test_defaults():
    assert vars(read({})) == DEFAULTS
    assert set(DEFAULTS) == {*BY_FIELD, "heap_size_given"}


@pytest.mark.parametrize(("field", "text", "value"), GOOD)
def test_a_value_that_is_allowed(field, text, value):
    settings = vars(read({BY_FIELD[field].name: text}))
    changed = {field: value} | ({"heap_size_given": True} if field == "heap_size" else {})
    assert settings == DEFAULTS | changed


def test_each_variable_is_read_once_at_least():
    assert {field for field, _, _ in GOOD} == set(BY_FIELD)


@pytest.mark.parametrize(("field", "text", "allowed"), BAD)
def test_a_value_that_is_not_allowed_is_one_sentence_with_name_and_what_is(field, text, allowed):
    name = BY_FIELD[field].name
    with pytest.raises(ArgumentError) as caught:
        read({name: text})
    assert str(caught.value).startswith(f"{name}={text}: must be {allowed}")
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_an_empty_variable_counts_as_unset(variable):
    assert vars(read({variable.name: " "})) == DEFAULTS


def test_the_heap_size_of_openshmem_counts_where_ours_is_not_set():
    openshmem = {"SHMEM_SYMMETRIC_SIZE": "3.1M"}
    assert (read(openshmem).heap_size, read(openshmem).heap_size_given) == (3250586, True)
    assert read(openshmem | {"SHMEMU_HEAP_SIZE": "2M"}).heap_size == 2 << 20
    assert read(openshmem | {"SHMEMU_HEAP_SIZE": ""}).heap_size == 3250586
    with pytest.raises(ArgumentError, match=r"^SHMEM_SYMMETRIC_SIZE=big: must be"):
        read({"SHMEM_SYMMETRIC_SIZE": "big"})


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        read({}).fabric = "sim"


def test_an_unknown_name_warns_once_and_says_what_may_be_meant(monkeypatch, capsys):
    monkeypatch.setattr(config, "_warned", set())
    environ = {"SHMEMU_HEAPSIZE": "1M", "SHMEMU_XYZZY": "1", "SHMEM_DEBUG": "1", "PATH": "/"}
    assert vars(read(environ)) == DEFAULTS
    assert capsys.readouterr().err.splitlines() == [
        "shmemu: warning: unknown environment variable SHMEMU_HEAPSIZE has no effect; did you mean SHMEMU_HEAP_SIZE?",
        "shmemu: warning: unknown environment variable SHMEMU_XYZZY has no effect",
    ]
    read(environ)
    assert capsys.readouterr().err == ""


def test_no_warning_where_none_is_wanted(monkeypatch, capsys):
    monkeypatch.setattr(config, "_warned", set())
    read({"SHMEMU_XYZZY": "1"}, warn=False)
    assert capsys.readouterr().err == ""


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("SHMEMU_HOSTS_EMULATED", "3")
    assert read().hosts_emulated == 3


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("512M", 512 << 20),
        ("3.1M", 3250586),
        (".5m", 512 << 10),
        ("0.5m", 512 << 10),
        ("20kk", 20 << 10),
        ("20k", 20 << 10),
        ("1GiB", 1 << 30),
        ("2T", 2 << 40),
        ("4096", 4096),
        (" 4096 ", 4096),
        ("1.5", 2),
        ("7.", 7),
        ("0", 0),
        ("0.3g", 322122548),
    ],
)
def test_sizes(text, nbytes):
    assert parse_size(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", " ", ".", "M", "-1", "+1", "1e6", "1_000", "1,5M", "1.2.3", "0x10", "1 M", "nan", "٣"]
)
def test_what_is_no_size(text):
    with pytest.raises(ArgumentError, match="is not a size"):
        parse_size(text)


@given(st.decimals(0, 9999, places=6), st.sampled_from([("", 1), ("k", 2**10), ("M", 2**20), ("G", 2**30)]))
def test_a_size_is_the_exact_product_rounded_up(number: Decimal, unit: tuple[str, int]):
    suffix, scale = unit
    exact = number * scale  # 28 digits hold it
    nbytes = parse_size(f"{number:f}{suffix}")
    assert nbytes - 1 < exact <= nbytes


@given(st.integers(0, 1 << 50))
def test_a_formatted_size_tells_every_byte(nbytes: int):
    text = format_size(nbytes)
    exact = re.search(r"(\d+) bytes", text)
    assert (int(exact[1]) if exact else parse_size(text)) == nbytes


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (64 << 10, "64k"),
        (1 << 30, "1G"),
        (1572865, "1.5M (1572865 bytes)"),
        ((1 << 30) - 64, "1023.9M (1073741760 bytes)"),
    ],
)
def test_formatted_sizes(nbytes, text):
    assert format_size(nbytes) == text


def test_no_source_file_uses_a_variable_that_the_table_does_not_know():
    known = {variable.name for variable in VARIABLES}
    files = [
        path
        for package in ("shmem", "protocols", "moe_ep", "benchmarks", "tests/launcher")
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".c", ".h")
    ] + [ROOT / "Makefile", ROOT / "setup.py"]
    used = {
        name: path
        for path in files
        if path.exists()
        for name in re.findall(r"\bSHMEMU_[A-Z]+(?:_[A-Z]+)*\b", path.read_text())
    }
    assert len(used) > 5, "the pattern finds them"
    assert {name: str(path) for name, path in used.items() if name not in known} == {}


def test_the_docs_page_is_current():
    made = subprocess.run([sys.executable, "-m", "shmem.config"], capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "environment.md").read_text() == made.stdout, (
        "run: python -m shmem.config > docs/environment.md"
    )
    for variable in VARIABLES:
        assert made.stdout.count(f"| `{variable.name}` |") == 1


def test_only_real_runs_are_recorded():
    config.check_supported(read({"SHMEMU_SANITIZE": "x"}))
    with pytest.raises(ArgumentError, match="use shmemu check --races on sim"):
        config.check_supported(read({"SHMEMU_SANITIZE": "x", "SHMEMU_FABRIC": "sim"}))
    on_nic = {"SHMEMU_SANITIZE": "x", "SHMEMU_FABRIC": "nic"}
    config.check_supported(read(on_nic))
    with pytest.raises(ArgumentError, match="SHMEMU_SANITIZE=x and SHMEMU_TRACE=y: one at a time"):
        config.check_supported(read({**on_nic, "SHMEMU_TRACE": "y"}))


def test_the_docs_page_marks_what_does_not_exist_yet():
    marked = {line.split("`")[1] for line in config.page().splitlines() if line.startswith("|") and "not yet" in line}
    assert marked == {f"SHMEMU_{name}" for name in ("FABRIC",)}
    with pytest.raises(ArgumentError, match="shows runs on nic, not on direct"):
        config.check_supported(read({"SHMEMU_TRACE": "x", "SHMEMU_FABRIC": "direct"}))
    with pytest.raises(ArgumentError, match="does not exist yet"):
        config.check_supported(read({"SHMEMU_FABRIC": "rma"}))
