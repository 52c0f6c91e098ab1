"""Any Parquet: one record a row, columns by their usual names or ``--map``.

A flow table that this command wrote is read with its notes on how records were cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.ingest.columns import choose, unused
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import BATCH_ROWS
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.io.notes import Notes
from llmprism.io.sources import readable


def _recognises(head: bytes, _name: str) -> bool:
    return head.startswith(b"PAR1")


@register("parquet", "any Parquet; --map names its columns", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a Parquet file."""
    with readable(source.path, "if it is cut off, write it again"):
        file = pq.ParquetFile(source.path)
        names = file.schema_arrow.names
        chosen = choose(names, options.mapping, options.time_unit, str(source))
        notes.remark(unused(names, chosen))
        _note_cuts(file.metadata.metadata or {}, notes)
        for rows in file.iter_batches(BATCH_ROWS, columns=sorted(set(chosen.values()))):
            rows.validate(full=True)
            yield convert(pa.Table.from_batches([rows]), chosen, options)


def _note_cuts(metadata: dict[bytes, bytes], notes: Notes) -> None:
    for name, values in (
        (b"idle_gap_ns", notes.idle_gap_ns),
        (b"active_timeout_ns", notes.active_timeout_ns),
    ):
        text = metadata.get(name, b"")
        if text.isdigit() and len(text) < 19:
            values.add(int(text))
