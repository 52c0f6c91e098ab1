"""JSON lines of goflow2: NetFlow, IPFIX and sFlow as its collector prints them.

The keys are those of its ``FlowMessage``. Version 2 writes ``time_flow_start_ns``. Version 1
writes ``TimeFlowStart`` in s, ``TimeFlowStartMs`` in ms from its version 1.1 on, or the same
names in the form ``time_flow_start_ms``. A time that it does not know is 0: then the next time
of the flow is taken, at last the time of arrival at the collector.

``bytes`` and ``packets`` are what the exporter counted, not scaled: they are multiplied by
``sampling_rate`` here. NetObserv writes the same keys, but calls the rate ``Sampling`` and the
observation point ``AgentIP``: its agents are on the hosts, so they are no switches. What it marks
as ``Duplicate`` is another interface's sight of the same flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.columns import choose, unit_in
from llmprism.ingest.json_lines import first_object, text_tables
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.ingest.times import times_ns

_SNAKE = {"src": "src_addr", "dst": "dst_addr", "bytes": "bytes", "packets": "packets"}
_SNAKE |= {"src_port": "src_port", "dst_port": "dst_port", "protocol": "proto"}
_SNAKE |= {"sampling": "sampling_rate", "observer": "sampler_address"}
_NETOBSERV = {"sampling": "Sampling", "observer": "AgentIP"}
_DUPLICATE = "Duplicate"
SEEN_BEFORE = "flow that NetObserv marks as a duplicate"
_UNITS = {"_ns": "ns", "_ms": "ms", "": "s"}  # finest first
_TIMES = {
    "start": [f"time_{what}{unit}" for what in ("flow_start", "received") for unit in _UNITS],
    "end": [f"time_{what}{unit}" for what in ("flow_end", "received") for unit in _UNITS],
}
_JOINED = {ours: f"\0{ours}" for ours in _TIMES}
"""Names of the joined times: no key of the source is called so."""


def _camel(name: str) -> str:
    """Return a name of version 2 as version 1 writes it.

    >>> _camel("time_flow_start_ms"), _camel("src_addr")
    ('TimeFlowStartMs', 'SrcAddr')
    """
    return "".join(part.capitalize() for part in name.split("_"))


def _recognises(head: bytes, _name: str) -> bool:
    keys = first_object(head).keys()
    of_akvorado = "ExporterAddress" in keys
    return not of_akvorado and any(
        style("src_addr") in keys and any(style(name) in keys for name in _TIMES["start"])
        for style in (str, _camel)
    )


@register("goflow2", "JSON lines of goflow2", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a goflow2 log."""
    style = _camel if _camel("src_addr") in first_object(source.head) else str
    theirs = {ours: style(name) for ours, name in _SNAKE.items()}
    is_netobserv = _is_netobserv(source.head)
    mapping = {**theirs, **(_NETOBSERV if is_netobserv else {}), **options.mapping}
    times = {ours: _names_of_time(ours, style, mapping) for ours in _TIMES}
    further = {_DUPLICATE} if is_netobserv else set()
    keys = sorted({*mapping.values(), *times["start"], *times["end"], *further})
    joined = {f"{ours}_ns": name for ours, name in _JOINED.items()}
    chosen = choose([*keys, *_JOINED.values()], {**mapping, **joined}, None, str(source))
    for table in text_tables(source, keys, notes):
        if is_netobserv:
            table = _each_once(table, notes)
        for ours, units in times.items():
            known = [
                _known_ns(table[name], unit or unit_in(name) or options.time_unit)
                for name, unit in units.items()
            ]
            table = table.append_column(_JOINED[ours], pc.coalesce(*known))
        batch = convert(table, chosen, replace(options, time_unit="ns"))
        yield _beside_switches(batch) if is_netobserv else batch


def _is_netobserv(head: bytes) -> bool:
    keys = first_object(head).keys()
    return "AgentIP" in keys or ("Sampling" in keys and "SamplingRate" not in keys)


def _each_once(table: pa.Table, notes: Notes) -> pa.Table:
    """The table without what its agent marks as seen before."""
    again = pc.fill_null(pc.equal(pc.utf8_lower(table[_DUPLICATE]), "true"), False)
    notes.drop(SEEN_BEFORE, pc.sum(again).as_py() or 0)
    return table.filter(pc.invert(again))


def _beside_switches(batch: pa.Table) -> pa.Table:
    """The batch with unknown paths: its observation points are hosts."""
    unknown = pa.array(["?"] * batch.num_rows, pa.string())
    return batch.set_column(SCHEMA.get_field_index("path"), SCHEMA.field("path"), unknown)


def _names_of_time(
    ours: str, style: Callable[[str], str], mapping: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the keys of a time and their units, best first; only the mapped one, if one is."""
    mapped = mapping.get(f"{ours}_ns", mapping.get(ours))
    if mapped:
        return {mapped: None}
    return {style(name): _unit(name) for name in _TIMES[ours]}


def _unit(name: str) -> str:
    return next(unit for ending, unit in _UNITS.items() if name.endswith(ending))


def _known_ns(column: pa.ChunkedArray, unit: str | None) -> pa.Array:
    """Return times in ns; null where the time is unknown, which goflow2 writes as 0."""
    found = times_ns(column, unit)
    return pc.if_else(pc.equal(found, 0), None, found)
