"""Any table of text with a header line: a record a line, columns by usual names or ``--map``.

What separates the columns shows in the header: the most frequent of comma, semicolon, tab and bar,
or else spaces; ``--separator`` says otherwise. Several spaces separate as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from llmprism.ingest.columns import choose, recognised, unused
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import text_tables as tables_of_text
from llmprism.ingest.sources import BROKEN, Source
from llmprism.ingest.tables import convert_both
from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError

_DELIMITERS = ",;\t|"
SPACES = " "
_BLOCK_BYTES = 1 << 22
_NULLS = frozenset({"", "-", "(null)", "NULL", "null", "NA", "N/A", "\\N"})
_WRONG = "line with another number of columns than the header"
_SHOWN = {"src", "dst", "bytes"}
"""Columns that show that words in a line are a header."""


def _recognises(head: bytes, _name: str) -> bool:
    line = head.split(b"\n", 1)[0]
    if b"\0" in head or line.lstrip().startswith((b"{", b"[")):
        return False
    if any(mark.encode() in line for mark in _DELIMITERS):
        return True
    return recognised(_first_line(head).split()) >= _SHOWN


@register("csv", "any table with a header line; --map names its columns", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a table of text."""
    names, delimiter = header(source, options.separator)
    chosen = choose(names, options.mapping, options.time_unit, str(source))
    notes.remark(unused(names, chosen))
    for table in text_tables(source, names, delimiter, notes):
        yield from convert_both(table, chosen, options)


def header(source: Source, separator: str | None = None) -> tuple[list[str], str]:
    """Return the names of the columns and what separates them."""
    line = _first_line(source.head)
    most = max(_DELIMITERS, key=Counter(line).__getitem__)
    delimiter = separator or (most if most in line else SPACES)
    parts = line.split() if delimiter == SPACES else line.split(delimiter)
    names = [name.strip().strip('"') for name in parts]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        what = f"column {twice[0]!r} appears more than once in the header"
        how = "give every column a name of its own"
        if twice[0].isdigit():
            what, how = "no names of columns in the first line", "write them above the values"
        raise UserError(Problem(what, str(source), how))
    return names, delimiter


def _first_line(head: bytes) -> str:
    text = head.decode("utf-8-sig", errors="replace")
    line = text.split("\n", notes_above(head) + 1)[notes_above(head) :][:1]
    return "".join(line).rstrip("\r").removeprefix("#").lstrip(" ")


def notes_above(head: bytes) -> int:
    """How many lines above the header are notes of InfluxDB about its columns."""
    return len(re.findall(rb"(?:\A|(?<=\n))#(?:group|datatype|default),", head.split(b"\n,", 1)[0]))


def text_tables(
    source: Source,
    names: list[str],
    delimiter: str,
    notes: Notes,
    ending: str | None = None,
    has_header: bool = True,
) -> Iterator[pa.Table]:
    """Yield the lines of a table, after its header, as tables of text.

    What begins with a line that starts with ``ending`` is not part of the table.
    """
    if delimiter == SPACES:
        yield from tables_of_text(_spaced(source, names, notes, has_header), names)
        return
    has_ended = False

    def bad_line(row: Any) -> str:
        nonlocal has_ended
        has_ended |= ending is not None and (row.text or "").startswith(ending)
        notes.drop(_WRONG, not has_ended)
        return "skip"

    with source.utf8() as stream:
        try:
            blocks = pc.open_csv(
                stream,
                pc.ReadOptions(
                    block_size=_BLOCK_BYTES,
                    column_names=names,
                    skip_rows=int(has_header) + notes_above(source.head),
                    use_threads=False,
                ),
                pc.ParseOptions(delimiter=delimiter, invalid_row_handler=bad_line),
                pc.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    check_utf8=False,
                    strings_can_be_null=True,
                    null_values=[*_NULLS],
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


def _spaced(
    source: Source, names: list[str], notes: Notes, has_header: bool
) -> Iterator[list[str | None]]:
    """The values of each line, which any number of spaces separates."""
    for line in islice(source.lines(notes), int(has_header), None):
        values = line.split()
        if len(values) == len(names):
            yield [None if one in _NULLS else one for one in values]
        else:
            notes.drop(_WRONG, bool(values))
