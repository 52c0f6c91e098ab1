"""nfdump's formats for people: ``line``, ``long``, ``extended``, ``biline`` and ``fmt:...``.

The heading of a column shows what its values look like, so the heading line becomes the pattern of
the lines. Columns are divided by spaces, and some values have spaces: times, and counts such as
``15.0 M``, which nfdump has rounded (``-N`` prints all digits).

Reference: https://github.com/phaag/nfdump, ``src/output/output_fmt.c``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from llmprism.ingest.columns import choose
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.readers.nfdump_csv import LOCAL
from llmprism.ingest.records import BATCH_ROWS
from llmprism.ingest.sources import BROKEN, Source
from llmprism.ingest.tables import convert
from prism_common.errors import Problem, UserError

_TIME = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)"
_SECONDS = r"(\d+\.\d+)"
_COUNT = r"(\d+(?:\.\d+)?(?: [KMGT](?=\s|$))?)"
_WITH_PORT = r"(\S+)[:.](\d+|\d+\.\d+)"
_VALUES = {
    "Date first seen": _TIME,
    "Date last seen": _TIME,
    "First seen raw": _SECONDS,
    "Last seen raw": _SECONDS,
    "First seen GMT": _TIME,
    "Last seen GMT": _TIME,
    "Duration": r"((?:\d+d )?\d\d:\d\d:\d\d\.\d+|\d+\.\d+)",
    "Src IP Addr:Port": _WITH_PORT,
    "Dst IP Addr:Port": _WITH_PORT,
    **dict.fromkeys(
        ["Packets", "Bytes", "In Pkt", "In Byte", "Out Pkt", "Out Byte", "bps", "pps", "Bpp"],
        _COUNT,
    ),
    **dict.fromkeys(
        ["Proto", "Src IP Addr", "Dst IP Addr", "Src Pt", "Dst Pt", "Flags", "Flows", "Tos", "STos",
         "DTos", "Input", "Output", "Dir", "Router IP", "Src AS", "Dst AS"],
        r"(\S+)",
    ),
}  # fmt: skip
"""Values below a heading; a heading of an address with a port has two."""
_HEADING = re.compile("|".join(sorted(map(re.escape, _VALUES), key=len, reverse=True)))
_SCALES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_LONGEST = 1 << 12  # characters of a line
_OTHER = "line of nfdump that is no record"


def _recognises(head: bytes, _name: str) -> bool:
    line = head.split(b"\n", 1)[0]
    return line.startswith((b"Date first seen", b"Date last seen")) and b"," not in line


@register("nfdump_text", "nfdump -o line, long, extended or fmt (run it with TZ=UTC)", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records that nfdump printed."""
    names, pattern = _form(source)
    chosen = choose(names, options.mapping, options.time_unit, str(source))
    if "duration" in chosen:
        chosen.pop("end_ns", None)
    notes.remark(f"{source}: {LOCAL}")
    for rows in _rows(source, pattern, notes):
        table = pa.table(
            {
                name: pa.array(values, pa.string())
                for name, values in zip(names, zip(*rows, strict=True), strict=True)
            }
        )
        yield convert(table, chosen, options, has_wall_clock=True)


def _form(source: Source) -> tuple[list[str], re.Pattern[str]]:
    """Return the names of the columns that the first line heads, and the pattern of a record."""
    line = source.head.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    headings = _HEADING.findall(line)
    names = [
        name
        for heading in headings
        for name in (
            (heading.removesuffix(":Port"), f"{heading[:3]} Pt")
            if heading.endswith(":Port")
            else (heading,)
        )
    ]
    if not names or len(set(names)) < len(names):
        raise UserError(Problem("its first line is no heading of nfdump", str(source)))
    values = r"\s+(?:<?->\s+)?".join(_VALUES[heading] for heading in headings)
    return names, re.compile(rf"\s*{values}\b.*")


def _rows(source: Source, pattern: re.Pattern[str], notes: Notes) -> Iterator[list[list[str]]]:
    rows: list[list[str]] = []
    with source.text() as lines:
        try:
            lines.readline(_LONGEST)
            while line := lines.readline(_LONGEST):
                found = pattern.fullmatch(line.rstrip())
                if found:
                    rows.append([_plain(value, source, notes) for value in found.groups()])
                elif line.strip():
                    notes.drop(_OTHER)
                if len(rows) >= BATCH_ROWS:
                    yield rows
                    rows = []
        except BROKEN as error:
            notes.drop("file not read to its end")
            notes.remark(f"{source}: read up to where it is damaged: {error}")
    if rows:
        yield rows


def _plain(value: str, source: Source, notes: Notes) -> str:
    """Return a count without its scale."""
    scale = _SCALES.get(value[-1:])
    if scale is None or value[-2:-1] != " ":
        return value
    notes.remark(f"{source}: nfdump rounded large counts; -N prints all their digits")
    return str(round(float(value[:-2]) * scale))
