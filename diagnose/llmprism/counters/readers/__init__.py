"""Readers of counters, one format a file.

A reader knows its files by their content. A new format is a new file and an entry in
:data:`READERS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmprism.counters.readers import gnmi, infiniband, prometheus, tables, zhejiang
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import PortReadings, Readings
from prism_common.errors import Problem, UserError

HEAD_BYTES = 4096
"""What a reader looks at to know its format."""


@dataclass(frozen=True)
class Reader:
    """A format: whether a file has it, and how it is read."""

    name: str
    knows: Callable[[Path, bytes], bool]
    read: Callable[[Path, Options], Readings]


READERS = tuple(
    Reader(module.NAME, module.knows, module.read)
    for module in (zhejiang, prometheus, gnmi, infiniband, tables)
)
"""All formats; the first that knows a file reads it."""


def read(inputs: Sequence[str], options: Options) -> Readings:
    """The readings of all inputs together: files, the folder of Zhejiang Lab, URLs of Prometheus.

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
    forms = {part.form for part in parts}
    if len(forms) > 1:
        what = "some inputs have cumulative counters and others differences"
        raise UserError(
            Problem(what, ", ".join(inputs), "diagnose them one by one, or name --form")
        )
    return _within(_joined(parts), options)


def _read_one(given: str, options: Options) -> Readings:
    if given.startswith(("http://", "https://")):
        return prometheus.fetch(given, options)
    path = Path(given)
    try:
        head = b"" if path.is_dir() else _head(path)
    except OSError as error:
        raise UserError(Problem(f"cannot read this: {error.strerror}", given)) from error
    for reader in READERS:
        if reader.knows(path, head):
            return reader.read(path, options)
    known = ", ".join(reader.name for reader in READERS)
    raise UserError(Problem("no counters in a format that is known", given, f"known: {known}"))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _joined(parts: Sequence[Readings]) -> Readings:
    """Readings of one port from several inputs follow each other."""
    import numpy as np

    ports: dict[str, list[PortReadings]] = {}
    set_aside: Counter[str] = Counter()
    for part in parts:
        set_aside += part.set_aside
        for port in part.ports:
            ports.setdefault(port.port, []).append(port)
    joined = []
    for name, pieces in ports.items():
        columns = set.intersection(*(set(piece.values) for piece in pieces))
        values = {c: np.concatenate([piece.values[c] for piece in pieces]) for c in columns}
        time_ns = np.concatenate([piece.time_ns for piece in pieces])
        joined.append(PortReadings(name, time_ns, values))
    return Readings(parts[0].form if parts else "cumulative", joined, set_aside)


def _within(readings: Readings, options: Options) -> Readings:
    """Only what lies between the two times of the options."""
    low, high = options.from_ns, options.to_ns
    if low is None and high is None:
        return readings
    ports = []
    for port in readings.ports:
        kept = (port.time_ns >= (low or 0)) & (port.time_ns < (high or 2**62))
        values = {name: column[kept] for name, column in port.values.items()}
        ports.append(PortReadings(port.port, port.time_ns[kept], values))
    return replace(readings, ports=ports)
