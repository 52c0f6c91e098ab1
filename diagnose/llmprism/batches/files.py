"""The records of every batch, in a file of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.batches.dividing import Batches
from llmprism.io.columns import endpoint_codes
from llmprism.io.loading import NAMES, StoredRecords
from llmprism.io.topology import Topology


def write_batches(
    records: StoredRecords,
    batches: Batches,
    topology: Topology,
    folder: Path,
    progress: Callable[[float], None],
) -> list[Path]:
    """Write the records of each batch to a Parquet file in ``folder``, in their old order.

    ``progress`` gets the fraction done.

    Raises
    ------
    UserError : the file of records is damaged.
    """
    done = 0
    with _writers(records, batches.count, folder) as writers:
        for part in records.parts():
            unknown: Counter[str] = Counter()
            src, dst = (endpoint_codes(part[name], topology, unknown) for name in NAMES)
            batch = batches.of_pairs(src, dst)
            part = part.take(np.argsort(batch, kind="stable"))
            edges = np.append(0, np.cumsum(np.bincount(batch, minlength=batches.count)))
            for one, writer in enumerate(writers):
                if edges[one + 1] > edges[one]:
                    rows = part.slice(edges[one], edges[one + 1] - edges[one])
                    writer.write_table(rows.replace_schema_metadata())
            done += part.num_rows
            progress(done / records.rows)
    return [_path(folder, one) for one in range(batches.count)]


@contextmanager
def _writers(records: StoredRecords, count: int, folder: Path) -> Iterator[list[pq.ParquetWriter]]:
    """A writer for each batch, with the columns and notes of ``records``."""
    known = records.file.schema_arrow
    fields = [known.field(name) for name in records.names]  # text as categories
    schema = pa.schema(fields, metadata=records.notes)
    with ExitStack() as stack:
        yield [
            stack.enter_context(pq.ParquetWriter(_path(folder, one), schema, compression="lz4"))
            for one in range(count)
        ]


def _path(folder: Path, batch: int) -> Path:
    return folder / f"records-{batch}.parquet"
