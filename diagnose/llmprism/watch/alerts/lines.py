"""The file of all events, ``alerts.jsonl``: one JSON object a line, each event once.

The file turns over: one of TURN_BYTES becomes ``alerts.jsonl.1``, in place of the one of before.
An event is in the state before it is written here. After a crash, the number of the last line shows
which events are missing; a line that was cut off is removed.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prism_common.service.durable import compact

TURN_BYTES = 1 << 26
_TAIL_BYTES = 1 << 16


class AlertLines:
    """Appends events to a file."""

    def __init__(self, path: Path, turn_bytes: int = TURN_BYTES) -> None:
        self.path, self._turn_bytes = path, turn_bytes
        self._before = path.with_name(f"{path.name}.1")
        self.written = _last_number(path) or _last_number(self._before)

    def write(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Append the events that are not in the file yet, and return them."""
        fresh = [event for event in events if event["number"] > self.written]
        if fresh:
            self._append("".join(f"{compact(event)}\n" for event in fresh).encode())
            self.written = fresh[-1]["number"]
        return fresh

    def _append(self, content: bytes) -> None:
        """Append all of ``content``, or nothing."""
        if self.path.exists() and self.path.stat().st_size >= self._turn_bytes:
            self.path.replace(self._before)
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise


def _last_number(path: Path) -> int:
    """Number of the last event of a file, whose last line is removed if it was cut off."""
    if not path.exists():
        return 0
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        whole = tail[: tail.rfind(b"\n") + 1]
        file.truncate(size - len(tail) + len(whole))
    lines = whole.splitlines()
    return int(json.loads(lines[-1])["number"]) if lines else 0
