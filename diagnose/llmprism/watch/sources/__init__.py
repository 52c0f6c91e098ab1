"""Where records come from, by kind: one kind, one file, one registration.

A source hands over *files* that the readers of :mod:`llmprism.ingest` read, and its *position*
behind them. The monitor stores the position together with the records, and gives it back at the
next call. So a source keeps nothing that must survive, and hands over again what was not stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from llmprism.ingest.sources import Source as File
from prism_common.errors import Problem, UserError


@dataclass(frozen=True)
class Taken:
    """What a source handed over.

    Attributes
    ----------
    files : to read, in order.
    position : of the source behind them, in a form that JSON can hold.
    refused : lines and messages that came and are set aside, because no reader could take them.
    dropped : datagrams that were lost since the source was opened: by the kernel, or because too
        much waits.
    is_end : nothing more will come.
    watermark_ns : time up to which records have come, if the source knows [ns].
    """

    files: list[File] = field(default_factory=list)
    position: Any = None
    refused: int = 0
    dropped: int = 0
    is_end: bool = False
    watermark_ns: int | None = None


class Source(Protocol):
    """Something that records come from."""

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return what has come behind ``position``; wait up to ``wait_s`` if there is nothing."""

    def stored(self, taken: Taken) -> None:
        """What was taken is stored; the source may let go of it."""
        return

    def close(self) -> None:
        """End."""
        return


class NoFlows(Source):
    """The source of a monitor that has collectives alone."""

    def take(self, position: Any, wait_s: float) -> Taken:
        """Wait."""
        time.sleep(wait_s)
        return Taken(position=position)


Open = Callable[[str, Path], Source]
"""Opens a source by what the user called it; the folder is for files that wait to be read."""
Recognise = Callable[[str], bool]

_OWN = ("standard_input", "udp", "kafka", "directory")
_kinds: dict[str, tuple[str, Recognise, Open]] = {}


def register(name: str, summary: str, recognises: Recognise) -> Callable[[Open], Open]:
    """Make a function known as the way to open the sources that ``recognises`` holds for."""

    def keep(opens: Open) -> Open:
        _kinds[name] = (summary, recognises, opens)
        return opens

    return keep


def open_source(text: str | None, folder: Path) -> Source:
    """Open the source of flows that ``text`` names.

    Raises
    ------
    UserError : no kind of source is written like this, or it cannot be opened.
    """
    if text is None:
        return NoFlows()
    for module in _OWN:
        import_module(f"{__name__}.{module}")
    for name in _OWN:
        _, recognises, opens = _kinds[name]
        if recognises(text):
            return opens(text, folder)
    known = "; ".join(summary for summary, _, _ in _kinds.values())
    raise UserError(Problem("this is no source of records", text, f"name one of these: {known}"))
