"""Files of ``nfcapd``, read by the ``nfdump`` program: times in ms, any exporter.

Its JSON is read, not its text formats: those lose digits of the end in some versions. nfdump
scales sampled counts itself, marks such records, and lists the exporters' sampling rates.

nfdump writes 1970 for a time that it does not know: then the record is an instant, at last that of
its arrival at the collector. It keeps two pairs of counters, "in" and "out". Out counters are those
of the reverse direction (biflows, firewalls), or of the same packets as they leave: where the pairs
are equal or only the second has bytes, the record is one direction, and else two.

Some versions (1.7.1) turn first and last packet around for IPFIX whose times count from the
exporter's start. If no record of a file begins before it ends, and some end before they begin,
they are turned back.

nfdump may fail on a damaged file, or never end: if it writes nothing for a while, it is ended, and
what it wrote until then stands.
"""

from __future__ import annotations

import io
import json
import re
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import EARLIEST_NS
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import SCHEMA, text_tables, turned
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.ingest.times import times_ns
from llmprism.ingest.volumes import NO_BYTES
from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError
from prism_common.files import resolved

_SILENCE_S = 5.0  # that nfdump may be silent, and 1 s more for each piece of the file
_PIECE_BYTES = 10_000_000
UNREADABLE = "record of nfdump that cannot be read"
_MAGICS = (b"\x0c\xa5", b"\xa5\x0c")
_KEYS: dict[str, tuple[str, ...]] = {
    "start_ns": ("first", "t_first"), "end_ns": ("last", "t_last"), "src_port": ("src_port",),
    "src": ("src4_addr", "src6_addr"), "dst": ("dst4_addr", "dst6_addr"), "dst_port": ("dst_port",),
    "protocol": ("proto",), "packets": ("in_packets",), "bytes": ("in_bytes",),
    "observer": ("ip4_router", "ip6_router"),
}  # fmt: skip
_MORE: dict[str, tuple[str, ...]] = {
    "out_packets": ("out_packets",),
    "out_bytes": ("out_bytes",),
    "happened": ("t_event",),
    "received": ("received", "t_received"),
    "event": ("event", "event_id"),
}
_MISSING = "nfcapd files are read by the program nfdump, which is not installed"
_INSTALL = "install it: apt install nfdump, dnf install nfdump, or brew install nfdump"
_EXPORTER = re.compile(r"SysID:\s*(\d{1,9})|packet interval: (\d{1,9}), packet space: (\d{1,9})")
_PIECE = 1 << 20
_LONGEST_RECORD = 1 << 16  # characters


def _recognises(head: bytes, name: str) -> bool:
    return head.startswith(_MAGICS) or name.startswith("nfcapd.2")


