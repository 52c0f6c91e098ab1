"""Readers of telemetry, by name: one format, one file, one registration.

A *reader* is a generator: ``read(source, options, notes)`` yields batches
(:mod:`llmprism.ingest.records`), a bounded number of records at a time, and counts in ``notes``
what becomes no record. It is registered with a test that recognises its files by their first
bytes and their name. A package outside brings readers by entry points of the group
``llmprism.readers``; the named module registers them when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points

import pyarrow as pa

from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError

Read = Callable[[Source, Options, Notes], Iterator[pa.Table]]
Recognise = Callable[[bytes, str], bool]
GROUP = "llmprism.readers"


@dataclass(frozen=True)
class Reader:
    """A way to read one format.

    Attributes
    ----------
    recognises : whether the first bytes and the name of a file are of this format.
    """

    name: str
    summary: str
    recognises: Recognise
    read: Read


_OWN = (  # specific ones first
    "parquet", "netflow", "sflow", "nfcapd", "pcap", "nfdump_csv", "vpc_flow_log", "zeek",
    "sflowtool", "azure_flow_log", "gcp_flow_log", "goflow2", "goflow2_protobuf", "akvorado",
    "json", "csv",
)  # fmt: skip
_KEYED = frozenset({"vpc_flow_log", "gcp_flow_log", "goflow2", "akvorado", "json"})
_readers: dict[str, Reader] = {}


def register(name: str, summary: str, recognises: Recognise) -> Callable[[Read], Read]:
    """Make a function known as the reader ``name``."""

    def keep(read: Read) -> Read:
        _readers[name] = Reader(name, summary, recognises, read)
        return read

    return keep


def readers() -> list[Reader]:
    """Return all readers, in the order in which they are tried."""
    for module in _OWN:
        import_module(f"{__name__}.{'keyed' if module in _KEYED else module}")
    outside = [point for point in entry_points(group=GROUP) if point.name not in _readers]
    for point in outside:
        point.load()
    rank = {name: place for place, name in enumerate(_OWN)}
    return sorted(_readers.values(), key=lambda one: rank.get(one.name, -1))


def get(name: str) -> Reader:
    """Return a reader by name; an unknown name is a :class:`UserError` that lists them."""
    known = {one.name: one for one in readers()}
    if name not in known:
        listed = ", ".join(sorted(known))
        raise UserError(Problem(f"there is no format {name!r}", "--format", f"known: {listed}"))
    return known[name]


def recognise(source: Source) -> Reader:
    """Return the reader of a file.

    Raises
    ------
    UserError : if no reader recognises it.
    """
    for reader in readers():
        if reader.recognises(source.head, source.path.name):
            return reader
    if not source.head:
        raise UserError(Problem("there is nothing in it", str(source), "export it again"))
    listed = ", ".join(sorted(one.name for one in readers()))
    how = f"name its format with --format: {listed}"
    raise UserError(Problem("its format is not recognised", str(source), how))
