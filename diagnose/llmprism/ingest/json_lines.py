"""JSON of flows: one object a line, read in batches, or one document with all of them.

A document is an array of objects, or an object with an array of them under ``records``; it is read
as a whole, so it must not be too large. A line that is no object is counted. A reader of such a
format names the keys it needs, of objects within objects as paths (``flow.start``); a batch is a
table of text with one column a key, so that whole numbers of any size stay exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from llmprism.ingest.bounds import LONGEST_TEXT
from llmprism.ingest.records import text_tables as tables_of_text
from llmprism.ingest.sources import BROKEN, Source
from llmprism.io.notes import Notes

_LONGEST_DOCUMENT = 1 << 28
_RECORDS = "records"
_DEEPEST = 8  # objects within objects
_SAMPLED = 200  # objects at the start of a file


def first_object(head: bytes) -> dict[str, Any]:
    """Return the first object of a file's first bytes; empty if there is none."""
    return next(_first_objects(head), {})


def first_keys(head: bytes) -> list[str]:
    """Return the keys of the first objects of a file, of inner objects as paths."""
    return list(dict.fromkeys(key for one in _first_objects(head) for key in _paths(one)))


def _first_objects(head: bytes) -> Iterator[dict[str, Any]]:
    """Yield the whole objects among the first bytes of a file."""
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    place = 1 if text.startswith("[") else 0
    decoder = json.JSONDecoder()
    for _ in range(_SAMPLED):
        while text[place : place + 1] in (" ", "\t", "\r", "\n", ","):
            place += 1
        try:
            found, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        if not isinstance(found, dict):
            return
        yield found


def _paths(content: dict[str, Any], before: str = "", depth: int = 0) -> Iterator[str]:
    for key, value in content.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _paths(value, f"{before}{key}.", depth + 1)
        else:
            yield f"{before}{key}"


def text_tables(
    source: Source, keys: Sequence[str], notes: Notes, inner: str | None = None
) -> Iterator[pa.Table]:
    """Yield tables of text with the columns ``keys``; a key that an object lacks is null.

    Keys that an object lacks are looked up in the object that it has under ``inner``.
    """
    ways = [key.split(".") for key in keys]

    def rows() -> Iterator[list[str | None]]:
        for outer in objects(source, notes):
            more = outer.get(inner) if inner else None
            content = {**more, **outer} if isinstance(more, dict) else outer
            yield [_text(_at(content, key, way)) for key, way in zip(keys, ways, strict=True)]

    yield from tables_of_text(rows(), keys)


def objects(source: Source, notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, whether they are lines or one document."""
    if not _is_document(source.head):
        yield from _lines(source, notes)
        return
    whole = _document(source, notes)
    inner = whole.get(_RECORDS, [whole]) if isinstance(whole, dict) else whole
    for one in inner if isinstance(inner, list) else ():
        if isinstance(one, dict):
            yield one
        else:
            notes.drop("element that is no JSON object")


def _is_document(head: bytes) -> bool:
    """Whether a file is one document: its first line is no whole object of a flow."""
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    first = _object(text.split("\n", 1)[0])
    return text.startswith(("[", "{")) and (first is None or _RECORDS in first)


def _document(source: Source, notes: Notes) -> Any:
    text = ""
    with source.text() as stream:
        try:
            text = stream.read(_LONGEST_DOCUMENT)
            return json.loads(text)
        except (*BROKEN, ValueError, RecursionError) as error:
            reason = "too large" if len(text) == _LONGEST_DOCUMENT else f"damaged ({error})"
            notes.drop("file not read to its end")
            notes.remark(f"{source}: this document is {reason}; export JSON lines")
            return []


def _lines(source: Source, notes: Notes) -> Iterator[dict[str, Any]]:
    for line in source.lines(notes):
        content = _object(line)
        if content is not None:
            yield content
        elif line.strip():
            notes.drop("line that is no JSON object")


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


def _at(content: dict[str, Any], key: str, way: list[str]) -> Any:
    """The value of a key, or at the end of a path."""
    if key in content or len(way) == 1:
        return content.get(key)
    at: Any = content
    for part in way:
        at = at.get(part) if isinstance(at, dict) else None
    return at
