"""Windows of time, for a batch of more records than are diagnosed at once.

The last eighth of a window is the first eighth of the next. Records belong to a window by their
start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from llmprism.io.columns import numbers
from llmprism.io.loading import StoredRecords
from llmprism.numerics.arrays import Ints

SLICES = 8  # of a window; one of them overlaps with the next window
_EVERY = 64  # records of which the start of one is looked at, to find slices of equal size


@dataclass(frozen=True)
class Window:
    """Records that start from ``first_ns`` on and before ``end_ns``."""

    first_ns: int
    end_ns: int
    path: Path


def fewest_windows(rows: int, most_records: int) -> int:
    """Number of windows of at most about ``most_records`` that hold ``rows`` records."""
    slices = -(-rows * SLICES // most_records)
    return max(1, -(-(slices - 1) // (SLICES - 1)))


def fewer_windows(count: int, steps: int, wanted: int) -> int:
    """Number of windows, less than ``count``, that have as many steps as ``wanted``.

    ``steps`` are those of a window if there are ``count``. If it has none, windows become twice
    as large.
    """
    if steps == 0:
        return count // 2
    every = steps * ((SLICES - 1) * count + 1)  # in slices of one step
    return max(1, min((every // wanted - 1) // (SLICES - 1), count - 1))


def windows_of(records: StoredRecords, count: int, folder: Path) -> list[Window]:
    """So many windows of equally many records, whose files will be in ``folder``."""
    starts = [numbers(part["start_ns"])[::_EVERY] for part in records.parts(["start_ns"])]
    edges = _edges(np.concatenate(starts), count)
    begins = range(0, count * (SLICES - 1), SLICES - 1)
    return [
        Window(
            int(edges[at]),
            int(edges[min(at + SLICES, edges.size - 1)]),
            folder / f"window-{number}.parquet",
        )
        for number, at in enumerate(begins)
    ]


def _edges(starts: Ints, windows: int) -> Ints:
    """The times [ns] between slices with equally many of the ``starts``, and at both ends."""
    slices = windows * (SLICES - 1) + 1
    edges = np.quantile(starts, np.linspace(0, 1, slices + 1), method="lower")
    whole: Ints = edges.astype(np.int64)
    whole[0], whole[-1] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return whole


def write_windows(
    records: StoredRecords, windows: list[Window], progress: Callable[[float], None]
) -> None:
    """Write the records of each window to its file; ``progress`` gets the fraction done."""
    known = records.file.schema_arrow
    schema = known.empty_table().select(records.names).schema.with_metadata(records.notes)
    done = 0
    with ExitStack() as stack:
        writers = [
            stack.enter_context(pq.ParquetWriter(one.path, schema, compression="lz4"))
            for one in windows
        ]
        for part in records.parts():
            start_ns = numbers(part["start_ns"])
            for one, writer in zip(windows, writers, strict=True):
                inside = (one.first_ns <= start_ns) & (start_ns < one.end_ns)
                if inside.any():
                    writer.write_table(part.filter(inside).replace_schema_metadata())
            done += part.num_rows
            progress(done / records.rows)
