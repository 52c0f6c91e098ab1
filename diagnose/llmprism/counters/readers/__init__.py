"""Readers of counters, one format a file.

A reader knows its files by their content. A new format is a new file and an entry in
:data:`READERS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from llmprism.counters.readers import documents, tables, texts
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import PortReadings, Readings
from llmprism.ingest.sources import Source
from llmprism.io.asking import is_address
from prism_common.errors import Problem, UserError
from prism_common.quantities import LONE, lone_times

HEAD_BYTES = 4096
"""What a reader looks at to know its format."""
READERS = (documents, texts, tables)
"""All formats; the first whose ``knows`` is true of a path and its first bytes reads the file."""


def read(inputs: Sequence[str], options: Options) -> Readings:
    """The readings of all inputs together: files, and URLs of Prometheus.

    Raises
    ------
    UserError : for each input that cannot be read, or has no counters.
    """
    parts, problems = [], []
    for given in inputs:
        try:
            parts.append(_read_one(given, options))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    forms = {part.form for part in parts if part.form is not None}
    if len(forms) > 1:
        what = "some inputs have cumulative counters and others differences"
        raise UserError(
            Problem(what, ", ".join(inputs), "diagnose them one by one, or name --form")
        )
    return _within(_joined(parts), options)


def _read_one(given: str, options: Options) -> Readings:
    if is_address(given):
        return documents.fetch(given, options)
    path = Path(given)
    if path.is_dir():
        raise UserError(Problem("this is a folder", given, "name the files in it"))
    head = Source(path).head[:HEAD_BYTES]
    for reader in READERS:
        if reader.knows(path, head):
            found: Readings = reader.read(path, options)
            return replace(found, form=options.form or found.form)
    known = ", ".join(reader.NAME for reader in READERS)
    how = f"known: {known}; or write a table, a row a reading: time, port, in_bytes, out_bytes"
    raise UserError(Problem("no counters in a format that is known", given, how))


def _joined(parts: Sequence[Readings]) -> Readings:
    """Readings of one port from several inputs follow each other."""
    import numpy as np

    ports: dict[tuple[str, str, str], list[PortReadings]] = {}
    set_aside: Counter[str] = Counter()
    for part in parts:
        set_aside += part.set_aside
        for port in part.ports:
            ports.setdefault((port.port, port.counter, port.unit), []).append(port)
    joined = []
    for pieces in ports.values():
        columns = set.intersection(*(set(piece.values) for piece in pieces))
        values = {c: np.concatenate([piece.values[c] for piece in pieces]) for c in columns}
        time_ns = np.concatenate([piece.time_ns for piece in pieces])
        kept = ~np.isin(time_ns, [*lone_times(np.unique(time_ns).tolist())])
        set_aside[LONE] += int(np.sum(~kept))
        values = {name: column[kept] for name, column in values.items()}
        joined.append(replace(pieces[0], time_ns=time_ns[kept], values=values))
    form = next((part.form for part in parts if part.form is not None), None)
    return Readings(form, joined, set_aside)


def _within(readings: Readings, options: Options) -> Readings:
    """Only what lies between the two times of the options."""
    low, high = options.from_ns, options.to_ns
    if low is None and high is None:
        return readings
    ports = []
    for port in readings.ports:
        kept = (port.time_ns >= (low or 0)) & (port.time_ns < (high or 2**62))
        values = {name: column[kept] for name, column in port.values.items()}
        ports.append(replace(port, time_ns=port.time_ns[kept], values=values))
    return replace(readings, ports=ports)
