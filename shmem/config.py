"""Every SHMEMU_ environment variable: one frozen table, read once into frozen settings.

The table holds name, default, meaning and parser, and everything else follows from it: the settings, the
errors (ArgumentError, one sentence naming the variable and what it may be), the warning about unknown
names and the page docs/environment.md, which `python -m shmem.config` prints. Arguments of calls win.
An empty variable counts as unset. This module knows no MPI and no NumPy: the launcher reads it, too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ArgumentError

_PREFIX = "SHMEMU_"
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)(?:([kKmMgGtT]).*|\s*)", re.ASCII | re.DOTALL)
_UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}


def parse_size(text: str) -> int:
    """Bytes meant by `text`: a decimal number, then at most one of k M G T (powers of 1024, either case).

    The rule of SHMEM_SYMMETRIC_SIZE (OpenSHMEM 1.6, 8): fractions of a byte round up, what follows the suffix
    is ignored ('3.1M' is 3250586; '20kk' and '20kB' are '20k'). Raises ArgumentError for anything else.
    """
    found = _SIZE.fullmatch(text)
    if not found:
        raise ArgumentError(f"{text!r} is not a size: write bytes, or a number with k M G T like '512M'")
    number, suffix = found.groups()
    scale = 1 << _UNITS[suffix.lower()] if suffix else 1
    whole, _, part = number.partition(".")
    parts: int = 10 ** len(part)
    return -(-int(whole + part) * scale // parts)


def format_size(nbytes: int) -> str:
    """`nbytes` for people: '512M' when it is that exactly, else as '1.5M (1572865 bytes)'."""
    for suffix, shift in reversed(_UNITS.items()):
        if nbytes >= 1 << shift:
            if nbytes % (1 << shift) == 0:
                return f"{nbytes >> shift}{suffix.upper() if suffix != 'k' else suffix}"
            rounded = f"{nbytes * 10 // (1 << shift) / 10:.1f}".removesuffix(".0")  # down: less than 1G is not 1024M
            return f"{rounded}{suffix.upper() if suffix != 'k' else suffix} ({nbytes} bytes)"
    return f"{nbytes} bytes"


Parser = Callable[[str], Any]


@dataclass(frozen=True)
class Kind:
    """What a variable may be: in words, and the parser, which raises ValueError for anything else."""

    allowed: str
    parse: Parser


def _choice(*names: str) -> Kind:
    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(text)
        return text.lower()

    return Kind("one of " + ", ".join(names), parse)


def _positive(parse: Callable[[str], Any], allowed: str, least: float = 1) -> Kind:
    def checked(text: str) -> Any:
        value = parse(text)
        if not value >= least:  # false for nan as well
            raise ValueError(text)
        return value

    return Kind(allowed, checked)


def _flag(text: str) -> bool:
    if text.lower() not in ("1", "yes", "on", "true", "0", "no", "off", "false"):
        raise ValueError(text)
    return text.lower() in ("1", "yes", "on", "true")


def _launcher(text: str) -> str:
    return text if "/" in text else str(_choice("auto", "mpich", "openmpi").parse(text))


def _list_of(*names: str) -> Kind:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if names and not set(items) <= set(names):
            raise ValueError(text)
        return items

    return Kind("a list with commas of " + ", ".join(names) if names else "a list with commas", parse)


_FLAG = Kind("0 or 1", _flag)
_COUNT = _positive(int, "a whole number from 1 up")
_SEED = _positive(int, "a whole number from 0 up", least=0)
_SECONDS = _positive(float, "a number of seconds above 0, or inf", least=5e-324)
_HEAP = _positive(parse_size, "a number of bytes above 0, with k, M, G or T if you like")
_NAME = Kind("a name", lambda text: text.lower())
_PATH = Kind("a path", str)


@dataclass(frozen=True)
class Variable:
    """One environment variable. `default` is text as a user would set it; None is unset and stays None."""

    field: str
    kind: Kind
    default: str | None
    meaning: str
    internal: bool = False
    missing: str = ""  # what of it this version does not have yet

    @property
    def name(self) -> str:
        """SHMEMU_ and the field in capitals."""
        return _PREFIX + self.field.upper()

    def read(self, environ: Mapping[str, str]) -> Any:
        """The value in `environ`, or the default; raises ArgumentError for what is not allowed."""
        text = environ.get(self.name, "").strip()
        if text:
            return self._parse(text, self.name)
        return None if self.default is None else self._parse(self.default, self.name)

    def _parse(self, text: str, name: str) -> Any:
        try:
            return self.kind.parse(text)
        except ValueError:
            raise ArgumentError(f"{name}={text}: must be {self.kind.allowed}") from None


VARIABLES: tuple[Variable, ...] = (
    Variable("fabric", _choice("auto", "direct", "rma", "nic", "sim"), "auto",
             "how bytes travel between PEs; auto is direct if all PEs share a host, else rma",
             missing="rma"),
    Variable("heap_size", _HEAP, "1G",
             "symmetric heap of each PE; without it `SHMEM_SYMMETRIC_SIZE` counts. The default is halved, "
             "with one warning, until it fits `/dev/shm`; a size that was asked for and does not fit raises"),
    Variable("timeout_s", _SECONDS, "300", "deadline of every wait; a wait says so on stderr after 10 s"),
    Variable("check_symmetry", _FLAG, "1", "compare the collective calls of all PEs by their fingerprints"),
    Variable("hosts_emulated", _COUNT, "1",
             "hosts to pretend: PE p of n is on host p*H // n, H = min(hosts, n); `TEAM_SHARED`, `ptr` and "
             "`team_ptr` follow it, transfers go between them as ever"),
    Variable("on_death", _choice("abort", "survive"), "abort",
             "when a PE dies: end the job, or keep the others and raise `PeerDied` where it is needed"),
    Variable("profile", _NAME, "openshmem", "delivery profile of nic, and of `shmemu run` on sim"),
    Variable("seed", _SEED, None,
             "seed of the delivery on nic, and of `shmemu run` on sim; unset, all arrives at once and in order"),
    Variable("progress", _choice("inline", "thread", "manual"), "inline",
             "who moves what is in flight on nic: the calls of the PE (what they leave for 1 ms, a thread), a thread "
             "at once, or only calls that wait for completion"),
    Variable("trace", _PATH, None, "file to write a timeline of a run on nic to (Trace Event JSON)"),
    Variable("sanitize", _PATH, None, "folder for the streams of accesses of each PE, "
             "which `shmemu race` judges; direct and nic"),
    Variable("isa", _choice("auto", "portable", "avx2", "neon"), "auto",
             "instruction set of the native copies"),
    Variable("poison", _FLAG, "0", "fill freed memory with 0xDB, so that a stale view is noticed"),
    Variable("mpi", Kind("auto, mpich, openmpi or the path of an mpiexec", _launcher), "auto",
             "which MPI `shmemu run` launches with"),
    Variable("out", _PATH, "out", "folder for everything that is written"),
    Variable("log", _choice("debug", "info", "warning", "error"), "warning",
             "least level that is logged; each line begins with the PE. info: start and end; debug: also allocations, "
             "teams, contexts, streams, and whole tracebacks"),
    Variable("require", _list_of("browser", "hosts", "torch", "openmpi"), "",
             "tests: what must not be skipped for want of it"),
    Variable("test_cells", _list_of(), "", "tests: which cells of fabric and size to run; all by default"),
    Variable("test_seed", _SEED, None,
             "tests: every test in cells of nic, under three profiles with 2 to 4 PEs each, with this seed of the "
             "delivery; `tests/fuzz_suite.py` sets it"),
    Variable("werror", _FLAG, "0", "build: warnings of the C compiler are errors"),
    Variable("expect_pes", _COUNT, None,
             "size of the job that was launched; another size raises", internal=True),
    Variable("status_file", _PATH, None, "where a rank writes its progress for the launcher", internal=True),
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """All variables as Python values. `heap_size_given`: somebody asked for this heap size."""

    fabric: str
    heap_size: int
    heap_size_given: bool
    timeout_s: float
    check_symmetry: bool
    hosts_emulated: int
    on_death: str
    profile: str
    seed: int | None
    progress: str
    trace: str | None
    sanitize: str | None
    isa: str
    poison: bool
    mpi: str
    out: str
    log: str
    require: tuple[str, ...]
    test_cells: tuple[str, ...]
    test_seed: int | None
    werror: bool
    expect_pes: int | None
    status_file: str | None


_FALLBACK = "SHMEM_SYMMETRIC_SIZE"
_warned: set[str] = set()


def read(environ: Mapping[str, str] | None = None, *, warn: bool = True) -> Settings:
    """The settings of `environ` (default: os.environ).

    Raises ArgumentError for a value that is not allowed. Says on stderr which SHMEMU_ names are unknown,
    of each once in a process, unless `warn` is false.
    """
    environ = os.environ if environ is None else environ
    if warn:
        _warn_of_unknown(environ)
    values = {variable.field: variable.read(environ) for variable in VARIABLES}
    given = bool(environ.get("SHMEMU_HEAP_SIZE", "").strip())
    fallback = environ.get(_FALLBACK, "").strip()
    if fallback and not given:
        values["heap_size"] = _variable("heap_size")._parse(fallback, _FALLBACK)
        given = True
    return Settings(**values, heap_size_given=given)


def check_supported(settings: Settings) -> None:
    """Raises ArgumentError for a wish that is understood but belongs to a part that does not exist yet."""
    if not isinstance(settings.fabric, str):
        raise ArgumentError(f"fabric={settings.fabric!r}: must be the name of one")
    if settings.fabric not in ("auto", "direct", "nic", "sim"):
        have = "direct, nic, sim and auto"
        raise ArgumentError(f"the fabric {settings.fabric} does not exist yet: this version has {have}")
    if settings.trace is not None and settings.fabric != "nic":
        raise ArgumentError(f"SHMEMU_TRACE={settings.trace} shows runs on nic, not on {settings.fabric}: unset it")
    if settings.sanitize is not None and settings.fabric == "sim":
        raise ArgumentError(
            f"SHMEMU_SANITIZE={settings.sanitize} records real runs: unset it, and use shmemu check --races on sim"
        )
    if settings.sanitize is not None and settings.trace is not None:
        raise ArgumentError(f"SHMEMU_SANITIZE={settings.sanitize} and SHMEMU_TRACE={settings.trace}: one at a time")


def _variable(field: str) -> Variable:
    return next(variable for variable in VARIABLES if variable.field == field)


def _warn_of_unknown(environ: Mapping[str, str]) -> None:
    known = [variable.name.removeprefix(_PREFIX) for variable in VARIABLES]
    for name in sorted(environ):
        rest = name.removeprefix(_PREFIX)
        if rest != name and rest not in known and name not in _warned:
            _warned.add(name)
            import difflib

            close = difflib.get_close_matches(rest, known, n=1)
            hint = f"; did you mean {_PREFIX}{close[0]}?" if close else ""
            sys.stderr.write(f"shmemu: warning: unknown environment variable {name} has no effect{hint}\n")


def page() -> str:
    """docs/environment.md: the table above for readers."""
    return _HEAD + "".join(_row(variable) for variable in VARIABLES)


_HEAD = """\
# Environment variables

Generated by `python -m shmem.config`; do not edit. Arguments of calls win over variables, an empty variable
counts as unset, a value that is not allowed raises `ArgumentError`, and an unknown name that begins with
`SHMEMU_` warns. The internal ones are set by the launcher. What is marked **not yet** this version does not have.

Sizes are decimal numbers of bytes with at most one of `k M G T` (powers of 1024); fractions round up, and
what follows the suffix is ignored: `3.1M` is 3250586, `20kk` is `20k`.

| variable | default | may be | meaning |
|---|---|---|---|
"""


def _row(variable: Variable) -> str:
    meaning = variable.meaning + (" (internal)" if variable.internal else "") + _missing(variable)
    return f"| `{variable.name}` | {variable.default or 'unset'} | {variable.kind.allowed} | {meaning} |\n"


def _missing(variable: Variable) -> str:
    if not variable.missing:
        return ""
    return " (**not yet**)" if variable.missing == "all of it" else f" (**not yet**: {variable.missing})"


if __name__ == "__main__":
    print(page(), end="")
