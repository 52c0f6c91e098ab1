"""Files of ``nfcapd``, read by the ``nfdump`` program: times in ms, any exporter.

Its JSON is read, not its text formats: those lose digits of the end in some versions. nfdump
scales sampled counts itself, marks such records, and lists the exporters' sampling rates.

Some versions (1.7.1) turn first and last packet around for IPFIX whose times count from the
exporter's start. If no record of a file begins before it ends, and some end before they begin,
they are turned back.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.errors import Problem, UserError
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import BATCH_ROWS, SCHEMA
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert

_MAGICS = (b"\x0c\xa5", b"\xa5\x0c")
_KEYS: dict[str, tuple[str, ...]] = {
    "start_ns": ("first", "t_first"),
    "end_ns": ("last", "t_last"),
    "src": ("src4_addr", "src6_addr"),
    "dst": ("dst4_addr", "dst6_addr"),
    "src_port": ("src_port",),
    "dst_port": ("dst_port",),
    "protocol": ("proto",),
    "packets": ("in_packets",),
    "bytes": ("in_bytes",),
    "observer": ("ip4_router", "ip6_router"),
}
_MISSING = "nfcapd files are read by the program nfdump, which is not installed"
_INSTALL = "install it: apt install nfdump, dnf install nfdump, or brew install nfdump"
_SAMPLER = re.compile(r"packet interval: (\d{1,9}), packet space: (\d{1,9})")
_PIECE = 1 << 20


def _recognises(head: bytes, name: str) -> bool:
    return head.startswith(_MAGICS) or name.startswith("nfcapd.2")


@register("nfcapd", "files of nfcapd, through the program nfdump", _recognises)
def read(source: Source, _options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records that nfdump finds in a file."""
    program = shutil.which("nfdump")
    if program is None:
        raise UserError(Problem(_MISSING, str(source), _INSTALL))
    command = [program, "-r", str(source.path.resolve()), "-o", "json"]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env={"TZ": "UTC", "LC_ALL": "C"}
        ) as running:
            assert running.stdout is not None
            yield from _turned(_tables(running.stdout, _rate(program, source)), source, notes)
        if running.returncode:
            errors.seek(0)
            lines = errors.read(400).decode(errors="replace").strip().splitlines()
            notes.drop("file not read to its end")
            notes.remark(f"{source}: nfdump: {lines[0] if lines else running.returncode}")


def _turned(tables: Iterator[pa.Table], source: Source, notes: Notes) -> Iterator[pa.Table]:
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
        yield table.select(_TURNED).rename_columns(table.column_names) if is_turned else table


_TURNED = [{"start_ns": "end_ns", "end_ns": "start_ns"}.get(name, name) for name in SCHEMA.names]


def _rate(program: str, source: Source) -> int:
    """Return the largest sampling rate of the file's exporters."""
    command = [program, "-E", str(source.path.resolve())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    found = [(int(one[1]), int(one[2])) for one in _SAMPLER.finditer(done.stdout)]
    return max((round((taken + left) / taken) for taken, left in found if taken), default=1)


def _tables(output: IO[bytes], rate: int) -> Iterator[pa.Table]:
    rows: list[list[str | None]] = []
    for content in _objects(output):
        row = [_first(content, keys) for keys in _KEYS.values()]
        rows.append([*row, str(rate if content.get("sampled") else 1)])
        if len(rows) >= BATCH_ROWS:
            yield _table(rows)
            rows = []
    if rows:
        yield _table(rows)


def _objects(output: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects of nfdump's array, whether they span lines or not."""
    decoder = json.JSONDecoder()
    held = ""
    while piece := output.read(_PIECE):
        held += piece.decode("utf-8", errors="replace")
        done = 0
        while (start := held.find("{", done)) >= 0:
            try:
                content, done = decoder.raw_decode(held, start)
            except ValueError:
                done = start  # the object goes on in the next piece
                break
            yield content
        held = held[done:]


def _first(content: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((str(content[key]) for key in keys if key in content), None)


def _table(rows: list[list[str | None]]) -> pa.Table:
    names = [*_KEYS, "sampling"]
    columns = zip(*rows, strict=True)
    table = pa.table(
        {name: pa.array(one, pa.string()) for name, one in zip(names, columns, strict=True)}
    )
    return convert(table, dict(zip(names, names, strict=True)), Options())
