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
from typing import Any

import numpy as np

from llmprism.ingest.datagrams import Datagram
from llmprism.ingest.notes import Notes
from llmprism.ingest.templates import (
    Template,
    columns_of,
    ipfix_options,
    templates,
    v9_options,
)

BROKEN_SET = "set of a datagram that does not fit its length or template"
NOT_EXPORT = "datagram that is no NetFlow v5, v9 or IPFIX"
RESERVED = "set of a kind that no standard defines"
WAITED = "set of records whose template never came"

_V5_RECORD = np.dtype(
    [
        ("8", ">u4"), ("12", ">u4"), ("_next", ">u4"), ("_if", ">u4"), ("2", ">u4"),
        ("1", ">u4"), ("22", ">u4"), ("21", ">u4"), ("7", ">u2"), ("11", ">u2"), ("_pad", "u1"),
        ("6", "u1"), ("4", "u1"), ("_rest", "V9"),
    ]
)  # fmt: skip
_WAITING_BYTES = 1 << 26
_LARGEST_MS = 1 << 42  # since 1970: in the year 2109
_MOST_TEMPLATES = 1 << 16
_RATES = ("34", "50", "305")
_SAMPLER = ("48", "302")

Scope = tuple[bytes, int, int]
"""Exporter, version, and source id (observation domain): what templates belong to."""


@dataclass(frozen=True)
class Records:
    """Records of one data set: columns by field number, and the datagram's clock."""

    columns: dict[str, np.ndarray[Any, Any]]
    count: int
    scope: Scope
    uptime_ms: int | None
    clock_ns: int
    sampling: int


@dataclass
class Decoder:
    """Turns datagrams into records; keeps the facts that exporters report about themselves."""

    notes: Notes
    _templates: dict[tuple[Scope, int], Template] = field(default_factory=dict)
    _waiting: dict[tuple[Scope, int], list[tuple[bytes, int | None, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _waiting_bytes: int = 0
    _sampling: dict[tuple[Scope, int], int] = field(default_factory=dict)
    boot_ns: dict[Scope, int] = field(default_factory=dict)

    def decode(self, datagram: Datagram) -> Iterator[Records]:
        """Yield the records of a datagram, and those that its templates make readable."""
        version = int.from_bytes(datagram.content[:2], "big")
        try:
            if version == 5:
                yield self._v5(datagram)
            elif version in (9, 10):
                yield from self._sets(datagram, version)
            else:
                self.notes.drop(NOT_EXPORT)
        except (struct.error, ValueError):
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
        columns = {name: found[name] for name in ("8", "12", "2", "1", "22", "21", "7", "11", "4")}
        clock = seconds * 1_000_000_000 + min(rest, 999_999_999)
        scope = (datagram.exporter, 5, engine)
        return Records(columns, whole, scope, uptime, clock, max(sampling & 0x3FFF, 1))

    def _sets(self, datagram: Datagram, version: int) -> Iterator[Records]:
        content = datagram.content
        if version == 9:
            uptime, seconds, _, source = struct.unpack_from(">IIII", content, 4)
            place, end = 20, len(content)
        else:
            length, seconds, _, source = struct.unpack_from(">HIII", content, 2)
            uptime, place, end = None, 16, min(length, len(content))
        scope = (datagram.exporter, version, source)
        clock = (uptime, seconds * 1_000_000_000)
        while place + 4 <= end:
            number, size = struct.unpack_from(">HH", content, place)
            if size < 4 or place + size > end:
                self.notes.drop(BROKEN_SET)
                return
            yield from self._set(number, content[place + 4 : place + size], scope, clock)
            place += size

    def _set(
        self, number: int, body: bytes, scope: Scope, clock: tuple[int | None, int]
    ) -> Iterator[Records]:
        if number in (0, 2):
            yield from self._learn(templates(body, scope[1]), scope)
        elif number == 1:
            yield from self._learn(v9_options(body), scope)
        elif number == 3:
            yield from self._learn(ipfix_options(body), scope)
        elif number >= 256:
            template = self._templates.get((scope, number))
            if template is None:
                self._wait((scope, number), body, clock)
            else:
                yield from self._data(template, body, scope, clock)
        else:
            self.notes.drop(RESERVED)

    def _wait(self, key: tuple[Scope, int], body: bytes, clock: tuple[int | None, int]) -> None:
        if self._waiting_bytes + len(body) > _WAITING_BYTES:
            self.notes.drop(WAITED)
            return
        self._waiting_bytes += len(body)
        self._waiting[key].append((body, *clock))

    def _learn(self, found: Iterator[tuple[int, Template]], scope: Scope) -> Iterator[Records]:
        for number, template in found:
            if len(self._templates) < _MOST_TEMPLATES:
                self._templates[scope, number] = template
            late = self._waiting.pop((scope, number), [])
            if late:
                self.notes.remark("a template came after its data, which had waited for it")
            for body, uptime, clock_ns in late:
                self._waiting_bytes -= len(body)
                yield from self._data(template, body, scope, (uptime, clock_ns))

    def _data(
        self, template: Template, body: bytes, scope: Scope, clock: tuple[int | None, int]
    ) -> Iterator[Records]:
        columns, count = columns_of(template, body)
        if template.is_options:
            self._describe(columns, count, scope)
        elif count:
            yield Records(columns, count, scope, *clock, self._rate(columns, scope))

    def _describe(self, columns: dict[str, Any], count: int, scope: Scope) -> None:
        """Keep the sampling rate and the boot time that an exporter reports."""
        for row in range(count):
            sampler = next((int(columns[one][row]) for one in _SAMPLER if one in columns), 0)
            for name in _RATES:
                if name in columns and columns[name].dtype.kind == "u":
                    rate = int(columns[name][row])
                    if name == "305" and "306" in columns and rate:
                        rate = round((rate + int(columns["306"][row])) / rate)
                    self._sampling[scope, sampler] = self._sampling[scope, 0] = max(rate, 1)
            if "160" in columns and columns["160"].dtype.kind == "u":
                start_ms = int(columns["160"][row])
                if start_ms < _LARGEST_MS:
                    self.boot_ns[scope] = start_ms * 1_000_000

    def _rate(self, columns: dict[str, Any], scope: Scope) -> int:
        for name in _RATES:
            if name in columns and columns[name].dtype.kind == "u":
                return max(int(columns[name].max()), 1)
        sampler = next((int(columns[one][0]) for one in _SAMPLER if one in columns), 0)
        return self._sampling.get((scope, sampler), self._sampling.get((scope, 0), 1))
