"""Decoding of NetFlow v5, v9 (RFC 3954) and IPFIX (RFC 7011), behind one class.

Templates belong to an exporter and its source id. Data that comes before its template waits for
it; what waits to the end is counted.

The `netflow` package of PyPI is not used: its last release fails on fields it does not list,
on padding and on datagrams that happen to be UTF-8, and takes Python steps for every field.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from llmprism.ingest.bounds import EARLIEST_NS, LARGEST
from llmprism.ingest.datagrams import Datagram
from llmprism.ingest.templates import (
    Columns,
    Header,
    Template,
    columns_of,
    headers_of,
    templates,
)
from llmprism.io.notes import Notes
from llmprism.numerics.arrays import Array

BROKEN_SET = "set of a datagram that does not fit its length or template"
NOT_EXPORT = "datagram that is no NetFlow v5, v9 or IPFIX"
RESERVED = "set of a kind that no standard defines"
WAITED = "set of records whose template never came"

_V5_RECORD = np.dtype(
    [
        ("8", "V4"), ("12", "V4"), ("_next", ">u4"), ("10", ">u2"), ("14", ">u2"), ("2", ">u4"),
        ("1", ">u4"), ("22", ">u4"), ("21", ">u4"), ("7", ">u2"), ("11", ">u2"), ("_pad", "u1"),
        ("6", "u1"), ("4", "u1"), ("_rest", "V9"),
    ]
)  # fmt: skip
_V5_NAMES = ("8", "12", "10", "14", "2", "1", "22", "21", "7", "11", "4")
_V5_HEADERS = headers_of(_V5_NAMES)
_WAITING_BYTES = 1 << 26
_MOST_TEMPLATES = 1 << 16

Scope = tuple[bytes, int, int]
"""Exporter, version, and source id (observation domain): what templates belong to."""


class Moment(NamedTuple):
    """When a datagram was sent: which one it is, and the clocks.

    ``number`` counts datagrams; ``uptime_ms`` is since the exporter's start (None: not known),
    ``clock_ns`` its wall clock, ``arrival_ns`` the collector's (None: not known).
    """

    number: int
    uptime_ms: int | None
    clock_ns: int
    arrival_ns: int | None

    @property
    def now_ns(self) -> int | None:
        """The wall clock: the exporter's, or the collector's if that is not set."""
        for clock_ns in (self.clock_ns, self.arrival_ns):
            if clock_ns is not None and EARLIEST_NS <= clock_ns <= LARGEST:
                return clock_ns
        return None


@dataclass(frozen=True)
class Records:
    """Records of one data set: columns by field, and what holds for all of them.

    Attributes
    ----------
    headers : which fields belong to one packet header, best first.
    is_options : whether they describe the exporter and not flows.
    """

    columns: Columns
    count: int
    headers: tuple[Header, ...]
    is_options: bool
    scope: Scope
    moment: Moment


@dataclass
class Decoder:
    """Turns datagrams into records."""

    notes: Notes
    _templates: dict[tuple[Scope, int], Template] = field(default_factory=dict)
    _waiting: dict[tuple[Scope, int], list[tuple[bytes, Moment]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _waiting_bytes: int = 0
    _number: int = -1

    def decode(self, datagram: Datagram) -> Iterator[Records]:
        """Yield the records of a datagram, and those that its templates make readable."""
        self._number += 1
        version = int.from_bytes(datagram.content[:2], "big")
        try:
            if version == 5:
                yield self._v5(datagram)
            elif version in (9, 10):
                yield from self._sets(datagram, version)
            else:
                self.notes.drop(NOT_EXPORT)
        except struct.error:
            self.notes.drop(BROKEN_SET)

    def end(self) -> None:
        """Count what still waits for its template."""
        self.notes.drop(WAITED, sum(len(sets) for sets in self._waiting.values()))

    def _v5(self, datagram: Datagram) -> Records:
        content = datagram.content
        count, uptime, seconds, rest, _, engine, sampling = struct.unpack_from(
            ">HIIIIHH", content, 2
        )
        whole = min(count, (len(content) - 24) // _V5_RECORD.itemsize)
        self.notes.drop(BROKEN_SET, int(whole < count))
        found = np.frombuffer(content, _V5_RECORD, whole, 24)
        columns: dict[str, Array] = {name: found[name] for name in ("8", "12")}
        columns |= {name: found[name].astype(np.uint64) for name in _V5_NAMES[2:]}
        columns["34"] = np.full(whole, sampling & 0x3FFF, dtype=np.uint64)
        clock_ns = seconds * 1_000_000_000 + min(rest, 999_999_999)
        moment = Moment(self._number, uptime, clock_ns, datagram.arrival_ns)
        return Records(columns, whole, _V5_HEADERS, False, (datagram.exporter, 5, engine), moment)

    def _sets(self, datagram: Datagram, version: int) -> Iterator[Records]:
        content = datagram.content
        if version == 9:
            uptime, seconds, _, source = struct.unpack_from(">IIII", content, 4)
            place, end = 20, len(content)
        else:
            length, seconds, _, source = struct.unpack_from(">HIII", content, 2)
            uptime, place, end = None, 16, min(length, len(content))
        scope = (datagram.exporter, version, source)
        moment = Moment(self._number, uptime, seconds * 1_000_000_000, datagram.arrival_ns)
        while place + 4 <= end:
            number, size = struct.unpack_from(">HH", content, place)
            if size < 4 or place + size > end:
                self.notes.drop(BROKEN_SET)
                return
            yield from self._set(number, content[place + 4 : place + size], scope, moment)
            place += size

    def _set(self, number: int, body: bytes, scope: Scope, moment: Moment) -> Iterator[Records]:
        if number < 4:
            version, are_options = {1: 9, 3: 10}.get(number, scope[1]), number in (1, 3)
            yield from self._learn(templates(body, version, are_options=are_options), scope)
        elif number >= 256:
            template = self._templates.get((scope, number))
            if template is None:
                self._wait((scope, number), body, moment)
            else:
                yield from self._data(template, body, scope, moment)
        else:
            self.notes.drop(RESERVED)

    def _wait(self, key: tuple[Scope, int], body: bytes, moment: Moment) -> None:
        if self._waiting_bytes + len(body) > _WAITING_BYTES:
            self.notes.drop(WAITED)
            return
        self._waiting_bytes += len(body)
        self._waiting[key].append((body, moment))

    def _learn(self, found: Iterator[tuple[int, Template]], scope: Scope) -> Iterator[Records]:
        for number, template in found:
            if len(self._templates) < _MOST_TEMPLATES:
                self._templates[scope, number] = template
            late = self._waiting.pop((scope, number), [])
            if late:
                self.notes.remark("a template came after its data, which had waited for it")
            for body, moment in late:
                self._waiting_bytes -= len(body)
                yield from self._data(template, body, scope, moment)

    def _data(
        self, template: Template, body: bytes, scope: Scope, moment: Moment
    ) -> Iterator[Records]:
        columns, count, is_cut = columns_of(template, body)
        self.notes.drop(BROKEN_SET, int(is_cut))
        if count:
            options = template.is_options
            yield Records(columns, count, template.headers, options, scope, moment)
