"""``shmemu demo``: what it refuses and how, what it measures, and that it runs on real ranks and can fail.

Bad input is refused before anything starts, so those tests need no MPI; the others start small jobs.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from moe_ep.demo import cli, inputs, report, table
from tests.launcher.cells import FULL

BF16 = np.dtype(ml_dtypes.bfloat16)
FAULTY = Path(__file__).with_name("faulty_job.py")
SMALL = ["--experts", "12", "--topk", "3", "--hidden", "256", "--repeat", "2"]
TEXT = "Ein Bote läuft; der zweite wartet — ½ hour later both flags are up.\n" * 2

Arrays = dict[str, Any]


def trace(tokens: int = 5) -> Arrays:
    """A small trace that is right: 5 tokens, top 3 of 12 experts."""
    generator = np.random.default_rng(0)
    return {
        "topk_idx": generator.permuted(np.tile(np.arange(12), (tokens, 1)), axis=1)[:, :3].copy(),
        "topk_weights": generator.random((tokens, 3), np.float32),
        "x": generator.standard_normal((tokens, 256), np.float32),
    }


def save(path: Path, arrays: Arrays) -> Path:
    np.savez(path, **arrays)
    return path


# ------------------------------------------------------------------------------ bad input


def refused(folder: Path, *arguments: str) -> str:
    """The one line with which ``shmemu demo`` refuses ``arguments``, exit code 2."""
    app = typer.Typer()
    app.callback()(lambda: None)
    cli.register(app)
    result = CliRunner().invoke(app, ["demo", "--out", str(folder / "out"), *arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("shmemu demo: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--experts", "63"], "63 experts can't be divided evenly among 4 PEs: try -n 3 or 7, or --experts 60 or 64"),
        (["-n", "3"], "64 experts can't be divided evenly among 3 PEs: try -n 2 or 4, or --experts 63 or 66"),
        (["-n", "4", "--experts", "2"], "2 experts can't be divided evenly among 4 PEs: try -n 2, or --experts 4"),
        (
            ["-n", "3", "--experts", "2048"],
            "2048 experts can't be divided evenly among 3 PEs: try -n 4, or --experts 2046",
        ),
        (["--topk", "65"], "--topk 65 is not within 1 to 32"),
        (["--topk", "9", "--experts", "8"], "--topk 9 is more than the 8 experts there are"),
        (["--topk", "0"], "--topk 0 is not within"),
        (["--hidden", "300"], "hidden size of 300 is not a multiple of 256"),
        (["--hidden", "0"], "hidden size of 0 is not a multiple"),
        (["--hidden", "16384"], "hidden size of 16384 is not a multiple of 256 up to 8192"),
        (["--experts", "0"], "--experts 0 is not within"),
        (["--experts", "4096"], "--experts 4096 is not within 1 to 2048"),
        (["--experts", "2048", "-n", "2"], "2048 experts on 2 PEs are more than 512 on each"),
        (["-n", "0"], "-n 0 is not within"),
        (["--seed", "-1"], "--seed -1 is not within"),
        (["--repeat", "0"], "--repeat 0 is not within"),
        (["--tokens", "0"], "--tokens 0 is not within"),
        (["--text", "no/such/file"], "no/such/file can't be read: No such file or directory"),
        (["--text", "/"], "/ can't be read: Is a directory"),
        (["--routing", "no/such/file"], "no/such/file can't be read: No such file or directory"),
        (["--routing", "/"], "/ can't be read: it is no file"),
        (["--text", "a", "--routing", "b"], "--text and --routing exclude each other"),
    ],
)
def test_options_that_mean_nothing(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in refused(tmp_path, *arguments)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"abc\xff", "is not UTF-8: byte 0xff at offset 3"),
        ("cut off: ½".encode()[:-1], "is not UTF-8: byte 0xc2 at offset 9"),
        (b"", "is empty"),
        (b"a" * 65537, "has 65537 bytes, more than 65536; --tokens N takes the first N of them"),
    ],
)
def test_texts_that_are_none(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    assert says in refused(tmp_path, "--text", str(tmp_path / "text"))


def with_value(name: str, place: tuple[int, int], value: Any) -> Arrays:
    arrays = trace()
    arrays[name][place] = value
    return arrays


def with_array(name: str, value: Any) -> Arrays:
    return {**trace(), name: value}


def without(name: str) -> Arrays:
    arrays = trace()
    del arrays[name]
    return arrays


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (without("topk_idx"), "has no array topk_idx"),
        (without("topk_weights"), "has no array topk_weights"),
        (with_array("topk_idx", np.zeros(5, np.int64)), "topk_idx is int64[5], not integers [T, K]"),
        (with_array("topk_idx", np.zeros((5, 3))), "topk_idx is float64[5, 3], not integers [T, K]"),
        (
            with_array("topk_weights", np.zeros((5, 2), np.float32)),
            "topk_weights is float32[5, 2], not float32[5, 3]",
        ),
        (with_array("topk_weights", np.zeros((5, 3))), "topk_weights is float64[5, 3], not float32[5, 3]"),
        (trace(0), "there is no token in it"),
        (
            with_value("topk_idx", (2, 1), 12),
            "topk_idx[2, 1] = 12 is no expert: ids are -1 (none) and 0 to 11",
        ),
        (with_value("topk_idx", (4, 0), -2), "topk_idx[4, 0] = -2 is no expert"),
        (with_array("topk_idx", np.full((5, 3), 2**64 - 1, np.uint64)), "is no expert"),
        (with_array("topk_idx", np.array([[0, 1, 2]] * 4 + [[7, -1, 7]])), "token 4 selects expert 7 twice"),
        (with_value("topk_weights", (3, 2), np.nan), "topk_weights[3, 2] is nan, not a finite number"),
        (with_value("x", (1, 7), np.inf), "x[1, 7] is inf, not a finite number"),
        (with_value("x", (1, 7), 3.4e38), "x[1, 7] is inf, not a finite number"),
        (with_array("x", np.zeros((4, 256), np.float32)), "x is float32[4, 256], not floats [5, H]"),
        (with_array("x", np.zeros((5, 256), np.int64)), "x is int64[5, 256], not floats [5, H]"),
        (with_array("x", np.zeros((5, 100), np.float32)), "hidden size of 100 is not"),
        (with_array("topk_idx", np.array([[{}]])), "can't be read as an npz archive of plain arrays"),
    ],
)
def test_traces_that_are_none(arrays: Arrays, says: str, tmp_path: Path) -> None:
    path = save(tmp_path / "trace.npz", arrays)
    assert says in refused(tmp_path, "--experts", "12", "--routing", str(path))


def test_options_that_contradict_the_trace(tmp_path: Path) -> None:
    path = str(save(tmp_path / "trace.npz", trace()))
    given = ("--experts", "12", "--routing", path)
    assert f"--topk 2 contradicts {path}, which holds 3" in refused(tmp_path, *given, "--topk", "2")
    assert f"--hidden 512 contradicts {path}, which holds 256" in refused(tmp_path, *given, "--hidden", "512")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 no archive either"])
def test_files_that_are_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "trace.npz").write_bytes(content)
    assert "can't be read as an npz archive" in refused(tmp_path, "--routing", str(tmp_path / "trace.npz"))


def test_a_single_array_and_a_damaged_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((2, 2)))
    assert "is a single array, not an npz archive" in refused(tmp_path, "--routing", str(tmp_path / "one.npy"))
    path = save(tmp_path / "trace.npz", trace())
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 1
    path.write_bytes(damaged)
    assert "can't be read as an npz archive" in refused(tmp_path, "--experts", "12", "--routing", str(path))


def test_an_output_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    assert "can't be made: File exists" in refused(tmp_path)


# ------------------------------------------------------------------------------ good input


def prepared(**options: Any) -> inputs.Job:
    defaults = {"pes": 4, "text": None, "routing": None, "experts": 64, "topk": None, "hidden": None}
    return inputs.prepare(**{**defaults, "seed": 0, "tokens": None, "repeat": 5, **options})  # type: ignore[arg-type]


def test_without_options_the_text_that_ships_runs() -> None:
    job = prepared()
    assert 3000 < job.tokens < 6000
    assert len(job.text.decode()) < job.tokens  # some characters are not ASCII
    assert (job.shape.experts, job.shape.topk, job.shape.hidden) == (64, 6, 1024)


def test_tokens_cuts_a_text_even_within_a_character(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("½".encode() * 40000)
    assert prepared(text=tmp_path / "text", tokens=3).text == "½".encode() + b"\xc2"
    assert prepared(text=tmp_path / "text", tokens=65536).tokens == 65536


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, BF16])
def test_a_trace_may_hold_rows_of_any_float_and_ids_of_any_integer(dtype: Any, tmp_path: Path) -> None:
    arrays = trace()
    arrays["topk_idx"][0, 0] = -1
    arrays |= {"x": arrays["x"].astype(dtype), "topk_idx": arrays["topk_idx"].astype(np.int16)}
    job = prepared(experts=12, routing=save(tmp_path / "t.npz", arrays), tokens=4)
    assert job.trace is not None
    assert job.trace.topk_idx.dtype == np.int64
    assert np.array_equal(job.trace.topk_idx, arrays["topk_idx"][:4])
    assert job.trace.x is not None
    assert job.trace.x.dtype == BF16
    assert np.array_equal(job.trace.x, arrays["x"][:4].astype(np.float32).astype(BF16))
    assert (job.shape.topk, job.shape.hidden, job.tokens) == (3, 256, 4)


def test_a_job_survives_its_folder(tmp_path: Path) -> None:
    jobs = [prepared(tokens=7)]
    for i, arrays in enumerate([trace(), without("x")]):
        jobs.append(prepared(experts=12, hidden=256, routing=save(tmp_path / f"{i}.npz", arrays)))
    for i, job in enumerate(jobs):
        folder = tmp_path / str(i)
        folder.mkdir()
        job.save(folder)
        back = inputs.Job.load(folder)
        assert (back.pes, back.shape, back.text, back.repeat, back.source) == (
            *(job.pes, job.shape, job.text, job.repeat, job.source),
        )
        assert (back.trace is None) == (job.trace is None)
        if job.trace is not None and back.trace is not None:
            assert np.array_equal(back.trace.topk_idx, job.trace.topk_idx)
            assert np.array_equal(back.trace.topk_weights, job.trace.topk_weights)
            assert (back.trace.x is None) == (job.trace.x is None)
            if back.trace.x is not None:
                assert back.trace.x.dtype == BF16
                assert np.array_equal(back.trace.x, job.trace.x)


# ------------------------------------------------------------------------------ report and table


def test_percentiles_are_samples() -> None:
    assert report.percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert report.percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert report.percentile([float(i) for i in range(1, 201)], 0.99) == 198.0
    assert report.percentile([5.0], 0.5) == report.percentile([5.0], 0.99) == 5.0


def test_bytes_for_people() -> None:
    counts = [0, 1023, 1024, 1536, 1024**2, 5 * 1024**3, 3000 * 1024**4]
    shown = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB", "3000.0 TiB"]
    assert [table.human_bytes(n) for n in counts] == shown


def test_times_for_people() -> None:
    shown = [table.human_ms(t) for t in (0.4, 1234.5, 12345.6, 123456.7, 1234567.8)]
    assert shown == ["0.000", "1.234", "12.35", "123.5", "1235"]


def example(**changes: Any) -> dict[str, Any]:
    times = np.full((8, len(report.PHASES)), 123456789.0)
    ledger = {"dispatch": np.array([10**12] * 4), "combine": np.array([0, 1, 2, 3])}
    return {
        "source": "/a/rather/long/path/to/some/[bold]text.txt",
        "pes": 1024,
        "tokens": 65536,
        "shape": {"experts": 2048, "topk": 32, "hidden": 8192, "seed": 123456},
        "phases": report.phase_rows(times, ledger),
        "tokens_per_expert": report.load_of(np.array([3, 8, 4], np.int32)),
        "equal": True,
        "difference": None,
        **changes,
    }


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_table_fits_80_columns_and_any_encoding(encoding: str) -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding, write_through=True), width=80, no_color=True)
    table.render(example(), console)
    lines = raw.getvalue().decode(encoding).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "[bold]text.txt" in "".join(lines)
    rows = [line.replace("|", " ").split() for line in lines]
    assert ["dispatch", "123457", "123457", *["931.3", "GiB"] * 4] in rows
    assert ["combine", "123457", "123457", "0", "B", "1", "B", "2", "B", "3", "B"] in rows
    assert "tokens per expert: min 3, mean 5.0, max 8" in lines
    assert "…" not in "".join(lines)
    assert lines[-1] == "result: equals the oracle bit for bit"
    assert "\x1b" not in raw.getvalue().decode(encoding)


def test_the_verdict_of_a_difference_says_where() -> None:
    out = io.StringIO()
    table.render(example(equal=False, difference="rank 1: outputs: token 0"), Console(file=out, width=80))
    assert "result: DIFFERS from the oracle: rank 1: outputs: token 0" in out.getvalue()


# ------------------------------------------------------------------------------ real ranks


def demo(*arguments: str, cwd: Path, program: str | None = None) -> subprocess.CompletedProcess[str]:
    """``shmemu demo`` in a process of its own without a terminal; ``program``: what the ranks run instead."""
    patched = f"import sys, moe_ep.demo.cli as c, shmem.cli; c.PROGRAM = ({program!r},); sys.exit(shmem.cli.main())"
    start = [sys.executable, *(("-c", patched) if program else ("-m", "shmem.cli")), "demo"]
    environment = {**os.environ, "SHMEMU_TIMEOUT_S": "60", "COLUMNS": "80"}
    environment.pop("SHMEMU_OUT", None)
    command = [*start, *arguments]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    print("repeat with:", " ".join(repr(word) for word in command), f"\n{done.stdout}\n{done.stderr}")
    return done


def independent_bytes(idx: Any, ranks: int, experts: int, row: int, beside: int) -> dict[str, int]:
    """The ledgers of one exchange, counted pair by pair."""
    count = {"logical": 0, "physical": 0, "upstream": 0}
    tokens = len(idx)
    for t in range(tokens):
        source = next(r for r in range(ranks) if tokens * r // ranks <= t < tokens * (r + 1) // ranks)
        owners = [int(e) // (experts // ranks) for e in idx[t] if e >= 0]
        count["logical"] += len(owners) * row
        count["physical"] += len(set(owners) - {source}) * (row + beside)
        count["upstream"] += len(set(owners)) * (row + beside)
    return count


# Four run below, with fewer tokens; two where the demo is shown to be free of races (tests/sanitize).
@pytest.mark.parametrize("pes", [1, 2, 3, 4] if FULL else [1, 3])
def test_the_demo_equals_the_oracle(pes: int, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT)
    done = demo("-n", str(pes), "--text", "text", *SMALL, cwd=tmp_path)
    assert done.returncode == 0
    assert "result: equals the oracle bit for bit" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "\x1b" not in done.stdout
    saved = json.loads((tmp_path / "out" / "demo.json").read_text())
    assert (saved["schema"], saved["equal"], saved["pes"]) == ("shmemu-demo/1", True, pes)
    assert saved["tokens"] == len(TEXT.encode())
    assert [row["samples"] for row in saved["phases"]] == [2 * pes * runs for runs in (1, 1, 8, 1, 8)]
    assert not list((tmp_path / "out").glob("*.part"))


@pytest.mark.parametrize("rows", [True, False])
def test_a_recorded_trace_runs_and_its_bytes_and_loads_are_counted(rows: bool, tmp_path: Path) -> None:
    arrays = trace(11)
    arrays["topk_idx"][3] = -1
    arrays["topk_idx"][4, 1] = -1
    arrays["topk_idx"][5] = [0, 1, 2]  # all on rank 0
    if not rows:
        del arrays["x"]
    save(tmp_path / "t.npz", arrays)
    options = ("--experts", "12", "--repeat", "1", *(() if rows else ("--hidden", "256")))
    done = demo("-n", "3", "--routing", "t.npz", "--out", "elsewhere", *options, cwd=tmp_path)
    assert done.returncode == 0
    saved = json.loads((tmp_path / "elsewhere" / "demo.json").read_text())
    load = np.bincount(arrays["topk_idx"][arrays["topk_idx"] >= 0], minlength=12)
    assert saved["tokens_per_expert"] == {"min": load.min(), "mean": load.mean(), "max": load.max()}
    by_phase = {row["phase"]: row["bytes"] for row in saved["phases"]}
    assert [by_phase[phase] for phase in ("embed", "gate", "experts")] == [None] * 3
    for phase, beside in (("dispatch", 3 * 8 + 3 * 4), ("combine", 3 * 4)):
        expected = independent_bytes(arrays["topk_idx"], 3, 12, 512, beside)
        assert {name: by_phase[phase][name] for name in expected} == expected
        assert by_phase[phase]["wire"] > by_phase[phase]["physical"]


def test_fewer_tokens_than_ranks(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("½")
    done = demo("-n", "4", "--text", "text", *SMALL, cwd=tmp_path)
    assert done.returncode == 0
    assert "bit for bit" in done.stdout


@pytest.mark.parametrize("target", ["outputs", "weights", "received", "once"])
def test_one_flipped_bit_on_one_rank_is_found(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text(TEXT)
    monkeypatch.setenv("DEMO_TEST_FAULT", target)
    done = demo("-n", "2", "--text", "text", *SMALL, cwd=tmp_path, program=str(FAULTY))
    assert done.returncode == 1
    assert "result: DIFFERS from the oracle: rank " in done.stdout
    assert json.loads((tmp_path / "out" / "demo.json").read_text())["equal"] is False


def test_a_rank_that_raises_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_TEST_FAULT", "raise")
    done = demo("-n", "2", *SMALL, cwd=tmp_path, program=str(FAULTY))
    assert done.returncode == 1
    assert "planted" in done.stderr
    assert "without a result" in done.stderr
    assert not (tmp_path / "out" / "demo.json").exists()


def test_a_machine_without_room_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_TEST_FAULT", "heap")
    done = demo("-n", "2", *SMALL, cwd=tmp_path, program=str(FAULTY))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("shmemu demo: a heap of 1024T")
    assert "Traceback" not in done.stderr


def test_bad_input_through_the_real_command(tmp_path: Path) -> None:
    done = demo("-n", "2", "--experts", "63", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "shmemu demo: 63 experts can't be divided evenly among 2 PEs: try -n 1 or 3, or --experts 62 or 64\n"
    )
