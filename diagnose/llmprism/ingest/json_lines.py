"""JSON lines: one object a line, read in batches; a line that is none is counted.

A reader of such a format names the keys it needs; a batch is a table of text with one column a
key, so that whole numbers of any size stay exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from llmprism.ingest.bounds import LONGEST_TEXT
from llmprism.ingest.notes import Notes
from llmprism.ingest.records import BATCH_ROWS
from llmprism.ingest.sources import BROKEN, Source

_LONGEST = 1 << 20  # characters of a line


def first_object(head: bytes) -> dict[str, Any]:
    """Return the first object of a file's first bytes; empty if there is none."""
    line = head.split(b"\n", 1)[0].strip()
    if not line.startswith(b"{"):
        return {}
    return _object(line.decode("utf-8", errors="replace")) or {}


def text_tables(
    source: Source, keys: Sequence[str], notes: Notes, inner: str | None = None
) -> Iterator[pa.Table]:
    """Yield tables of text with the columns ``keys``; a key that an object lacks is null.

    Keys that an object lacks are looked up in the object that it has under ``inner``.
    """
    rows: list[list[str | None]] = []
    for outer in _objects(source, notes):
        more = outer.get(inner) if inner else None
        content = {**more, **outer} if isinstance(more, dict) else outer
        rows.append([_text(content.get(key)) for key in keys])
        if len(rows) >= BATCH_ROWS:
            yield _table(rows, keys)
            rows = []
    if rows:
        yield _table(rows, keys)


def _objects(source: Source, notes: Notes) -> Iterator[dict[str, Any]]:
    with source.text() as lines:
        try:
            while line := lines.readline(_LONGEST):
                content = _object(line)
                if content is not None:
                    yield content
                elif line.strip():
                    notes.drop("line that is no JSON object")
        except BROKEN as error:
            notes.drop("file not read to its end")
            notes.remark(f"{source}: read up to where it is damaged: {error}")


def _object(line: str) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return None
    text = value if isinstance(value, str) else repr(value)
    if len(text) > LONGEST_TEXT:
        return None
    return text.encode("utf-8", errors="replace").decode()  # a lone surrogate is no text


def _table(rows: list[list[str | None]], keys: Sequence[str]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {key: pa.array(col, pa.string()) for key, col in zip(keys, columns, strict=True)}
    )
