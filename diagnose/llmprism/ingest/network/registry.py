"""Readers of network descriptions, by name: one format, one file, one registration.

A reader takes the text of a file, where it came from, and notes for what it leaves out, and
returns the :class:`~llmprism.ingest.network.parts.Parts` that it lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmprism.ingest.network.parts import Parts
from llmprism.ingest.notes import Notes

Read = Callable[[str, str, Notes], Parts]
Recognise = Callable[[str, str], bool]
"""Takes a file's text and name."""


@dataclass(frozen=True)
class Description:
    """A format of network descriptions, and how to recognise and read it."""

    name: str
    recognises: Recognise
    read: Read


known: dict[str, Description] = {}


def register(name: str, recognises: Recognise) -> Callable[[Read], Read]:
    """Make a function known as the reader of the descriptions ``name``."""

    def keep(read: Read) -> Read:
        known[name] = Description(name, recognises, read)
        return read

    return keep
