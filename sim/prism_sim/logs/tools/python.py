"""Uncaught exceptions of Python: a traceback and the error.

Since PyTorch 2.3 each line of it begins with the rank once the process groups exist
(torch/distributed/distributed_c10d.py, the hook for uncaught exceptions). Python 3.11 and later
mark the part of a line that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from prism_sim.logs.text import Message, message
from prism_sim.logs.tools.base import Tool

PACKAGES = "PACKAGES"
"""Stands for the folder of installed packages in the file of a frame."""


class Frame(NamedTuple):
    """A call: file, line, function and the code of the line."""

    file: str
    line: int
    function: str
    code: str


class Python(Tool):
    """Python 3.12."""

    version: ClassVar[str] = "3.12"

    def traceback(
        self, rank: int, event: str, frames: Sequence[Frame], error: str, *, grouped: bool = True
    ) -> Message:
        """An uncaught exception of ``rank``; ``grouped`` is whether its process groups exist."""
        lines = ["Traceback (most recent call last):"]
        for frame in frames:
            file = frame.file.replace(PACKAGES, self.packages)
            lines.append(f'  File "{file}", line {frame.line}, in {frame.function}')
            lines.append(f"    {frame.code}")
            lines += self.marks(frame)
        lines += error.split("\n")
        hooked = grouped and self.job.versions["torch"] != "2.2"
        prefix = f"[rank{rank}]: " if hooked else ""
        return message(f"python.{event}", *(prefix + line for line in lines))

    def marks(self, frame: Frame) -> list[str]:
        """The line below the code."""
        return [] if frame.code.startswith("raise") else [f"    {'^' * len(frame.code)}"]


class Python310(Python):
    """Python 3.10."""

    version: ClassVar[str] = "3.10"

    def marks(self, frame: Frame) -> list[str]:
        return []
