"""``nfdump -o csv``: NetFlow records as nfdump prints them, in any of its forms with a header.

Up to 1.7.4 the columns are called ``ts``, ``te``, ``td``, ``sa``; since then ``firstSeen``,
``duration``, ``srcAddr``, also in the forms ``csv-fast``, ``csv:%ts,...`` and ``fmt:%ts,%sa,...``.
Times are text in the time zone of nfdump (run it with ``TZ=UTC``), in whole seconds in many
versions, or numbers; the duration is exact to the ms. 0 is a time that nfdump does not know. The
summary after the records is left out. nfdump has scaled sampled counts already.

Reference: https://github.com/phaag/nfdump, ``src/output/output_csv.c``, ``output_csv_fast.c``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.columns import choose
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.readers.csv import header, text_tables
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError

_FOR_PEOPLE = re.compile(rb"Date (first|last) seen[^,\n]*\n")
_OLD = (b"ts,te,td,sa,da,sp,dp,pr,", b"ts,te,td,pr,")
_HEADINGS = {"firstseen", "lastseen", "date first seen", "date last seen", "first seen raw",
             "last seen raw", "first seen gmt", "last seen gmt"}  # fmt: skip
_ADDRESSES = {"srcaddr", "dstaddr", "src ip addr", "dst ip addr"}
LOCAL = (
    "nfdump prints times in the time zone of its machine; they are read as UTC (run it with TZ=UTC)"
)


def _recognises(head: bytes, _name: str) -> bool:
    words = {word.strip().lower() for word in head.split(b"\n", 1)[0].decode("latin-1").split(",")}
    is_own = head.startswith(_OLD) or bool(_FOR_PEOPLE.match(head))
    return is_own or bool(words & _HEADINGS and words & _ADDRESSES)


@register("nfdump_csv", "nfdump -o csv (run it with TZ=UTC)", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records that nfdump printed; lines for people are a :class:`UserError`."""
    if _FOR_PEOPLE.match(source.head):
        what = "what nfdump prints for people is no table"
        raise UserError(Problem(what, str(source), "print it as one: TZ=UTC nfdump -o csv"))
    names, delimiter = header(source, options.separator)
    chosen = choose(names, options.mapping, options.time_unit, str(source))
    if "duration" in chosen and not options.mapping.keys() & {"end", "end_ns"}:
        chosen.pop("end_ns", None)  # it has no ms where the duration has
    has_text, has_fractions = False, False
    for table in text_tables(source, names, delimiter, notes, "Summary"):
        start = table[chosen["start_ns"]]
        kept = table.filter(_begins_with_a_digit(start))
        notes.drop("line that does not begin with a time", table.num_rows - kept.num_rows)
        has_text |= bool(pc.any(pc.match_substring(start, ":")).as_py())
        has_fractions |= bool(pc.any(pc.match_substring(start, ".")).as_py())
        yield convert(kept, chosen, options, has_wall_clock=True)
    if has_text:
        notes.remark(f"{source}: {LOCAL}")
    if has_text and not has_fractions:
        notes.remark(
            f"{source}: nfdump printed times in whole seconds; read its nfcapd file instead, "
            "which has milliseconds"
        )


def _begins_with_a_digit(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mark the lines whose time is one; the summary's first line does not have one."""
    return pc.fill_null(pc.match_substring_regex(text, r"^\s*\d"), False)
