"""Events of a trace as JSON: single ones as dictionaries, many at once as lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Event = dict[str, Any]


def describe(pid: int, name: str) -> Iterator[Event]:
    """Name a process, and put it at its place."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    order = {"sort_index": pid}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": order}


def thread(pid: int, tid: int, name: str) -> Event:
    """Name a track."""
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def lines(*pieces: str | pa.Array) -> Iterator[str]:
    """Join texts and columns of texts to one line for each row; one string has all lines."""
    columns = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    rows = pc.binary_join_element_wise(*columns, "")
    if len(rows):
        yield ",\n".join(rows.to_pylist())


def numbers(values: Ints) -> pa.Array:
    """Integers as text."""
    return pc.cast(pa.array(values), pa.string())


def microseconds(times_ns: Ints) -> pa.Array:
    """Times of at least 0 [ns] as text in microseconds, with three digits."""
    whole = np.asarray(times_ns, np.int64) // 1000
    rest = pc.utf8_lpad(numbers(np.asarray(times_ns, np.int64) - whole * 1000), 3, "0")
    return pc.binary_join_element_wise(numbers(whole), rest, ".")


def quoted(names: Iterable[str], codes: Ints) -> pa.Array:
    """The JSON text of one of ``names`` for each code."""
    return pa.array([json.dumps(str(name)) for name in names], pa.string()).take(pa.array(codes))
