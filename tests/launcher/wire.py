"""JSON lines over a socket between the launcher and each rank of its job.

The launcher sends `{"run": test id, ...}`, a rank answers with one line a test. The end of the stream is a
message too: a rank whose launcher is gone stops, and the launcher learns at once that a rank died.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]


class Wire:
    """One end of the connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._pending = b""

    def send(self, **message: Any) -> bool:
        """Sends one line; False if nobody listens any more."""
        try:
            self.sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self) -> list[Message] | None:
        """Waits for bytes and returns the lines that are complete by then, None at the end of the stream."""
        try:
            data = self.sock.recv(1 << 16)
        except OSError:
            return None
        if not data:
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def __iter__(self) -> Iterator[Message]:
        while (messages := self.receive()) is not None:
            yield from messages
