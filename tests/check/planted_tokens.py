"""Saved tokens of the planted bugs: `python -m tests.check.planted_tokens` finds each bug and writes them anew.

A token holds a hash of its program and profile, so it has to be renewed when one of them is changed. Otherwise it must
not change: the executions that tokens name are the same in every version with the same token format.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shmem.check.exploration import explore, replay
from shmem.check.report import Report
from shmem.delivery.profiles import varied
from shmem.errors import ReplayMismatch

from .planted_all import PLANTED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]

FILE = Path(__file__).parents[1] / "data" / "planted_tokens.toml"
RENEW = "python -m tests.check.planted_tokens"
HEAD = f"""\
# For each planted bug (tests/check/planted.py) an execution in which it fails. Written by
#     {RENEW}
"""


def read(path: Path) -> dict[str, Any]:
    """What a file of TOML says."""
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found


def saved() -> dict[str, str]:
    """The token of each bug."""
    return read(FILE)


def _case(name: str) -> dict[str, Any]:
    bug = PLANTED[name]
    return {"n_pes": bug.pes, "profile": varied(bug.profile, **bug.changes), "args": (False,), **bug.options}


def replayed(name: str, token: str) -> Report:
    """Runs a token. Raises AssertionError if the program is another one now, or does not fail so."""
    bug = PLANTED[name]
    try:
        report = replay(bug.program, token, **_case(name))
    except ReplayMismatch:
        raise AssertionError(
            f"{name} or its profile has changed since its token was saved. If that was meant: {RENEW}"
        ) from None
    kinds = [failure.kind for failure in report.failures]
    assert kinds == [bug.kind], f"the saved token of {name} ends with {kinds or 'no failure'}, not {bug.kind}: {report}"
    return report


def write() -> None:
    """Finds each bug and writes the file."""
    lines = []
    for name in PLANTED:
        [failure] = explore(PLANTED[name].program, **_case(name)).failures
        lines.append(f'{name} = "{failure.token}"\n')
    FILE.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write()
