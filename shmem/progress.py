"""Progress of a job: PE 0 writes a small JSON file, the launcher draws it. No rank has a terminal to draw on.

The file is `{"phase": ..., "done": ..., "total": ..., "text": ...}`, replaced whole; without it nothing is
shown, and when it goes, the bar goes. On a terminal it is a bar that leaves no trace; elsewhere, and with CI
or TERM=dumb, plain lines such as `dispatch 40%`, at most one a second. NO_COLOR is honoured.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .rank import number

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

WRITE_EVERY_S = 0.1
LINE_EVERY_S = 1.0


class Progress:
    """What a program says of its progress. Every PE may have one: only that of PE 0 writes, steps at most ten
    times a second, and none does where no launcher of ours listens. `total` counts steps of the whole job, 0
    if that is not known.

        progress = Progress(total=100)
        progress.now("exchange")
        progress.advance()
        progress.close()
    """

    def __init__(self, total: int = 0, path: str | os.PathLike[str] | None = None) -> None:
        asked = path or os.environ.get("SHMEMU_STATUS_FILE") or None
        self._path = Path(asked) if asked and number() == 0 else None
        self._state: dict[str, Any] = {"phase": "", "done": 0, "total": total, "text": ""}
        self._next_s = 0.0

    def now(self, phase: str, text: str = "") -> None:
        """Names what is being done; the steps go on counting. Written at once: it may take long."""
        self._state.update(phase=phase, text=text)
        self._next_s = 0.0
        self._write()

    def advance(self, steps: int = 1) -> None:
        """Counts steps that are done."""
        self._state["done"] += steps
        self._write()

    def update(self, *, done: int | None = None, total: int | None = None, text: str | None = None) -> None:
        """Sets what is given."""
        given = {"done": done, "total": total, "text": text}
        self._state.update({name: value for name, value in given.items() if value is not None})
        self._write()

    def close(self) -> None:
        """Ends the display. Without it the end of the job does."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def _write(self) -> None:
        if self._path is None or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + WRITE_EVERY_S
        part = self._path.with_suffix(".part")
        try:
            part.write_text(json.dumps(self._state), encoding="utf-8")
            os.replace(part, self._path)
        except OSError:  # the launcher is gone: nobody watches
            self._path = None


class Drawing:
    """The launcher's side: call `poll` often; before anything else is printed on a terminal, `hide`."""

    def __init__(self, path: Path, stream: TextIO | None) -> None:
        self._path = path
        self._last: dict[str, Any] | None = None
        self.on_terminal = stream is not None and _can_draw(stream)
        self._painter = None if stream is None else _Bar(stream) if self.on_terminal else _Lines(stream)

    def poll(self) -> None:
        """Draws the file if it changed."""
        if self._painter is None:
            return
        try:
            state = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.hide()
            return
        self.draw(state)

    def draw(self, state: dict[str, Any]) -> None:
        """Draws a state, with the fields of the file, if it is another one."""
        if self._painter is not None and state != self._last:
            self._last = dict(state)
            self._painter.show(state)

    def hide(self) -> None:
        """Takes the bar off the screen, until the next change."""
        if self._painter is not None:
            self._painter.hide()
        self._last = None


def _can_draw(stream: TextIO) -> bool:
    ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb") and not ci


def percent(state: dict[str, Any]) -> int | None:
    """How much is done, 0 to 100; None where the total is not known."""
    return min(100, 100 * int(state["done"]) // int(state["total"])) if state["total"] else None


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s = 0.0
        self._shown = ""

    def show(self, state: dict[str, Any]) -> None:
        done = percent(state)
        line = " ".join(filter(None, (state["phase"], f"{done}%" if done is not None else "", state["text"])))
        if line != self._shown and time.monotonic() >= self._next_s:
            self._shown, self._next_s = line, time.monotonic() + LINE_EVERY_S
            with contextlib.suppress(OSError):
                self._stream.write(line + "\n")
                self._stream.flush()

    def hide(self) -> None:
        pass


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: RichProgress | None = None

    def show(self, state: dict[str, Any]) -> None:
        fields = {"description": state["phase"], "completed": state["done"], "text": state["text"]}
        fields["total"] = state["total"] or None
        if self._bar is None:
            self._bar = self._start(fields)
        else:
            self._bar.update(self._bar.task_ids[0], **fields, refresh=True)

    def hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self, fields: dict[str, Any]) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[text]}", markup=False),
        )
        # Not refreshed by a thread, and nothing of this process redirected: ranks write past Python.
        bar = RichProgress(
            *columns,
            console=Console(file=self._stream),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task(**fields)
        bar.start()
        return bar
