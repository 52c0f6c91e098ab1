"""Formats with named values that a map describes: JSON, or lines with a header of fields.

``formats.toml`` has a map for each format that is known: goflow2, NetObserv, Akvorado, flow logs of
Google Cloud and AWS. JSON of any other exporter (nProbe, pmacct, Suricata, Kentik, ipfixcol2,
Filebeat) is read by the usual names of keys, or as ``--map`` names them; a key within an object is
named by its path (``--map start=flow.start``). What such an exporter says of sampling is used only
if it is mapped, since some scale their counts and others do not.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.columns import choose, unit_in, unused
from llmprism.ingest.json_lines import first_keys, text_tables
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.readers.csv import SPACES, header
from llmprism.ingest.readers.csv import text_tables as separated_tables
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert, convert_both
from llmprism.ingest.times import times_ns
from llmprism.io.notes import Notes

_JOINED = {"start": "\0start", "end": "\0end"}  # no key of a source is called so
_SAMPLING = re.compile(r"sampl(e|ing)", re.IGNORECASE)
_LINE = re.compile(
    rb"\d \S+ eni-\S+ \S+ \S+ \S+ \S+ \S+ \S+ \S+ \d+ \d+ \S+ (OK|NODATA|SKIPDATA)\r?\n"
)
"""A line of AWS without a header."""


@dataclass(frozen=True)
class Format:
    """One map of ``formats.toml``, which explains the fields."""

    name: str
    summary: str
    map: Mapping[str, str]
    needs: list[str]
    any: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    start: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=lambda: [""])
    fields: list[str] = field(default_factory=list)
    inner: str | None = None
    remark: str = ""
    wall_clock: bool = False
    path: str | None = None
    sampling: int | None = None
    drop: Mapping[str, str] = field(default_factory=dict)

    def prefix(self, keys: set[str]) -> str | None:
        """What stands before the keys of a file; None if it is not of this format."""
        if keys & {*self.lacks} or (self.any and not keys & {*self.any}):
            return None
        every = (one for one in self.prefixes if {one + key for key in self.needs} <= keys)
        return next(every, None)


@cache
def formats() -> dict[str, list[Format]]:
    """All formats by their names."""
    text = (files("llmprism.ingest.readers") / "formats.toml").read_text(encoding="utf-8")
    found: dict[str, list[Format]] = {}
    for entry in tomllib.loads(text)["format"]:
        found.setdefault(entry["name"], []).append(Format(**entry))
    return found


def _keys(head: bytes, is_separated: bool) -> set[str]:
    if is_separated:
        first = head.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace")
        return {_dashed(name) for name in re.split(r'[\s",;|]+', first)}
    return {*first_keys(head)}


def _recognises(name: str, head: bytes, _name: str) -> bool:
    variants = formats()[name]
    keys = _keys(head, bool(variants[0].fields))
    is_line = bool(variants[0].fields) and bool(_LINE.match(head))
    return is_line or any(one.prefix(keys) is not None for one in variants)


def _read(name: str, source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a file of a known format."""
    variants = formats()[name]
    keys = _keys(source.head, bool(variants[0].fields))
    one = next((one for one in variants if one.prefix(keys) is not None), variants[0])
    prefix = one.prefix(keys) or ""
    mapping = {ours: f"{prefix}{theirs}" for ours, theirs in one.map.items()}
    notes.remark(f"{source}: {one.remark}" if one.remark else "")
    if one.fields:
        tables, names = _separated(one, source, notes)
        mapping = {ours: theirs for ours, theirs in mapping.items() if theirs in names}
        mapping |= {ours: _dashed(theirs) for ours, theirs in options.mapping.items()}
        chosen = choose(names, mapping, options.time_unit, str(source))
        notes.remark(unused(names, {**chosen, "drop": one.drop["key"]}))
        times: dict[str, list[str]] = {}
    else:
        mapping |= dict(options.mapping)
        times = {ours: _names_of(ours, getattr(one, ours), mapping) for ours in _JOINED}
        times = {ours: names for ours, names in times.items() if getattr(one, ours)}
        more = {name for names in times.values() for name in names} | {*one.drop.values()}
        names = sorted({*mapping.values(), *more})
        joined = {f"{ours}_ns": _JOINED[ours] for ours in times}
        unit = None if times else options.time_unit
        chosen = choose([*names, *joined.values()], mapping | joined, unit, str(source))
        tables = text_tables(source, names, notes, one.inner)
    for table in tables:
        table = _kept(table, one, notes)
        for ours, theirs in times.items():
            table = table.append_column(_JOINED[ours], _known(table, theirs, one, ours, options))
        read_as = replace(options, time_unit="ns") if times else options
        yield _constant(convert(table, chosen, read_as, has_wall_clock=one.wall_clock), one)


def _names_of(ours: str, names: list[str], mapping: Mapping[str, str]) -> list[str]:
    """The keys of a time, best first; only the mapped one, if one is."""
    mapped = mapping.get(f"{ours}_ns", mapping.get(ours))
    return [mapped] if mapped else names


def _known(
    table: pa.Table, names: list[str], one: Format, ours: str, options: Options
) -> pa.ChunkedArray:
    """Times in ns from the first key that has one."""
    is_own = names == getattr(one, ours)
    found = [
        times_ns(table[name], unit_in(name) or ("s" if is_own else options.time_unit))
        for name in names
    ]
    return pc.coalesce(*(pc.if_else(pc.equal(each, 0), None, each) for each in found))


def _separated(one: Format, source: Source, notes: Notes) -> tuple[Iterator[pa.Table], list[str]]:
    has_header = not _LINE.match(source.head)
    names, separator = header(source) if has_header else (one.fields, SPACES)
    names = [_dashed(name) for name in names]
    return separated_tables(source, names, separator, notes, has_header=has_header), names


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _kept(table: pa.Table, one: Format, notes: Notes) -> pa.Table:
    """The table without what its format marks as no record of its own."""
    if not one.drop or one.drop["key"] not in table.column_names:
        return table
    marked = pc.equal(pc.utf8_lower(table[one.drop["key"]]), one.drop["value"])
    marked = pc.fill_null(marked, False)
    notes.drop(one.drop["reason"], pc.sum(marked).as_py() or 0)
    return table.filter(pc.invert(marked))


def _constant(batch: pa.Table, one: Format) -> pa.Table:
    """The batch with what holds for all records of a format."""
    for name in ("path", "sampling"):
        value = getattr(one, name)
        if value is not None:
            column = pa.array([value] * batch.num_rows, SCHEMA.field(name).type)
            place = SCHEMA.get_field_index(name)
            batch = batch.set_column(place, SCHEMA.field(name), column)
    return batch


for _name, _variants in formats().items():
    register(_name, _variants[0].summary, partial(_recognises, _name))(partial(_read, _name))


@register(
    "json",
    "JSON of any exporter; --map names keys, a.b in objects",
    lambda head, _name: bool(first_keys(head)),
)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of JSON of any exporter."""
    keys = first_keys(source.head)
    where = f"{source} (JSON of no exporter that is known)"
    chosen = choose(keys, options.mapping, options.time_unit, where)
    notes.remark(unused(keys, chosen))
    rates = [key for key in keys if _SAMPLING.search(key)]
    if rates and "sampling" not in chosen:
        notes.remark(
            f"{source}: {rates[0]!r} may be a rate of sampling; counts are as written "
            f"(--map sampling={rates[0]} multiplies them)"
        )
    for table in text_tables(source, sorted(set(chosen.values())), notes):
        yield from convert_both(table, chosen, options)
