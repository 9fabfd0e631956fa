"""Failures as files: `OUT/failures/<hash>.json`, whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from .. import config
from ..errors import ArgumentError
from ..files import write_whole
from .report import Failure, Report
from .tokens import digest

SCHEMA = "shmemu-failure/1"


@dataclass(frozen=True)
class Saved:
    """What a file says of a failure that a replay needs."""

    program: str
    n_pes: int
    profile: str
    kind: str
    token: str
    command: str
    races: str


def save(report: Report, failure: Failure, out: str | os.PathLike[str] | None = None) -> Path:
    """Writes a failure into OUT/failures (default: `SHMEMU_OUT`) and returns the file. The same one has the same name.

    Raises ArgumentError if the folder can't be written to.
    """
    folder = Path(out if out is not None else config.read(warn=False).out) / "failures"
    more = [failure.text] if failure.kind == "race" else []  # one execution may have several
    path = folder / f"{digest(report.program, failure.kind, failure.who, failure.token, *more)}.json"
    what = {
        "schema": SCHEMA, "program": report.program, "n_pes": report.n_pes, "profile": report.profile,
        "strategy": report.strategy, "seed": report.seed, "races": report.races, "kind": failure.kind,
        "pe": failure.pe, "text": failure.text, "token": failure.token, "story": failure.story,
        "command": failure.command,
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(what, indent=1) + "\n")
    except OSError as error:
        raise ArgumentError(f"the failure can't be saved in {folder}: {error.strerror}") from None
    return path


def is_file(text: str) -> bool:
    """Whether what is to be replayed is a file, not a token."""
    return text.endswith(".json") or os.path.exists(text)


def token_of(text: str) -> str:
    """A token, or that of a file. Raises ArgumentError."""
    return read(text).token if is_file(text) else text


def read(path: str | os.PathLike[str]) -> Saved:
    """What a file says. Raises ArgumentError if it is no saved failure."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"{path} can't be read: {error.strerror}") from None
    except ValueError:
        data = None
    try:
        if data["schema"] != SCHEMA:
            raise KeyError
        texts = [data["profile"], data.get("kind", ""), data["token"], data["command"], data.get("races", "")]
        if not all(isinstance(each, str) for each in [data["program"], *texts]):
            raise TypeError
        return Saved(data["program"], int(data["n_pes"]), *texts)
    except (KeyError, TypeError, ValueError):
        raise ArgumentError(f"{path} is no saved failure: those are JSON and have the schema {SCHEMA}") from None
