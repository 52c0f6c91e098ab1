"""Any CSV with a header line: one record a line, columns by their usual names or ``--map``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from llmprism.errors import Problem, UserError
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.sources import BROKEN, Source
from llmprism.ingest.tables import choose, convert

_DELIMITERS = ",;\t|"
_BLOCK_BYTES = 1 << 22
_WRONG = "line with another number of columns than the header"


def _recognises(head: bytes, _name: str) -> bool:
    line = head.split(b"\n", 1)[0]
    return b"\0" not in head and any(mark.encode() in line for mark in _DELIMITERS)


@register("csv", "any CSV with a header line; --map names its columns", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a CSV."""
    names, delimiter = header(source)
    chosen = choose(names, options, str(source))
    for table in text_tables(source, names, delimiter, notes):
        yield convert(table, chosen, options)


def header(source: Source) -> tuple[list[str], str]:
    """Return the names of the columns and what separates them."""
    line = source.head.decode("utf-8-sig", errors="replace").split("\n", 1)[0].rstrip("\r")
    delimiter = max(_DELIMITERS, key=Counter(line).__getitem__)
    names = [name.strip().strip('"') for name in line.split(delimiter)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        what = f"column {twice[0]!r} appears more than once in the header"
        raise UserError(Problem(what, str(source), "give every column a name of its own"))
    return names, delimiter


def text_tables(
    source: Source, names: list[str], delimiter: str, notes: Notes, ending: str | None = None
) -> Iterator[pa.Table]:
    """Yield the lines of a CSV after its header as tables of text.

    What begins with the line ``ending`` is not part of the table.
    """
    has_ended = False

    def bad_line(row: Any) -> str:
        nonlocal has_ended
        has_ended |= ending is not None and row.text == ending
        notes.drop(_WRONG, not has_ended)
        return "skip"

    with source.utf8() as stream:
        try:
            blocks = pc.open_csv(
                stream,
                pc.ReadOptions(
                    block_size=_BLOCK_BYTES, column_names=names, skip_rows=1, use_threads=False
                ),
                pc.ParseOptions(delimiter=delimiter, invalid_row_handler=bad_line),
                pc.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    check_utf8=False,
                    strings_can_be_null=True,
                    null_values=["", "-", "(null)", "NULL", "null", "NA", "N/A"],
                ),
            )
            for block in blocks:
                yield pa.Table.from_batches([block])
        except (*BROKEN, ValueError) as error:
            if "Empty CSV" in str(error):
                return
            first = (str(error).splitlines() or ["damaged"])[0]
            notes.drop("file not read to its end")
            notes.remark(f"{source}: read up to where it is damaged: {first}")