@register("nfcapd", "files of nfcapd, through the program nfdump", _recognises)
def read(source: Source, _options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records that nfdump finds in a file."""
    program = shutil.which("nfdump")
    if program is None:
        raise UserError(Problem(_MISSING, str(source), _INSTALL))
    rates = _rates(program, source)
    with _output_of(
        [program, "-r", str(resolved(source.path)), "-o", "json"], source, notes
    ) as out:
        tables = (_completed(table, notes) for table in _tables(out, rates, notes))
        for table in _put_right(tables, source, notes):
            yield from _directions(table, source, notes)


def _rates(program: str, source: Source) -> dict[str, int]:
    """Return the largest sampling rate of each exporter of the file, by its number."""
    with _output_of([program, "-E", str(resolved(source.path))], source, Notes()) as out:
        text = out.read(_PIECE).decode(errors="replace")
    rates: dict[str, int] = {}
    exporter = ""
    for found in _EXPORTER.finditer(text):
        exporter = found[1] or exporter
        if found[2] and int(found[2]):
            rate = round((int(found[2]) + int(found[3])) / int(found[2]))
            rates[exporter] = max(rate, rates.get(exporter, 1))
    return rates


def _tables(output: IO[bytes], rates: dict[str, int], notes: Notes) -> Iterator[pa.Table]:
    """Yield tables of text with the columns of both tables of keys, and ``sampling``."""
    usual = max(rates.values(), default=1)

    def rows() -> Iterator[list[str | None]]:
        for content in _objects(output, notes):
            row = [_first(content, keys) for keys in (*_KEYS.values(), *_MORE.values())]
            own = rates.get(str(content.get("export_sysid")), usual)
            yield [*row, str(own if content.get("sampled") else 1)]

    yield from text_tables(rows(), [*_KEYS, *_MORE, "sampling"])


def _objects(output: IO[bytes], notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield the objects of nfdump's array, whether they span lines or not."""
    decoder = json.JSONDecoder(strict=False)
    held, is_end = "", False
    while not is_end:
        piece = output.read(_PIECE)
        is_end = not piece
        held += piece.decode("utf-8", errors="replace")
        done = 0
        while (start := held.find("{", done)) >= 0:
            if not is_end and len(held) - start < _LONGEST_RECORD:
                break  # it may go on in the next piece
            try:
                content, length = decoder.raw_decode(held[start : start + _LONGEST_RECORD])
            except (ValueError, RecursionError):
                notes.drop(UNREADABLE)
                done = start + 1
                continue
            done = start + length
            yield content
        held = held[max(start, done) :]


def _first(content: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((str(content[key]) for key in keys if key in content), None)


def _completed(table: pa.Table, notes: Notes) -> pa.Table:
    """Return a batch, with the out counters beside it; events that count nothing are left out."""
    chosen = {name: name for name in (*_KEYS, "sampling")}
    batch = convert(table, chosen, Options())
    out = convert(table, chosen | {"packets": "out_packets", "bytes": "out_bytes"}, Options())
    batch = batch.append_column("out_bytes", pc.fill_null(out["bytes"], 0))
    batch = batch.append_column("out_packets", out["packets"])
    start, end, happened, received = (
        _known_ns(table[name]) for name in ("start_ns", "end_ns", "happened", "received")
    )
    batch = _with(batch, "start_ns", pc.coalesce(start, end, happened, received))
    batch = _with(batch, "end_ns", pc.coalesce(end, happened, start, received))
    counts = pc.greater(pc.add(pc.fill_null(batch["bytes"], 0), batch["out_bytes"]), 0)
    keep = pc.or_(counts, table["event"].is_null())
    notes.drop(NO_BYTES, len(batch) - pc.sum(keep).as_py())
    return batch.filter(keep)


def _known_ns(text: pa.ChunkedArray) -> pa.Array:
    """Return times in ns; null where nfdump does not know the time, for which it writes 1970."""
    times = times_ns(text)
    return pc.if_else(pc.less(times, EARLIEST_NS), None, times)


def _with(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), values)


def _put_right(tables: Iterator[pa.Table], source: Source, notes: Notes) -> Iterator[pa.Table]:
    """Turn first and last packet back where a file has them the wrong way around."""
    is_turned: bool | None = None  # unknown until a record lasts
    for table in tables:
        if is_turned is None:
            forward = pc.any(pc.less(table["start_ns"], table["end_ns"])).as_py()
            backward = pc.any(pc.greater(table["start_ns"], table["end_ns"])).as_py()
            is_turned = None if not forward and not backward else bool(backward and not forward)
            if is_turned:
                notes.remark(
                    f"{source}: nfdump gives last packets before first ones; they are turned back"
                )
        start, end = table["start_ns"], table["end_ns"]
        yield _with(_with(table, "start_ns", end), "end_ns", start) if is_turned else table


def _directions(table: pa.Table, source: Source, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a table: one for each direction that it counts."""
    has_in = pc.not_equal(pc.fill_null(table["bytes"], -1), 0)
    has_out = pc.greater(table["out_bytes"], 0)
    leaving = pc.and_(has_out, pc.invert(has_in))
    for name in ("bytes", "packets"):
        counts = pc.if_else(leaving, table[f"out_{name}"], table[name])
        table = _with(table, name, counts)
    yield table.select(SCHEMA.names)
    both = table.filter(pc.and_(has_out, has_in))
    equal = pc.sum(pc.equal(both["bytes"], both["out_bytes"])).as_py() or 0
    if 2 * equal > both.num_rows:
        notes.remark(f"{source}: the out counters of nfcapd repeat its in counters: not added")
    elif both.num_rows:
        reverse = _with(_with(both, "bytes", both["out_bytes"]), "packets", both["out_packets"])
        yield turned(reverse.select(SCHEMA.names))


@contextmanager
def _output_of(command: Sequence[str], source: Source, notes: Notes) -> Iterator[IO[bytes]]:
    """Run a program on a source; yield what it writes. A failure is counted and remarked on."""
    silence_s = _SILENCE_S + source.size / _PIECE_BYTES
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env={"TZ": "UTC", "LC_ALL": "C"}
        ) as running:
            stream = cast("IO[bytes]", running.stdout)
            output = _Output(stream, silence_s)
            try:
                yield cast("IO[bytes]", io.BufferedReader(output, 1 << 16))
                stream.close()  # a program that goes on writing ends
                if not output.is_silent:
                    running.wait(silence_s)
            except subprocess.TimeoutExpired:
                output.is_silent = True
            finally:
                running.kill()
        if output.is_silent or running.returncode > 0:
            errors.seek(0)
            lines = errors.read(400).decode(errors="replace").strip().splitlines()
            why = [f"silent for {silence_s:.0f} s"] if output.is_silent else lines
            notes.drop("file not read to its end")
            notes.remark(f"{source}: {command[0]}: {[*why, running.returncode][0]}")


class _Output(io.RawIOBase):
    """What a program writes, until it ends or is silent for too long."""

    def __init__(self, stream: IO[bytes], silence_s: float) -> None:
        self._stream = stream
        self._silence_s = silence_s
        self._ready = selectors.DefaultSelector()
        self._ready.register(stream, selectors.EVENT_READ)
        self.is_silent = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self.is_silent or not self._ready.select(self._silence_s):
            self.is_silent = True
            return 0
        taken = cast("Any", self._stream).raw.readinto(target)
        return int(taken)
